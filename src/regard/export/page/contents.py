"""The contents of a page for each model: its graphs, and the settings that the JavaScript reads."""

import tempfile
from pathlib import Path
from typing import Any

import torch

from regard.bundle.scores import score_rows
from regard.config import DecodingConfig
from regard.config.loading import dump_config
from regard.errors import RequestError
from regard.export.decoders import Decoding, check_reads_words, count_heads, empty_cache
from regard.export.onnx import export_onnx
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.recurrent.translator import RecurrentTranslator
from regard.models.text_classifier import TextClassifier
from regard.records.data import NOTE
from regard.text.languages import find_language
from regard.text.tokenizers.tokenizer import Tokenizer


def read_contents(predictor: Any, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Export a model, and return plain data for the page's JavaScript, and the content of each ONNX file by its graph's name.

    The data are, for example, the model's name, tokenizers, labels, scores, and settings of the search.
    """
    model, config = predictor.model, predictor.config
    check_reads_words(model)
    if not isinstance(model, Decoding | TextClassifier):
        raise RequestError(
            f"{name} has a model of type {type(model).__name__}; a page shows only regard's translators, classifiers and "
            "language models: leave it out"
        )
    described = _describe_classifier(predictor) if isinstance(model, TextClassifier) else _describe_decoder(predictor)
    with tempfile.TemporaryDirectory() as temporary:
        done = export_onnx(predictor, Path(temporary) / "export", overridable=not isinstance(model, TextClassifier))
        graphs = {path.stem: path.read_bytes() for path in sorted(done.folder.glob("*.onnx"))}
        card = (done.folder / "README.md").read_text(encoding="utf-8")
    settings = {
        "name": name,
        "task": config.task,
        "model": dump_config(config.model),
        "card": card,
        "scores": score_rows(predictor.bundle.signature.get("scores") or {}),
        "graphs": list(graphs),
        "note": NOTE,
        # Whether all weights sum to one. Mechanisms and normalizers declare it; a sigmoid does not.
        "normalized": all(getattr(each, "normalized", True) for each in model.modules()),
        "max_tokens": config.data.max_tokens,
    }
    return settings | described, graphs


def _describe_classifier(classifier: Any) -> dict[str, Any]:
    return {
        "languages": [getattr(classifier.config.data, "language", "")],
        "source": describe_tokenizer(classifier.tokenizer, read="text"),
        "labels": list(classifier.labels.names),
        "multiple": classifier.labels.multiple,
        "temperature": classifier.temperature,
        "sites": list(classifier.model.sites),
        "faithfulness": classifier.parts.faithfulness,
    }


def _describe_decoder(predictor: Any) -> dict[str, Any]:
    config, bundle, model = predictor.config, predictor.bundle, predictor.model
    layers, heads = (0, 0) if isinstance(model, RecurrentTranslator) else count_heads(model)
    shared: dict[str, Any] = {"layers": layers, "heads": heads}
    if isinstance(model, TransformerLanguageModel):
        greedy = dump_config(DecodingConfig(beam_size=1))
        return shared | {
            "languages": [getattr(config.data, "language", "")],
            "target": describe_tokenizer(predictor.tokenizer, read="text"),
            "cache": list(empty_cache(model, torch.zeros(1, 1)).shape),
            "decoding": greedy | {name: value for name, value in dump_config(config.generation).items() if name in greedy},
        }
    return shared | {
        "languages": ["" if name in ("source", "target") else name for name in (config.data.source, config.data.target)],
        "source": describe_tokenizer(bundle.parts.source, read="source"),
        "target": describe_tokenizer(bundle.parts.target, read=""),
        "alignment": [model.alignment_layer, model.alignment_head] if layers else None,
        "decoding": dump_config(config.decoding),
        "diverse": config.decoding.groups > 1,
    }


def describe_tokenizer(tokenizer: Tokenizer, *, read: str) -> dict[str, Any]:
    """Return a tokenizer as plain data.

    `read` names the text that the page splits with it, for errors; it is empty if the page only joins its tokens.
    """
    if read and tokenizer.scheme.needs:
        raise RequestError(
            f"the {read} tokenizer splits text by {tokenizer.scheme.needs}, which cannot run in a browser; train with a "
            "tokenizer of kind words, or use `regard export`"
        )
    symbols = tokenizer.symbols
    return {
        "kind": tokenizer.kind,
        "language": tokenizer.scheme.language,
        "lang": find_language(tokenizer.scheme.language) or "",
        "lowercase": tokenizer.lowercase,
        "normalization": tokenizer.normalization,
        "tokens": symbols.tokens,
        "merges": symbols.merges,
        "scores": symbols.scores,
    }
