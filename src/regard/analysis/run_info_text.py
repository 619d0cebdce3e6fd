"""`RunInfo` as text for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import yaml

from regard.analysis.run_facts import ModelInfo, RunFacts, TrainingInfo, VocabularyInfo
from regard.bundle.scores import score_rows
from regard.errors import printable
from regard.task import find_task

_FREQUENT = 10
_LONGEST = 4000
_MOST_LABELS = 20


def render(info: RunFacts) -> str:
    """Return the facts about a run as text."""
    sections = [
        ("Model", _model(info.model) if info.model else ["not written yet: the run has not finished its first validation"]),
        ("Data", _data(info)),
        ("Scores by cross-validation" if "folds" in info.scores else "Scores on the dev set", _scores(info)),
        ("Vocabulary", _vocabularies(info.vocabularies)),
        ("Labels", _labels(info.labels)),
        ("Training", _training(info.training)),
        ("Settings chosen from the data when the run began", info.training.chosen),
        ("Settings that differ from the defaults", _yaml(info.training.settings)),
    ]
    head = f"{info.folder}: {info.title}\n{_state(info)}"
    parts = [f"{name}\n" + "\n".join(f"  {line}" for line in lines) for name, lines in sections if lines]
    return _printable("\n\n".join([head, *parts]))


def _state(info: RunFacts) -> str:
    if info.state == "training":
        return f"being trained now by {info.holder or 'a process'}; this is the state so far"
    if info.state == "unfinished":
        model = "the model is the best so far" if info.model else "there is no model yet"
        return f"unfinished: {model}; `regard resume {info.folder}` continues the training"
    if info.state == "finished":
        return "training has finished"
    return "a trained model"


def _model(model: ModelInfo) -> list[str]:
    named = [(name.rpartition(".")[2], value) for name, value in model.kind.items()]
    kinds = ", ".join(value if name in ("model", value) else f"{value} {name}" for name, value in named)
    custom = {"model": "custom Python object", "attention": f"{kinds}; the attention is a custom Python object"}
    rows = [("kind", custom.get(model.custom, kinds))]
    rows.append(("parameters", f"{model.parameters:,} ({_megabytes(model.bytes)})"))
    rows += [("", f"{count:,} in {name}") for name, count in model.parts.items()]
    if model.sites:
        rows.append(("attention sites", ", ".join(_families(model.sites))))
    elif model.custom == "model":
        rows.append(("attention sites", "load the model from Python to see them: model.sites"))
    return _table(rows)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


def _families(sites: Sequence[str]) -> list[str]:
    """Return the sites, with the layers of each kind shortened to `encoder.0 … encoder.5`."""
    found = []
    for _, group in groupby(sites, key=lambda site: site.rpartition(".")[0] or site):
        own = list(group)
        found.append(own[0] if len(own) == 1 else f"{own[0]} … {own[-1]}" if len(own) > 2 else ", ".join(own))
    return found


def _data(info: RunFacts) -> list[str]:
    try:
        return find_task(info.task).bundle_format.render_report(info.data).splitlines()
    except (KeyError, TypeError, ValueError, AttributeError):  # a report of another version, or one that `fit` did not write
        files = info.training.settings.get("data", {}).get("train", [])
        counts = [(name.replace("_", " "), f"{value:,}") for name, value in info.data.items() if isinstance(value, int)]
        return _table([("files", ", ".join(map(str, files)) or "not recorded"), *counts])


def _scores(info: RunFacts) -> list[str]:
    if not info.scores:
        return [] if info.model is None else ["none: nothing was held out to validate on"]
    return _table([(name, value.strip("`")) for name, value in score_rows(info.scores)])


def _vocabularies(vocabularies: "Mapping[str, VocabularyInfo]") -> list[str]:
    lines: list[str] = []
    for side, vocabulary in vocabularies.items():
        case = ", lower case" if vocabulary.lowercase else ""
        groups = ", ".join(f"{count:,} {name}" for name, count in vocabulary.groups.items())
        special = f"{len(vocabulary.special)} special ({' '.join(vocabulary.special)})"
        lines.append(f"{side}: {vocabulary.size:,} symbols of kind '{vocabulary.kind}'{case}: {special}, {groups}")
        nested = vocabulary.counts if "tokens" not in vocabulary.counts else {"": vocabulary.counts}
        for name, counts in nested.items():
            lines += [f"  {line}" for line in _counts(name, counts)]
        if not nested:
            lines.append(f"  first symbols: {_quoted(vocabulary.first)} (how often symbols occur was not recorded)")
    return lines


def _counts(side: str, counts: Mapping[str, Any]) -> list[str]:
    try:
        tokens, unknown = int(counts["tokens"]), int(counts["unknown"])
        frequent = [f"{_quoted([token])} {count:,}" for token, count in counts["most_frequent"][:_FREQUENT]]
        rare = f"{int(counts['seen_once']):,} symbols seen once, {int(counts['never_seen']):,} never"
    except (KeyError, TypeError, ValueError):
        return ["the counts of the symbols cannot be read"]
    where = f"{side}: " if side else ""
    share = f"{unknown:,} unknown ({unknown / max(tokens, 1):.2%})"
    return [f"{where}{tokens:,} tokens in training, {share}; {rare}", f"most frequent: {', '.join(frequent)}"]


def _quoted(symbols: Iterable[str]) -> str:
    return " ".join(f"'{symbol:.40}'" for symbol in symbols)


def _labels(labels: Sequence[str]) -> list[str]:
    more = f" … and {len(labels) - _MOST_LABELS:,} more" if len(labels) > _MOST_LABELS else ""
    return [", ".join(labels[:_MOST_LABELS]) + more] if labels else []


def _training(training: TrainingInfo) -> list[str]:
    rows = []
    if training.updates is not None:
        epochs = f" ({training.epochs:,.4g} epoch{'s' * (training.epochs != 1)})" if training.epochs is not None else ""
        rows.append(("updates", f"{training.updates:,}{epochs}"))
    if training.kept:
        mean = "mean of the weights after updates " if len(training.kept) > 1 else "weights after update "
        rows.append(("model", mean + ", ".join(f"{step:,}" for step in training.kept)))
    time = f"{_duration(training.seconds)} without validations" if training.seconds is not None else "not recorded (no logs)"
    rows.append(("time", time))
    rows.append(("seed", str(training.seed)))
    if training.machine:
        rows.append(("machine", ", ".join(f"{name} {value}" for name, value in training.machine.items())))
    if training.versions:
        rows.append(("versions", ", ".join(f"{name} {value}" for name, value in training.versions.items())))
    if training.data_hash:
        rows.append(("hash of data", training.data_hash))
    return _table(rows)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def _yaml(settings: Mapping[str, Any]) -> list[str]:
    return yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True, width=110).splitlines() if settings else ["none"]


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:<{width}}  {value}" for name, value in rows]


def _printable(text: str) -> str:
    """Cut long lines, and escape control characters, so that an untrusted file cannot control the terminal."""
    return printable("\n".join(line[:_LONGEST] for line in text.split("\n")))
