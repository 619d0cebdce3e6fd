"""Convert a Transformer of regard to the format of JoeyNMT 2.3, with a vocabulary whose symbols are spelt as numbers.

JoeyNMT has pre-norm and post-norm layers. DeepNet's scaled residual connections are converted to post-norm: the last linear map
before each connection is divided by the scale. JoeyNMT has no rotary positions, no gated feed-forward layers, no RMSNorm, and
no untied embeddings.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.inference.ctranslate2 import describe, lacks, read_parts, unscaled
from regard.layers.positions import sinusoids
from regard.models.transformer.translator import TransformerTranslator
from regard.text.symbols import PAD, SPECIAL_TOKENS, UNKNOWN

JOEYNMT = {"norm": ("layer",), "norm_order": ("pre", "post"), "feed_forward": ("relu", "gelu"), "positions": ("sinusoidal",)}
"""Settings of a model that JoeyNMT 2.3 supports. Embeddings and output are tied, the output has no bias, and norm_order `deep`
is converted to `post`."""


def joeynmt_lacks(model: TransformerTranslator) -> str:
    """Return the parts of the model that JoeyNMT does not support; empty if the model can be converted."""
    found = [lacks(read_parts(unscaled(model)), JOEYNMT)]
    tied = model.output.weight is model.source_embedding.weight and model.output.weight is model.target_embedding.weight
    found += [] if tied else ["embeddings that are not all tied"]
    found += [] if model.output.bias is None else ["output_bias: true"]
    return ", ".join(each for each in found if each)


def spellings(size: int) -> list[str]:
    """Return the spelling of each symbol of a vocabulary. Symbols are spelt as numbers, so that none contains a space."""
    return [*SPECIAL_TOKENS, *(f"p{number}" for number in range(len(SPECIAL_TOKENS), size))]


def spell(ids: Sequence[int]) -> str:
    """Return the line that spells the symbols of a sentence."""
    return " ".join(f"p{number}" if number >= len(SPECIAL_TOKENS) else SPECIAL_TOKENS[number] for number in ids)


def read_spelt(line: str) -> list[int]:
    """Return the ids of the symbols that a line spells."""
    return [int(piece[1:]) if piece[1:].isdecimal() else UNKNOWN for piece in line.split()]


def to_joeynmt(model: TransformerTranslator, folder: Path) -> None:
    """Write JoeyNMT's checkpoint `best.ckpt` with the same weights. In JoeyNMT, the unknown symbol comes before padding.

    Args:
        model: Model that JoeyNMT supports, whose embeddings and output are all tied.
        folder: Folder of JoeyNMT's run.

    Raises:
        RegardError: If the model has a part that JoeyNMT does not support.
    """
    if lacking := joeynmt_lacks(model):
        raise RegardError(
            f"the model has {lacking}, which JoeyNMT 2.3 does not support; it supports {describe(JOEYNMT)}, "
            "tie_embeddings: all, output_bias: false"
        )
    model = unscaled(model)
    order = [UNKNOWN, PAD, *range(2, model.output.out_features)]
    embedding = model.output.weight.detach().float()[order].clone()
    state = dict.fromkeys(("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"), embedding)
    table = sinusoids(5000, model.encoder.size).float()[None]
    state |= {"encoder.pe.pe": table, "decoder.pe.pe": table}
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        state |= {} if stack.norm is None else _named(f"{name}.layer_norm", stack.norm)
    for number, layer in enumerate(model.encoder.layers):
        name = f"encoder.layers.{number}"
        state |= _joeynmt_attention(f"{name}.src_src_att", layer.attention)
        state |= _named(f"{name}.layer_norm", layer.attention_residual.norm)
        state |= _joeynmt_feed_forward(f"{name}.feed_forward", layer)
    for number, layer in enumerate(model.decoder.layers):
        name = f"decoder.layers.{number}"
        state |= _joeynmt_attention(f"{name}.trg_trg_att", layer.self_attention)
        state |= _named(f"{name}.x_layer_norm", layer.self_residual.norm)
        state |= _joeynmt_attention(f"{name}.src_trg_att", layer.cross_attention)
        state |= _named(f"{name}.dec_layer_norm", layer.cross_residual.norm)
        state |= _joeynmt_feed_forward(f"{name}.feed_forward", layer)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"model_state": state}, folder / "best.ckpt")


def _named(name: str, module: Any) -> dict[str, Tensor]:
    return {f"{name}.{part}": tensor.detach().float().clone() for part, tensor in module.named_parameters()}


def _joeynmt_attention(name: str, attention: Any) -> dict[str, Tensor]:
    parts = {"q_layer": "query", "k_layer": "key", "v_layer": "value", "output_layer": "output"}
    found: dict[str, Tensor] = {}
    for theirs, ours in parts.items():
        found |= _named(f"{name}.{theirs}", getattr(attention, f"{ours}_projection"))
    return found


def _joeynmt_feed_forward(name: str, layer: Any) -> dict[str, Tensor]:
    inner, outer = (
        _named(f"{name}.pwff_layer.0", layer.feed_forward.inner),
        _named(f"{name}.pwff_layer.3", layer.feed_forward.outer),
    )
    return inner | outer | _named(f"{name}.layer_norm", layer.feed_forward_residual.norm)
