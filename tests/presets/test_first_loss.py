"""Before the first update a model knows nothing: it must not be surer than a uniform guess, and wrong."""

import math

import pytest
import torch

from regard.config import LanguageModelConfig, LuongDecoderConfig, RecurrentConfig, TransformerConfig
from regard.models.build import build_captioner, build_classifier, build_language_model, build_tagger, build_translator
from regard.presets import load_preset, preset_names
from regard.tasks.captioning.config import CaptioningConfig
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.train import label_loss
from regard.tasks.language.config import LanguageConfig
from regard.tasks.objective import objective
from regard.tasks.tagging.config import TaggingConfig
from regard.tasks.tagging.train import tag_loss
from regard.tasks.translation.config import TranslationConfig
from regard.text.batching import Batch
from regard.text.captions.images import Grid

MOST = 1.05
LABELS = 5


def text(words, draw):
    """Sentences of words that are as frequent as in a language (Zipf)."""
    frequency = 1 / torch.arange(1, words - 3).float()
    ids = 4 + torch.multinomial(frequency, 16 * 20, replacement=True, generator=draw).view(16, 20)
    ids[:, -1] = 3
    return ids


def first_loss(config, words):
    """The loss of a new model in training mode, over that of a uniform guess."""
    draw = torch.Generator().manual_seed(0)
    torch.manual_seed(1)
    source, target = text(words, draw), text(words, draw)
    mask = torch.ones_like(source).bool()
    with torch.no_grad():
        if isinstance(config, ClassificationConfig):
            model = build_classifier(config.model, vocabulary_size=words, num_labels=LABELS, sentence_ends=(7,)).train()
            label = torch.arange(16) % LABELS
            losses = [float(label_loss(logits, label)) / 16 for logits in model.parts(source, mask)]
            return max(losses) / math.log(LABELS)
        if isinstance(config, TaggingConfig):
            places = torch.arange(source.shape[1]).expand_as(source)
            model = build_tagger(config.model, vocabulary_size=words, num_tags=LABELS).train()
            return float(tag_loss(model(source, mask, places).logits, target % LABELS)) / target.numel() / math.log(LABELS)
        if isinstance(config, CaptioningConfig):
            grid = Grid(rows=8, columns=12, cell=4, channels=1)
            model = build_captioner(config.model, grid, target_size=words)
            source = torch.randint(0, 256, (16, 96, 16), generator=draw).byte()
            mask = torch.ones(16, 96).bool()
        elif isinstance(config, LanguageConfig):
            model = build_language_model(config.model, vocabulary_size=words)
        else:
            model = build_translator(config.model, source_size=words, target_size=words)
        fed = torch.cat([torch.full((16, 1), 2), target[:, :-1]], 1)
        batch = Batch(source, mask, fed, target, torch.ones_like(target).bool(), torch.arange(16))
        loss, _ = objective(model.train(), batch, label_smoothing=config.training.label_smoothing)
        return float(loss) / target.numel() / math.log(words)


@pytest.mark.parametrize("name", [name for name in preset_names() if load_preset(name).model.kind != "pretrained"])
def test_presets_start_at_a_uniform_guess(name):
    assert first_loss(load_preset(name), 1800) < MOST


@pytest.mark.parametrize("words", [300, 20_000])
def test_language_tiny_starts_at_a_uniform_guess_with_any_vocabulary(words):
    assert first_loss(load_preset("language-tiny"), words) < MOST


KINDS = {
    "recurrent": TranslationConfig(model=RecurrentConfig(tie_embeddings="target")),
    "recurrent luong": TranslationConfig(
        model=RecurrentConfig(tie_embeddings="target", decoder=LuongDecoderConfig(input_feeding=True))
    ),
    **{
        f"transformer {order} {tie}": TranslationConfig(
            model=TransformerConfig(norm_order=order, tie_embeddings=tie, encoder_layers=2, decoder_layers=2)
        )
        for order in ("pre", "post", "deep")
        for tie in ("none", "target")
    },
    **{
        f"language {order} {positions}": LanguageConfig(
            model=LanguageModelConfig(norm_order=order, positions=positions, num_layers=2)
        )
        for order in ("pre", "post", "deep")
        for positions in ("rotary", "sinusoidal")
    },
}


@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_models_start_at_a_uniform_guess(config):
    assert first_loss(config, 1800) < MOST
