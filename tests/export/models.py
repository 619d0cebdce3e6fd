"""Small Transformers for the tests of conversion to other programs' formats."""

from itertools import product

import torch

from regard.config import TransformerConfig
from regard.inference.ctranslate2 import SUPPORTED
from regard.models.build import build_translator
from regard.text.symbols import END, PAD, START

WORDS, LIMIT, SOURCES = 37, 24, 40
SHAPE = {"hidden_size": 16, "num_heads": 2, "feed_forward_size": 12, "encoder_layers": 2, "decoder_layers": 1}
DEEP = ("layer", "deep", "relu", "rotary")
CONVERTED = [parts for parts in product(*SUPPORTED.values()) if "deep" not in parts or parts == DEEP]
"""`deep` becomes `post`; `test_a_model_without_scales_computes_the_same` tests what it differs by."""


def build(**changes):
    torch.manual_seed(3)
    config = TransformerConfig(**{"tie_embeddings": "all", "norm_order": "post", **SHAPE, **changes})
    return build_translator(config, source_size=WORDS, target_size=WORDS).eval()


def draw_sources():
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 25, (SOURCES,), generator=generator).tolist()
    return [torch.randint(4, WORDS, (length,), generator=generator).tolist() for length in lengths]


def pad(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


@torch.no_grad()
def draw_model(source, **changes):
    """Return a model with large random weights, those of norms and biases too, whose translations end now and then."""
    model = build(output_bias=True, tie_embeddings="none", **changes)
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    model.output.weight.mul_(2)
    model.output.bias[: START + 1] = -30  # symbols that no trained model gives, and that CTranslate2 would not be fed
    logits = model.logits(model.decode(torch.randint(4, WORDS, (SOURCES, 8)), model.encode(source, source != PAD))[0])
    model.output.bias[END] += (logits[..., 4:].amax(-1) - logits[..., END]).quantile(0.3)
    return model
