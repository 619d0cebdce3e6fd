"""Every model trains with any of its parts frozen: that part stays as it is, and the rest moves."""

import pytest
import torch
from torch import nn

from regard.config import (
    BagClassifierConfig,
    BahdanauDecoderConfig,
    EncoderConfig,
    HierarchicalClassifierConfig,
    LanguageModelConfig,
    LuongDecoderConfig,
    RecurrentClassifierConfig,
    RecurrentConfig,
    TrainingConfig,
    TransformerClassifierConfig,
    TransformerConfig,
)
from regard.errors import ConfigError
from regard.models.build import build_classifier, build_language_model, build_translator
from regard.tasks.classification.train import label_loss
from regard.tasks.objective import objective
from regard.text.batching import Batch
from regard.training.freezing import describe_frozen, freeze, unfreeze
from regard.training.optimizer import build_optimizer

WORDS = 30
SIZE = {"hidden_size": 8}
TRANSFORMER = {"num_heads": 2, "feed_forward_size": 16}
MODELS = {
    "bahdanau": RecurrentConfig(embedding_size=8, encoder=EncoderConfig(**SIZE), decoder=BahdanauDecoderConfig(**SIZE)),
    "luong": RecurrentConfig(
        embedding_size=8,
        encoder=EncoderConfig(cell="lstm", num_layers=2, **SIZE),
        decoder=LuongDecoderConfig(input_feeding=True, num_layers=2, **SIZE),
        tie_embeddings="target",
    ),
    "transformer": TransformerConfig(encoder_layers=2, decoder_layers=2, **SIZE, **TRANSFORMER),
    "language": LanguageModelConfig(num_layers=2, **SIZE, **TRANSFORMER),
    "recurrent classifier": RecurrentClassifierConfig(embedding_size=8, **SIZE),
    "bag": BagClassifierConfig(embedding_size=8, num_buckets=64),
    "hierarchical": HierarchicalClassifierConfig(embedding_size=8, **SIZE),
    "transformer classifier": TransformerClassifierConfig(embedding_size=8, num_layers=1, **TRANSFORMER),
}


def build(config):
    torch.manual_seed(0)
    if isinstance(config, LanguageModelConfig):
        return build_language_model(config, vocabulary_size=WORDS)
    if isinstance(config, RecurrentConfig | TransformerConfig):
        return build_translator(config, source_size=WORDS, target_size=WORDS)
    return build_classifier(config, vocabulary_size=WORDS, num_labels=3, sentence_ends=(7,))


def loss_of(model):
    source, target = torch.randint(4, WORDS, (2, 6, 7))
    mask = torch.ones_like(source).bool()
    if not hasattr(model, "decode"):
        return sum(label_loss(logits, torch.arange(6) % 3) for logits in model.parts(source, mask))
    fed = torch.cat([torch.full((6, 1), 2), target[:, :-1]], 1)
    return objective(model, Batch(source, mask, fed, target, mask, torch.arange(6)))[0]


def parts(model):
    return [name for name, part in model.named_children() if next(part.parameters(), None) is not None]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_each_part_in_turn(config, optimizer):
    for name in ["embeddings", *parts(build(config))]:
        model = build(config).train()
        before = {key: value.clone() for key, value in model.state_dict().items()}
        frozen = freeze(model, [name])
        fixed = {id(weight) for weight in frozen}
        assert fixed, name
        training = TrainingConfig(optimizer=optimizer, learning_rate=0.1)
        step = build_optimizer(model, training)
        loss_of(model).backward()
        step.step()
        for key, weight in model.named_parameters(remove_duplicate=False):
            same = torch.equal(weight, before[key])
            assert same or id(weight) not in fixed, f"{key} moved with {name} frozen"
            assert not (id(weight) not in fixed and same and weight.grad is not None and weight.grad.any()), key
        unfreeze(frozen)
        assert all(weight.requires_grad for weight in model.parameters())


def test_a_prefix_freezes_what_is_below_it():
    model = build(MODELS["transformer"])
    freeze(model, ["decoder.layers.0"])
    names = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    assert names == {name for name, _ in model.named_parameters() if name.startswith("decoder.layers.0.")}
    assert describe_frozen(model, [weight for weight in model.parameters() if not weight.requires_grad]).startswith(
        "frozen (mo"
    )


def test_a_shared_weight_is_frozen_in_both_parts():
    model = build(MODELS["luong"])
    assert freeze(model, ["output.weight"])[0] is model.target_embedding.weight
    assert not model.target_embedding.weight.requires_grad


def test_what_was_frozen_by_its_owner_stays_frozen():
    model = build(MODELS["bag"])
    model.output.bias.requires_grad_(False)
    unfreeze(freeze(model, ["output"]))
    assert (model.output.weight.requires_grad, model.output.bias.requires_grad) == (True, False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("encoders", r"did you mean 'encoder'\?; its parts are: embeddings, source_embedding, target_embedding, encoder, "),
        ("decoder.layers.7", r"did you mean 'decoder.layers.[01]'\?"),
        ("zzz", r"model.freeze names 'zzz', which this model does not have; its parts are: "),
        ("encoder.", "model.freeze names 'encoder.', which this model does not have; did you mean 'encoder'"),
    ],
)
def test_wrong_names(name, message):
    with pytest.raises(ConfigError, match=message):
        freeze(build(MODELS["transformer"]), [name])


def test_nothing_left_to_train():
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(ConfigError, match=r"model.freeze is '0', which is the whole model, so nothing is left to train"):
        freeze(model, ["0"])
    assert all(weight.requires_grad for weight in model.parameters())
    assert freeze(model, []) == []
