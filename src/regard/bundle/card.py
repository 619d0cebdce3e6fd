"""The model card: what a stranger should know before using the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from regard.bundle.bundle import Bundle
from regard.config.loading import dump_config


def render_card(bundle: Bundle, signature: Mapping[str, Any]) -> str:
    """Write README.md of a bundle, from nothing but the bundle: the same bundle gives the same text.

    Args:
        bundle: The model.
        signature: Its signature, versions included.
    """
    data, scores = bundle.config.data, signature.get("scores") or {}
    parts = [
        _front_matter(bundle),
        f"# Translation from {data.source} to {data.target}\n\nA sequence-to-sequence model with attention, trained with "
        f"regard {signature['versions']['regard']}.",
        "## Use\n\n" + _usage(bundle),
        "## Model\n\n" + _table(_model_rows(bundle)),
        "## Data\n\n" + _table(_data_rows(bundle, signature)),
        "## Scores\n\n" + _scores(scores),
        "## Limits\n\n" + _limits(bundle),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(bundle: Bundle) -> str:
    data = bundle.config.data
    facts = {"language": [data.source, data.target], "library_name": "regard", "pipeline_tag": "translation"}
    return f"---\n{yaml.safe_dump(facts, sort_keys=False, allow_unicode=True)}---"


def _usage(bundle: Bundle) -> str:
    own = f", {bundle.custom}=…" if bundle.custom else ""
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
        rows += [(name, f"`{value}`") for name, value in _flat(dump_config(config.model))]
    for side, tokenizer in (("source", bundle.source_tokenizer), ("target", bundle.target_tokenizer)):
        rows.append((f"{side} vocabulary", f"{tokenizer.size:,} symbols, `{getattr(config.tokenizers, side).kind}`"))
    decoding = config.decoding
    rows.append(("decoding", f"beam {decoding.beam_size}, length penalty {decoding.length_penalty:g}"))
    return rows


def _data_rows(bundle: Bundle, signature: Mapping[str, Any]) -> list[tuple[str, str]]:
    report, data = bundle.report, bundle.config.data
    rows = [("languages", f"{data.source} → {data.target}")]
    if data.train:
        rows.append(("training files", ", ".join(f"`{Path(name).name}`" for name in data.train)))
    for key, name in (("train_pairs", "training pairs"), ("dev_pairs", "held-out pairs")):
        if isinstance(report.get(key), int):
            rows.append((name, f"{report[key]:,}"))
    rows += [(name, str(signature[name])) for name in ("seed",) if name in signature]
    if signature.get("data"):
        rows.append(("hash of the data", f"`{signature['data']}`"))
    return rows


def _scores(scores: Mapping[str, Any]) -> str:
    if not scores:
        return "None: no pairs were held out."
    rows = [(str(name), f"{value:.4g}" if isinstance(value, float) else f"`{value}`") for name, value in scores.items()]
    return "On the held-out pairs:\n\n" + _table(rows)


def _limits(bundle: Bundle) -> str:
    data = bundle.config.data
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
