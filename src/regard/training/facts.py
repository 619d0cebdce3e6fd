"""Facts about a run, as stored in run.json. Their form is checked, because the file may come from an untrusted source."""

import hashlib
import json
from typing import Any

from regard.bundle.forms import misfit, misfit_in
from regard.bundle.signature import ORIGIN

_CHANGE = {"step": 0, "rate": None, "resets_plateau": False}
"""A `Change` as plain data, which shows the expected names and types."""
_LARGEST_RATE = 1e9
_OTHERS = {"threads": 0, "processes": 0, "estimated": {}}
_EVERY = {*_OTHERS, "started_from", "change", "before"}


def render_facts(facts: dict[str, Any]) -> bytes:
    """Return the content of run.json, with its checksum."""
    whole = {**facts, "checksum": _checksum(facts)}
    return (json.dumps(whole, indent=1) + "\n").encode()


def parse_facts(data: bytes) -> dict[str, Any]:
    """Return the facts in the content of run.json.

    Raises:
        ValueError: If the file is damaged, or a fact does not have the form that a run writes.
    """
    facts = json.loads(data)
    if not isinstance(facts, dict) or "config" not in facts:
        raise ValueError("it does not contain the facts about the start of a run")
    facts.pop("checksum", None)
    if render_facts(facts) != data:
        raise ValueError("its content does not match its checksum")
    texts = {name: "" for name in facts if name not in _EVERY}  # hashes and versions
    wrong = misfit_in(facts, texts | _OTHERS) or _wrong_parts(facts)
    if wrong:
        raise ValueError(wrong)
    return facts


def _wrong_parts(facts: dict[str, Any]) -> str:
    """Describe the first nested fact that is wrong; return an empty text if all are right."""
    change, before, origin = (facts.get(name) for name in ("change", "before", "started_from"))
    wrong = _wrong_change(change, "change")
    if not wrong and "started_from" in facts and origin != {}:
        wrong = misfit(origin, ORIGIN, "started_from")
    if not wrong and before is not None:
        wrong = misfit(
            before, {"config": "", "change": {}} if _has_change(before) else {"config": "", "change": None}, "before"
        )
        wrong = wrong or _wrong_change(before["change"], "before.change")
    return wrong


def _has_change(before: Any) -> bool:
    return isinstance(before, dict) and before.get("change") is not None


def _wrong_change(change: Any, name: str) -> str:
    if change is None:
        return ""
    if wrong := misfit(change, _CHANGE, name):
        return wrong
    if change["step"] < 0:
        return f"{name}.step is {change['step']}, expected 0 or more"
    rate = change["rate"]
    return "" if rate is None or 0 <= rate <= _LARGEST_RATE else f"{name}.rate is {rate}, expected from 0 to {_LARGEST_RATE:g}"


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
