"""Small models of every kind for the tests of pages: random weights, and vocabularies of the built-in corpora."""

from itertools import islice

import torch

from regard.bundle import save_bundle
from regard.config.loading import load_config
from regard.demo import DemoCorpus, ReviewCorpus
from regard.models.build import build_classifier, build_language_model, build_translator
from regard.task import Bundle
from regard.tasks.classification.data import ClassifierParts
from regard.tasks.translation.data import Tokenizers
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.tokenizer import build_tokenizer, build_tokenizers

RECURRENT = {"kind": "recurrent", "embedding_size": 12, "tie_embeddings": "none", "bridge": "linear"}
RECURRENT |= {
    "encoder": {"hidden_size": 10},
    "decoder": {"kind": "luong", "hidden_size": 16, "attention": {"kind": "additive"}},
}
TRANSFORMER = {"kind": "transformer", "hidden_size": 16, "num_heads": 4, "feed_forward_size": 24, "encoder_layers": 2}
TRANSFORMER |= {"decoder_layers": 2, "positions": "rotary", "norm_order": "pre"}
SIZES = {"bpe": {"size": 300}, "unigram": {"size": 300}, "words": {"lowercase": True}}


def make_translator(folder, model=RECURRENT, kind="words", *, noise=0.5, further=(), **decoding):
    """Save a translator with random weights. Its vocabulary is small, so some words are unknown, and has `further` ones."""
    pairs = list(islice(DemoCorpus().pairs(), 400))
    texts = [list(side) for side in zip(*pairs, strict=True)]
    tokenizer = {"kind": kind, **SIZES.get(kind, {})}
    settings = {"data": {"source": "en", "target": "de"}, "tokenizers": {"source": tokenizer, "target": tokenizer}}
    config = load_config(settings, {"model": model, "decoding": {"max_length": 12, **decoding}})
    source, target = build_tokenizers([[[*side, *further] for side in texts]], config.tokenizers, config.data)
    torch.manual_seed(3)
    built = build_translator(config.model, source_size=source.size, target_size=target.size)
    _vary(built, noise)
    made = Bundle(config=config, model=built, parts=Tokenizers(source, target), custom="", signature={"seed": 1})
    save_bundle(folder, made)
    return folder


def make_classifier(folder, kind="characters", labels=("bad", "good", "so <b>so</b>"), *, pooling=None, multiple=False):
    """Save a classifier with random weights."""
    corpus = ReviewCorpus()
    texts = [corpus[number].text for number in range(300)]
    model = {"kind": "recurrent", "embedding_size": 12, "hidden_size": 10, "pooling": pooling or {"kind": "additive"}}
    tokenizer = {"kind": kind, **SIZES.get(kind, {})}
    config = load_config({"task": "classification", "tokenizer": tokenizer, "model": model, "data": {"max_tokens": 60}})
    made = build_tokenizer([texts], config.tokenizer, language="en")
    torch.manual_seed(3)
    built = build_classifier(config.model, vocabulary_size=made.size, num_labels=len(labels))
    _vary(built, 0.5)
    bundle = Bundle(
        config=config, model=built, parts=ClassifierParts(made, Labels(tuple(labels), multiple, (100,) * len(labels)), 1.5),
        custom="", signature={"seed": 1},
    )  # fmt: skip
    save_bundle(folder, bundle)
    return folder


def make_language_model(folder, kind="bpe", *, noise=0.5, **generation):
    """Save a language model with random weights."""
    texts = [source for source, _ in islice(DemoCorpus().pairs(), 400)]
    model = {"hidden_size": 16, "num_layers": 2, "num_heads": 4, "feed_forward_size": 24}
    tokenizer = {"kind": kind, **SIZES.get(kind, {})}
    settings = {"task": "language", "tokenizer": tokenizer, "model": model, "data": {"language": "en", "max_tokens": 60}}
    config = load_config(settings, {"generation": {"max_length": 10, **generation}})
    made = build_tokenizer([texts], config.tokenizer, language="en")
    torch.manual_seed(3)
    built = build_language_model(config.model, vocabulary_size=made.size)
    _vary(built, noise)
    save_bundle(folder, Bundle(config=config, model=built, parts=made, custom="", signature={"seed": 1}))
    return folder


def _vary(model, noise):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * noise)
