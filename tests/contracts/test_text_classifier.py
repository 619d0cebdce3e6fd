"""The battery that every text classifier must pass: what training, prediction and the measures of faithfulness rely on.

Sizes are distinct primes, so that two axes cannot be mixed up unseen. Weights are in float64 where two ways of computing are
compared.
"""

import pytest
import torch
from encoders import tiny_encoder
from quick import quick
from torch import Tensor, nn

from regard.attention import AttentionPooling, MultiHead, Pooled, Pooling
from regard.bundle.weights import fill, pack, read_tensors
from regard.config import (
    AdditivePoolingConfig,
    BagClassifierConfig,
    ClassifierConfig,
    CombinedClassifierConfig,
    CountedClassifierConfig,
    Entmax15Config,
    HierarchicalClassifierConfig,
    LinearPoolingConfig,
    MeanPoolingConfig,
    MultiHeadPoolingConfig,
    PoolingConfig,
    PretrainedClassifierConfig,
    PretrainedEncoderConfig,
    RecurrentClassifierConfig,
    SparsemaxConfig,
    TransformerClassifierConfig,
)
from regard.errors import RequestError
from regard.models.build import build_classifier
from regard.models.pretrained import read_encoder
from regard.models.text_classifier import Classified, TextClassifier
from regard.reweight import erase, flatten
from regard.tasks.faithfulness import permutation
from regard.text.symbols import PAD

WORDS, WIDTH, HIDDEN, LABELS, BATCH, SIZE = 29, 13, 17, 3, 7, 11
LENGTHS = torch.tensor([SIZE, 1, 4, 0, 8, 2, SIZE])
MASK = torch.arange(SIZE) < LENGTHS[:, None]
ENDS = (5, 6)
HEADS = MultiHeadPoolingConfig(num_heads=5, attention_size=19)
SPARSE = AdditivePoolingConfig(attention_size=19, normalizer=SparsemaxConfig())


def recurrent(**settings) -> RecurrentClassifierConfig:
    return RecurrentClassifierConfig(**{"embedding_size": WIDTH, "hidden_size": HIDDEN} | settings)


def bag(**settings) -> BagClassifierConfig:
    return BagClassifierConfig(**{"embedding_size": WIDTH, "num_buckets": 31} | settings)


def hierarchical(**settings) -> HierarchicalClassifierConfig:
    return HierarchicalClassifierConfig(**{"embedding_size": WIDTH, "hidden_size": HIDDEN, "max_sentence": 3} | settings)


def transformer(**settings) -> TransformerClassifierConfig:
    return TransformerClassifierConfig(**{"embedding_size": 12, "num_heads": 2, "feed_forward_size": 23} | settings)


def pretrained(pooling: PoolingConfig | None = None, **settings) -> PretrainedClassifierConfig:
    encoder = read_encoder(PretrainedEncoderConfig(**{"name": tiny_encoder(), "tuning": "whole"} | settings))
    return PretrainedClassifierConfig(encoder=encoder, pooling=pooling or AdditivePoolingConfig())


CASES: dict[str, ClassifierConfig] = {
    "recurrent": recurrent(),
    "recurrent-gru": recurrent(cell="gru", num_layers=2, pooling=AdditivePoolingConfig()),
    "recurrent-one-way": recurrent(bidirectional=False, pooling=SPARSE, word_dropout=0.1),
    "recurrent-heads": recurrent(pooling=HEADS, num_layers=2, layer_dropout=0.2),
    "recurrent-mean": recurrent(pooling=MeanPoolingConfig()),
    "bag": bag(word_dropout=0.1),
    "bag-heads": bag(pooling=HEADS, max_ngram=3),
    "hierarchical": hierarchical(),
    "hierarchical-lstm": hierarchical(cell="lstm", pooling=LinearPoolingConfig(normalizer=Entmax15Config()), max_sentence=60),
    "hierarchical-heads": hierarchical(pooling=HEADS, word_dropout=0.1),
    "combined": CombinedClassifierConfig(counted=CountedClassifierConfig(num_buckets=31), recurrent=recurrent(pooling=HEADS)),
    "combined-three": CombinedClassifierConfig(
        counted=CountedClassifierConfig(max_ngram=3, num_buckets=31), recurrent=recurrent(), num_recurrent=2
    ),
    "transformer": transformer(),
    "pretrained": pretrained(),
    "pretrained-lora": pretrained(tuning="lora", pooling=HEADS),
    "transformer-heads": transformer(pooling=HEADS, positions="rotary", norm="rms", feed_forward="swiglu"),
}


def build(config: ClassifierConfig, **options) -> TextClassifier:
    torch.manual_seed(0)
    model = build_classifier(
        config, vocabulary_size=WORDS, num_labels=LABELS, sentence_ends=ENDS, encoder_ids=range(WORDS), **options
    )
    model.eval()
    texts = torch.randint(4, WORDS, (97, 5))
    model.prime([(texts, torch.ones_like(texts, dtype=torch.bool), torch.arange(97) % LABELS)])
    model = model.double()
    with torch.no_grad():
        for parameter in model.parameters():  # off their starting points, zeros among them, so that differences show
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))
        for embedding in embeddings(model):
            if embedding.weight.requires_grad:
                embedding.weight[PAD] = 0
    return model


def embeddings(model: TextClassifier) -> list[nn.Embedding]:
    """Of words: those that have padding."""
    return [module for module in model.modules() if isinstance(module, nn.Embedding) and module.padding_idx == PAD]


DIFFERENT = {"recurrent", "recurrent-gru", "recurrent-one-way", "bag", "bag-heads", "hierarchical", "combined"}
DIFFERENT |= {"hierarchical-lstm", "transformer", "transformer-heads", "pretrained"}
"""Cases that `make test` runs; `make test-slow` takes the others, too."""


@pytest.fixture(params=quick(CASES, DIFFERENT.__contains__))
def model(request: pytest.FixtureRequest) -> TextClassifier:
    return build(request.param)


@pytest.fixture
def tokens() -> Tensor:
    drawn = torch.randint(4, WORDS, (BATCH, SIZE), generator=torch.Generator().manual_seed(3))
    drawn[0, 3:5], drawn[4, 1], drawn[6, 4] = torch.tensor(ENDS), ENDS[0], ENDS[1]
    return drawn.masked_fill(~MASK, PAD)


def read(model: TextClassifier, tokens: Tensor, mask: Tensor = MASK, **options) -> Classified:
    return model(tokens, mask, record=model.sites, **options)


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def uniform(weights: Tensor, mask: Tensor) -> Tensor:
    return (mask.to(weights.dtype) / mask.sum(-1, keepdim=True).clamp(min=1)).expand_as(weights)


def test_shapes(model, tokens):
    logits, attention = read(model, tokens)
    assert logits.shape == (BATCH, LABELS)
    assert model.sites[0] == "pool"
    assert set(attention) == set(model.sites)
    pool = attention["pool"]
    assert pool.shape in ((BATCH, SIZE), (BATCH, 5, SIZE))
    for site in model.sites:
        assert (attention[site].shape[0], attention[site].shape[-1]) == (BATCH, SIZE)


def test_weights_sum_to_one_and_are_zero_on_padding(model, tokens):
    pool = read(model, tokens).attention["pool"].reshape(BATCH, -1, SIZE)
    same(pool.sum(-1), MASK.any(1, keepdim=True).double().expand(pool.shape[:2]))
    assert (pool >= 0).all()
    assert not pool.movedim(-1, 1)[~MASK].any()


def test_without_recording_nothing_changes(model, tokens):
    logits, attention = model(tokens, MASK)
    assert attention == {}
    same(logits, read(model, tokens).logits)
    for site in model.sites:
        assert set(model(tokens, MASK, record=[site]).attention) == {site}


def test_batch_equals_one_by_one_and_padding_changes_nothing(model, tokens):
    logits, attention = read(model, tokens)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = read(model, tokens[row : row + 1, :length], MASK[row : row + 1, :length])
        same(alone.logits[0], logits[row])
        same(alone.attention["pool"][0], attention["pool"][row][..., :length])


def test_more_padding_changes_nothing(model, tokens):
    wide = nn.functional.pad(tokens, (0, 2)), nn.functional.pad(MASK, (0, 2))
    same(read(model, *wide).logits, read(model, tokens).logits)


def test_what_stands_behind_the_mask_does_not_matter(model, tokens):
    other = tokens.masked_fill(~MASK, 9)
    same(read(model, other).logits, read(model, tokens).logits)


def test_a_text_without_words_gets_finite_scores(model, tokens):
    empty = torch.zeros(2, SIZE, dtype=torch.int64), torch.zeros(2, SIZE, dtype=torch.bool)
    for given in (empty, (empty[0][:, :0], empty[1][:, :0])):
        logits, attention = read(model, *given)
        same(logits[0], read(model, tokens).logits[3])
        assert logits.isfinite().all()
        assert not attention["pool"].any()


def test_every_word_matters(model, tokens):
    """Each with some weight: a sparse normalizer may leave words out."""
    if getattr(getattr(model, "pooling", None), "normalizer", None).__class__.__name__ in ("Sparsemax", "Entmax15"):
        pytest.skip("sparse")
    logits = read(model, tokens).logits
    for position in range(4):
        other = tokens.clone()
        other[2, position] = 4 + (other[2, position] == 4)
        changed = read(model, other).logits
        assert not torch.allclose(changed[2], logits[2])
        same(changed[[0, 1, 3, 4, 5, 6]], logits[[0, 1, 3, 4, 5, 6]])


def test_every_parameter_gets_a_gradient(model, tokens):
    logits = read(model.train(), tokens).logits
    nn.functional.cross_entropy(logits, torch.arange(BATCH) % LABELS).backward()
    trained = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    size = {name: 0.0 if weight.grad is None else float(weight.grad.abs().max()) for name, weight in trained}
    cancels = cancelled(model)
    assert [name for name, largest in size.items() if not largest > 1e-12 and name not in cancels] == []
    assert [name for name in cancels if not size.get(name, 0) < 1e-9] == []
    assert not any(each.weight.grad[PAD].any() for each in embeddings(model) if each.weight.requires_grad)


def cancelled(model: TextClassifier) -> list[str]:
    """Biases that are added to all scores alike, and so to none: the pooling's, and that of keys which nothing turns."""
    modules = dict(model.named_modules())
    pools = [f"{name}.projection.bias" for name, module in modules.items() if isinstance(module, AttentionPooling)]
    plain = [name for name, module in modules.items() if isinstance(module, MultiHead) and module.positions is None]
    theirs = [name for name in dict(model.named_parameters()) if name.endswith(("self.key.bias", "key.base_layer.bias"))]
    return pools + [f"{name}.key_projection.bias" for name in plain] + theirs


def test_dropout_only_in_training(model, tokens):
    first, second = read(model, tokens).logits, read(model, tokens).logits
    assert torch.equal(first, second)
    model.train()
    assert not torch.equal(read(model, tokens).logits, read(model, tokens).logits)


def test_embeddings_of_the_callers_own(model, tokens):
    embedded = model.embed(tokens).detach().requires_grad_()
    logits = read(model, tokens, embedded=embedded).logits
    same(logits, read(model, tokens).logits)
    logits.square().sum().backward()
    assert embedded.grad.isfinite().all()
    assert not embedded.grad[~MASK].any()
    assert embedded.grad[MASK].abs().amax(-1).gt(0).float().mean() > 0.5
    silent = read(model, tokens, embedded=torch.zeros_like(embedded)).logits
    assert not torch.allclose(silent[0], logits[0])


@pytest.mark.parametrize("model", quick(CASES, lambda name: "-" not in name), indirect=True)
def test_the_gradient_of_embeddings_is_right(model, tokens):
    rows = slice(1, 4)
    embedded = model.embed(tokens)[rows, :4].detach().requires_grad_()
    call = lambda e: model(tokens[rows, :4], MASK[rows, :4], embedded=e).logits  # noqa: E731
    assert torch.autograd.gradcheck(call, (embedded,), fast_mode=True)


def test_uniform_weights_are_used_and_recorded(model, tokens):
    if "sentence" in model.sites:
        pytest.skip("words and sentences have uniform weights of their own: see the tests of the hierarchical model")
    logits, attention = read(model, tokens, reweight=uniform)
    same(attention["pool"], uniform(attention["pool"], MASK if attention["pool"].ndim == 2 else MASK[:, None]))
    for module in list(model.modules()):
        if isinstance(getattr(module, "pooling", None), Pooling):
            module.pooling = _Mean(heads=module.pooling.output_size // module.pooling.size)
    same(model(tokens, MASK).logits, logits)


class _Mean(nn.Module):
    """The mean, a text at a time."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, values: Tensor, *, key_mask: Tensor, reweight: object = None) -> Pooled:
        rows = [values[row, :length].sum(0) / max(1, length) for row, length in enumerate(key_mask.sum(1).tolist())]
        return Pooled(torch.stack(rows).repeat(1, self.heads), key_mask)


def test_reweight_by_site(model, tokens):
    """Each site can be changed alone; a function alone is that of the pooling, which stands for all of its parts."""
    plain, change = read(model, tokens), erase(0)
    for site in model.sites:
        found = read(model, tokens, reweight={site: change})
        assert not torch.allclose(found.logits[0], plain.logits[0])
        if site.startswith("encoder"):
            assert not found.attention[site][0, ..., 0].any()
    same(read(model, tokens, reweight={"pool": change}).logits, read(model, tokens, reweight=change).logits)


def test_reweight_of_an_unknown_site_is_refused(model, tokens):
    with pytest.raises(RequestError, match=r"^reweight names the attention 'pol'; this model has: pool.*did you mean 'pool'"):
        read(model, tokens, reweight={"pol": flatten})


def test_reweighting_by_the_same_changes_nothing(model, tokens):
    one, other = read(model, tokens), read(model, tokens, reweight=lambda weights, mask: weights)
    same(one.logits, other.logits)
    same(one.attention["pool"], other.attention["pool"])


def test_bfloat16_autocast_runs_and_stays_near(model, tokens):
    model = model.float()
    exact = read(model, tokens)
    with torch.autocast("cpu", torch.bfloat16):
        near = read(model, tokens)
        nn.functional.cross_entropy(near.logits.float(), torch.arange(BATCH) % LABELS).backward()
    assert (near.logits.float().softmax(-1) - exact.logits.softmax(-1)).abs().max() < 0.15
    pool = near.attention["pool"].float().reshape(BATCH, -1, SIZE)
    assert (pool.sum(-1) - MASK.any(1, keepdim=True).float()).abs().max() < 1e-2
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_float32_is_near_float64(model, tokens):
    exact = read(model, tokens).logits
    torch.testing.assert_close(read(model.float(), tokens).logits.double(), exact, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", quick(CASES, DIFFERENT.__contains__, key=True))
def test_save_and_load_are_equal(name, tokens):
    model = build(CASES[name])
    torch.manual_seed(99)
    other = build_classifier(CASES[name], vocabulary_size=WORDS, num_labels=LABELS, encoder_ids=range(WORDS))
    other.double().eval()
    fill(other, read_tensors(pack(model), name), name)
    assert torch.equal(read(model, tokens).logits, read(other, tokens).logits)
    assert pack(other) == pack(model)


@pytest.mark.parametrize("name", quick(CASES, DIFFERENT.__contains__, key=True))
def test_the_width_of_word_vectors_is_taken(name, tokens):
    if name.startswith("pretrained"):
        pytest.skip("an encoder has its own embeddings")
    model = build(CASES[name], embedding_size=37)
    assert {embedding.weight.shape for embedding in embeddings(model)} == {(WORDS, 37)}
    assert not any(embedding.weight[PAD].any() for embedding in embeddings(model))
    assert read(model, tokens).logits.shape == (BATCH, LABELS)


def test_a_mask_of_another_shape_is_refused(model, tokens, unchecked):
    with pytest.raises(ValueError, match=r"mask has shape \(7, 5\), expected \(B, S\) = \(7, 11\)"):
        model(tokens, MASK[:, :5])


def test_several_weights_for_a_text_equal_those_of_its_copies(model, tokens):
    copies, mask = tokens.repeat_interleave(3, dim=0), MASK.repeat_interleave(3, dim=0)
    change = permutation(5)
    same(model.reweighted(tokens, MASK, change, times=3), model(copies, mask, reweight=change).logits)
