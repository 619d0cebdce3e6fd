"""Sites of attributions: what their values mean, for captions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Attribution:
    """Sentences about the values of an attribution; `{column}` is the unit of the columns, `{row}` the output.

    The other names in braces are those of `INPUTS`.
    """

    shows: str
    """Meaning of a value, in words."""
    limits: str
    """Limits of the values: a sentence on what they do not prove."""


INPUTS = {
    "word": {"blank": "a text of unknown words", "removed": "left out", "inputs": "texts"},
    "patch": {"blank": "a black image", "removed": "painted black", "inputs": "images"},
}
"""Words for these sentences, by the unit of the input: the empty input, and how a unit is removed."""

_STATES = "A state also contains the neighbours of its {column}, so other {columns} may decide too."

ATTRIBUTIONS: dict[str, Attribution] = {
    "gradients": Attribution(
        "the attention to each {column} times the gradient of the log probability of {row}, where positive, mean of heads and "
        "layers (gradient × attention)",
        _STATES,
    ),
    "integrated": Attribution(
        "how much the embedding of each {column} adds to the log probability of {row}, compared with {blank} "
        "(integrated gradients)",
        "Another baseline gives other values.",
    ),
    "values": Attribution(
        "how much the log probability of {row} falls if attention passes nothing on from the state of that {column} "
        "(value zeroing)",
        _STATES,
    ),
    "leave_one_out": Attribution(
        "how much the log probability of {row} falls if that {column} is {removed} (leave-one-out)",
        "Of two {columns} that say the same, neither seems to matter, and the model never learnt from {inputs} with gaps.",
    ),
}
"""Attributions by name. Sites of rollout, such as `cross.rollout`, have their own sentences."""


def attribution_of(site: str) -> Attribution | None:
    """Return the attribution of a site, such as `values` or `decoder.values`; None for attention."""
    return ATTRIBUTIONS.get(site.rpartition(".")[2])
