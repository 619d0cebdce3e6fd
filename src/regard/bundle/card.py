"""The model card: what a stranger should know before using the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from regard.bundle.bundle import Bundle, ClassificationBundle, LanguageBundle, TranslationBundle
from regard.bundle.scores import score_rows
from regard.config import DataConfig
from regard.config.loading import dump_config

_SHOWN_LABELS = 4
_COUNTS = (
    ("train_pairs", "training pairs"),
    ("dev_pairs", "held-out pairs"),
    ("train_texts", "training texts"),
    ("dev_texts", "held-out texts"),
)
"""Of the report, and how they are called."""


def render_card(bundle: Bundle, signature: Mapping[str, Any]) -> str:
    """Write README.md of a bundle, from nothing but the bundle: the same bundle gives the same text.

    Args:
        bundle: The model.
        signature: Its signature, versions included.
    """
    titles = {
        "translation": "A sequence-to-sequence model with attention",
        "classification": "A text classifier with attention",
        "language": "A language model, which goes on with a text",
    }
    parts = [
        _front_matter(bundle),
        f"# {_title(bundle)}\n\n{titles[bundle.config.task]}, trained with regard {signature['versions']['regard']}.",
        "## Use\n\n" + _usage(bundle),
        "## Model\n\n" + _table(_model_rows(bundle)),
        "## Data\n\n" + _table(_data_rows(bundle, signature)),
        "## Scores\n\n" + _scores(bundle, signature.get("scores") or {}),
        "## Limits\n\n" + _limits(bundle),
    ]
    return "\n\n".join(parts) + "\n"


def _title(bundle: Bundle) -> str:
    if isinstance(bundle, ClassificationBundle):
        names = bundle.labels.names
        shown = ", ".join(names[:_SHOWN_LABELS]) + (
            f" and {len(names) - _SHOWN_LABELS} more" if len(names) > _SHOWN_LABELS else ""
        )
        return f"Classification of texts as {shown}"
    data = bundle.config.data
    if not isinstance(data, DataConfig):
        return "Language model" + (f" of {', '.join(Path(name).name for name in data.train)}" if data.train else "")
    return f"Translation from {data.source} to {data.target}"


def _front_matter(bundle: Bundle) -> str:
    data = bundle.config.data
    languages = [data.source, data.target] if isinstance(data, DataConfig) else [data.language] if data.language else []
    kinds = {"translation": "translation", "classification": "text-classification", "language": "text-generation"}
    facts = {"language": languages, "library_name": "regard", "pipeline_tag": kinds[bundle.config.task]}
    return f"---\n{yaml.safe_dump(facts, sort_keys=False, allow_unicode=True)}---"


def _usage(bundle: Bundle) -> str:
    own = f", {bundle.custom}=…" if bundle.custom else ""
    if isinstance(bundle, ClassificationBundle):
        lines = [] if own else ['regard classify DIR "a text"', 'regard look DIR "a text"', ""]
        lines += ["import regard", f'classifier = regard.load("DIR"{own})', '[result] = classifier.classify(["a text"])']
        lines += ["result.label, result.probability, result.attention"]
    elif isinstance(bundle, LanguageBundle):
        lines = [] if own else ['regard generate DIR "the beginning"', "regard evaluate DIR texts.txt", ""]
        lines += ["import regard", f'model = regard.load("DIR"{own})', '[[result]] = model.generate(["the beginning"])']
        lines += ["result.text, result.log_probability"]
    else:
        lines = [] if own else ['regard translate DIR "a sentence"', 'regard look DIR "a sentence"', ""]
        lines += ["import regard", f'translator = regard.load("DIR"{own})', '[result] = translator.translate(["a sentence"])']
        lines += ["result.text, result.score, result.attention"]
    note = f"\n\nThe {bundle.custom} is its maker's own Python object and has to be given when loading." if own else ""
    return "\n".join(f"    {line}".rstrip() for line in lines) + "\n\n`DIR` is this folder." + note


def _model_rows(bundle: Bundle) -> list[tuple[str, str]]:
    config = bundle.config
    size = sum(parameter.numel() for parameter in bundle.model.parameters())
    rows = [("parameters", f"{size:,}")]
    if bundle.custom == "model":
        rows.append(("kind", f"`{type(bundle.model).__name__}`, its maker's own"))
    else:
        rows += [(name, f"`{value}`") for name, value in _flat(dump_config(config.model)) if value != []]
    if isinstance(bundle, TranslationBundle):
        for side, tokenizer in (("source", bundle.source_tokenizer), ("target", bundle.target_tokenizer)):
            kind = getattr(bundle.config.tokenizers, side).kind
            rows.append((f"{side} vocabulary", f"{tokenizer.size:,} symbols, `{kind}`"))
        rows.append(("decoding", bundle.config.decoding.describe()))
    elif isinstance(bundle, ClassificationBundle):
        rows.append(("vocabulary", f"{bundle.tokenizer.size:,} symbols, `{bundle.config.tokenizer.kind}`"))
        rows.append(("labels", f"{len(bundle.labels.names):,}{', several for a text' if bundle.labels.multiple else ''}"))
        rows.append(("temperature of the probabilities", f"{bundle.temperature:.3f}"))
    elif isinstance(bundle, LanguageBundle):
        rows.append(("vocabulary", f"{bundle.tokenizer.size:,} symbols, `{bundle.config.tokenizer.kind}`"))
    return rows


def _data_rows(bundle: Bundle, signature: Mapping[str, Any]) -> list[tuple[str, str]]:
    report, data = bundle.report, bundle.config.data
    rows = [("languages", f"{data.source} → {data.target}")] if isinstance(data, DataConfig) else []
    if data.train:
        rows.append(("training files", ", ".join(f"`{Path(name).name}`" for name in data.train)))
    for key, name in _COUNTS:
        if isinstance(report.get(key), int):
            rows.append((name, f"{report[key]:,}"))
    rows += [(name, str(signature[name])) for name in ("seed",) if name in signature]
    origin = signature.get("started_from")
    if isinstance(origin, Mapping):
        name, weights = Path(str(origin.get("folder", ""))).name, str(origin.get("weights", ""))
        rows.append(("started from", f"`{name}`, weights `{weights[:16]}`, {origin.get('updates', 0):,} updates"))
    if signature.get("data"):
        rows.append(("hash of the data", f"`{signature['data']}`"))
    return rows


def _scores(bundle: Bundle, scores: Mapping[str, Any]) -> str:
    examples = "pairs" if isinstance(bundle, TranslationBundle) else "texts"
    if not scores:
        return f"None: no {examples} were held out."
    return f"On the held-out {examples}:\n\n" + _table(score_rows(scores))


def _limits(bundle: Bundle) -> str:
    data = bundle.config.data
    if isinstance(bundle, ClassificationBundle):
        found = bundle.faithfulness or "whether it can be trusted for this model, `regard faithfulness DIR FILE` measures"
        return (
            f"- It knows texts like those it was trained on; of more than {data.max_tokens} tokens, it reads so many.\n"
            "- It gives one of its labels to any text, also to one that none of them fits.\n"
            f"- Attention shows what the model read, and proves no cause: {found}.\n"
            "- Its training data may hold private or biased text; nothing was filtered for it."
        )
    if isinstance(bundle, LanguageBundle):
        return (
            f"- It goes on with texts like those it was trained on; it sees at most some {data.max_tokens} tokens back with "
            "any practice.\n"
            "- What it writes is likely, not true; it may repeat its training texts word for word.\n"
            "- Attention shows what the model read at a word, and proves no cause.\n"
            "- Its training data may hold private or biased text; nothing was filtered for it."
        )
    return (
        f"- It knows sentences like those it was trained on, of at most {data.max_tokens} tokens; others come out worse.\n"
        "- It translates each line by itself and may leave out, repeat or invent words.\n"
        "- Attention shows what the model read when it wrote a word, and proves no cause.\n"
        "- Its training data may hold private or biased text; nothing was filtered for it."
    )


def _flat(plain: Mapping[str, Any], path: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in plain.items():
        full = f"{path}.{name}" if path else name
        rows += _flat(value, full) if isinstance(value, Mapping) else [(full, value)]
    return rows


def _table(rows: list[tuple[str, str]]) -> str:
    lines = ["| | |", "|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows])
