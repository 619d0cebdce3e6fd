"""The contents of a page for each model: its graphs, and the settings that the JavaScript reads."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.bundle.scores import score_rows
from regard.config import DecodingConfig
from regard.config.loading import dump_config
from regard.errors import RequestError
from regard.export.onnx import export_onnx
from regard.export.transformers import cross_heads, self_attention_of
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.recurrent.translator import RecurrentTranslator
from regard.models.seq2seq import Seq2Seq
from regard.models.text_classifier import TextClassifier
from regard.models.transformer.translator import TransformerTranslator
from regard.records.data import NOTE
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Contents:
    """The data of one model on a page."""

    settings: dict[str, Any]
    """Plain data for the page's JavaScript, such as names, tokenizers, labels, scores, and settings of the search."""
    graphs: dict[str, bytes]
    """Content of each ONNX file, by the name of its graph, such as `encoder`."""


def read_contents(predictor: Any, name: str) -> Contents:
    """Export a model, and collect the data that a page needs to run it.

    Args:
        predictor: A loaded `Translator`, `LanguageModel` or `Classifier`.
        name: Name of the model on the page.

    Raises:
        RequestError: If a page cannot show this kind of model, its tokenizer cannot run in a browser, or the model cannot be
            exported to ONNX.
    """
    model, bundle = predictor.model, predictor.bundle
    if isinstance(model, TextClassifier):
        settings = _describe_classifier(predictor)
    elif isinstance(model, RecurrentTranslator | TransformerTranslator):
        settings = _describe_translator(predictor)
    elif isinstance(model, TransformerLanguageModel):
        settings = _describe_language_model(predictor)
    else:
        raise RequestError(
            f"{name} has a model of type {type(model).__name__}; a page shows only models that regard builds: leave it out"
        )
    with tempfile.TemporaryDirectory() as temporary:
        done = export_onnx(predictor, Path(temporary) / "export", overridable=isinstance(model, Seq2Seq))
        graphs = {path.stem: path.read_bytes() for path in sorted(done.folder.glob("*.onnx"))}
        card = (done.folder / "README.md").read_text(encoding="utf-8")
    scores = bundle.signature.get("scores") or {}
    shared = {
        "name": name,
        "task": predictor.config.task,
        "card": card,
        "scores": score_rows(scores),
        "graphs": list(graphs),
        "note": NOTE,
    }
    return Contents(shared | settings, graphs)


def _describe_translator(translator: Any) -> dict[str, Any]:
    config, bundle, model = translator.config, translator.bundle, translator.model
    decoding = config.decoding
    layers = len(model.decoder.layers) if isinstance(model, TransformerTranslator) else 0
    return {
        "languages": ["" if name in ("source", "target") else name for name in (config.data.source, config.data.target)],
        "source": describe_tokenizer(bundle.source_tokenizer, read="source"),
        "target": describe_tokenizer(bundle.target_tokenizer, read=""),
        "max_tokens": config.data.max_tokens,
        "layers": layers,
        "heads": cross_heads(model) if layers else 0,
        "alignment": [model.alignment_layer, model.alignment_head] if isinstance(model, TransformerTranslator) else None,
        "decoding": dump_config(decoding),
        "diverse": decoding.groups > 1,
    }


def _describe_language_model(predictor: Any) -> dict[str, Any]:
    config, layers, generation = predictor.config, predictor.model.decoder.layers, predictor.config.generation
    attention = self_attention_of(layers[0])
    greedy = dump_config(DecodingConfig(beam_size=1))
    return {
        "languages": [getattr(config.data, "language", "")],
        "target": describe_tokenizer(predictor.tokenizer, read="text"),
        "max_tokens": config.data.max_tokens,
        "layers": len(layers),
        "heads": attention.num_heads,
        "cache": [1, 1, len(layers), attention.num_kv_heads, 0, attention.head_size],
        "decoding": greedy | {name: value for name, value in dump_config(generation).items() if name in greedy},
    }


def _describe_classifier(classifier: Any) -> dict[str, Any]:
    return {
        "languages": [getattr(classifier.config.data, "language", "")],
        "source": describe_tokenizer(classifier.tokenizer, read="text"),
        "max_tokens": classifier.config.data.max_tokens,
        "labels": list(classifier.labels.names),
        "multiple": classifier.labels.multiple,
        "temperature": classifier.temperature,
        "sites": list(classifier.model.sites),
        "faithfulness": classifier.bundle.faithfulness,
    }


def describe_tokenizer(tokenizer: Tokenizer, *, read: str) -> dict[str, Any]:
    """Return a tokenizer as plain data.

    Args:
        tokenizer: The tokenizer.
        read: Name of the text that the page splits with this tokenizer, such as `source`, for the error message; empty if the
            page uses it only to join tokens.

    Raises:
        RequestError: If the tokenizer splits text by spaCy's rules, which don't run in a browser.
    """
    if read and tokenizer.kind == "spacy":
        raise RequestError(
            f"the {read} tokenizer splits text by spaCy's rules, which cannot run in a browser; train with a tokenizer of kind "
            "words, or use `regard export`"
        )
    symbols = tokenizer.symbols
    return {
        "kind": tokenizer.kind,
        "language": getattr(tokenizer.scheme, "language", ""),
        "lowercase": tokenizer.lowercase,
        "normalization": tokenizer.normalization,
        "tokens": symbols.tokens,
        "merges": symbols.merges,
        "scores": symbols.scores,
    }
