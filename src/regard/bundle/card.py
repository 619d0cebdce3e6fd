"""The model card: facts and limits that a user of the model should know."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from regard.bundle.scores import score_rows
from regard.config.loading import dump_config, flatten
from regard.errors import printable
from regard.task import Bundle, Card, find_task

_CODE_SPAN = re.compile(r"((?<!`)`[^`]+`(?!`))")
# Characters with a meaning in Markdown, and those that turn plain addresses into links.
_MARKDOWN = re.compile(r"[\\`*~\[\]]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)(?!lt;)|:(?=//)|(?<=\bwww)\.")
# Keys of the counts of examples in a bundle's report, and the kind of these examples.
_COUNTS = {"num_train": "training", "num_dev": "held-out"}
_PRIVATE = "Its training data may contain private or biased text; regard does not filter it."


def render_card(bundle: Bundle, signature: Mapping[str, Any]) -> str:
    """Return the text of a model's README.md. The same bundle and signature give the same text."""
    card = find_task(bundle.config.task).bundle_format.card(bundle)
    facts = {"language": list(card.languages), "library_name": "regard", "pipeline_tag": card.pipeline_tag}
    parts = [
        f"---\n{yaml.safe_dump(facts, sort_keys=False, allow_unicode=True)}---",
        f"# {_inline(card.title)}\n\n{card.summary}, trained with regard {signature['versions']['regard']}.",
        "## Use\n\n" + _usage(bundle, card),
        "## Model\n\n" + _table([*_model_rows(bundle), *card.model_rows]),
        "## Data\n\n" + _table(_data_rows(bundle, signature, card.examples)),
        "## Scores\n\n" + _scores(card, signature.get("scores") or {}),
        "## Limits\n\n" + "\n".join(f"- {_inline(sentence)}" for sentence in (*card.limits, _PRIVATE)),
    ]
    return printable("\n\n".join(parts)) + "\n"


def _usage(bundle: Bundle, card: Card) -> str:
    own = f", {bundle.custom}=…" if bundle.custom else ""
    commands = find_task(bundle.config.task).commands(bundle.config)
    lines = [] if own or not commands else [*commands, ""]
    lines += ["import regard", *(line.replace("LOAD", f'regard.load("DIR"{own})') for line in card.code)]
    note = f"\n\nThe {bundle.custom} is a Python object of the model's author; pass it when you load the model." if own else ""
    return "\n".join(f"    {line}".rstrip() for line in lines) + "\n\n`DIR` is this folder." + note


def _model_rows(bundle: Bundle) -> list[tuple[str, str]]:
    rows = [("parameters", f"{sum(parameter.numel() for parameter in bundle.model.parameters()):,}")]
    if bundle.custom == "model":
        return [*rows, ("kind", f"`{type(bundle.model).__name__}`, by its author")]
    return rows + [(name, f"`{value}`") for name, value in flatten(dump_config(bundle.config.model)).items() if value != []]


def _data_rows(bundle: Bundle, signature: Mapping[str, Any], examples: str) -> list[tuple[str, str]]:
    rows = []
    if bundle.config.data.train:
        rows.append(("training files", ", ".join(f"`{Path(name).name}`" for name in bundle.config.data.train)))
    for key, name in _COUNTS.items():
        if isinstance(bundle.report.get(key), int):
            rows.append((f"{name} {examples}", f"{bundle.report[key]:,}"))
    if "seed" in signature:
        rows.append(("seed", str(signature["seed"])))
    origin = signature.get("started_from")
    if isinstance(origin, Mapping):
        name, weights = Path(str(origin.get("folder", ""))).name, str(origin.get("weights", ""))
        rows.append(("started from", f"`{name}`, weights `{weights[:16]}`, {origin.get('updates', 0):,} updates"))
    if signature.get("data"):
        rows.append(("hash of the data", f"`{signature['data']}`"))
    return rows


def _scores(card: Card, scores: Mapping[str, Any]) -> str:
    if not scores:
        return f"None: no {card.examples} were held out."
    if "folds" in scores:
        return f"By cross-validation, with models trained on a part of the {card.examples}:\n\n" + _table(score_rows(scores))
    return f"On the held-out {card.examples}:\n\n" + _table(score_rows(scores))


def _table(rows: Sequence[tuple[str, str]]) -> str:
    lines = ["| | |", "|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(_inline(cell).replace("|", "\\|") for cell in row) + " |" for row in rows])


def _inline(text: str) -> str:
    """Return a text on one line without HTML and links, which names of labels and files may contain; code spans are kept."""
    parts = _CODE_SPAN.split(" ".join(text.split()).replace("<", "&lt;"))
    return "".join(part if number % 2 else _MARKDOWN.sub(r"\\\g<0>", part) for number, part in enumerate(parts))
