"""Short HTML views of models and results for notebooks. All text from files and users is escaped."""

from collections.abc import Iterable

from torch import nn

from regard.viz.labels import escaped as text

SHOWN = 60
"""Maximum number of characters of a text in a `repr`."""
_LONGEST = 2000
_CELL = 'style="text-align:left;vertical-align:top;padding:.15em .8em .15em 0"'
_MOST_ROWS = 20


def shortened(words: str) -> str:
    """Return a text for a `repr`: quoted, escaped, and truncated if it is long."""
    return repr(words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…")


def count_parameters(model: nn.Module) -> str:
    """Return the number of a model's parameters with its noun, such as `1,200 parameters`."""
    return f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters"


def table(title: str, rows: Iterable[tuple[str, str]], note: str = "") -> str:
    """Return an HTML table of names and values, in the colours of the notebook.

    Args:
        title: Text above the table; may be empty.
        rows: Names and values as plain text; all of them are escaped.
        note: Text below the table; may be empty.
    """
    lines = "".join(
        f'<tr><th scope="row" {_CELL}>{text(name, 200)}</th><td dir="auto" {_CELL}>{text(value, _LONGEST)}</td></tr>'
        for name, value in rows
    )
    head = f'<div dir="auto"><b>{text(title, 200)}</b></div>' if title else ""
    foot = f"<div><small>{text(note, _LONGEST)}</small></div>" if note else ""
    return f"<div>{head}<table><tbody>{lines}</tbody></table>{foot}</div>"


def bars(title: str, shares: Iterable[tuple[str, float]], note: str = "") -> str:
    """Return an HTML table of names with their probabilities as numbers and bars.

    Args:
        title: Text above the table.
        shares: Names and their probabilities, the most probable first; only the first 20 are shown.
        note: Text below the table; may be empty.
    """
    ranked = list(shares)
    lines = "".join(
        f'<tr><th scope="row" dir="auto" {_CELL}>{text(name, 200)}</th><td {_CELL}>{share:.1%}</td>'
        f'<td style="min-width:10em;vertical-align:middle"><div aria-hidden="true" style="height:.6em;'
        f'width:{100 * share:.1f}%;background:#3182bd"></div></td></tr>'
        for name, share in ranked[:_MOST_ROWS]
    )
    more = f"and {len(ranked) - _MOST_ROWS:,} less probable labels. " if len(ranked) > _MOST_ROWS else ""
    foot = f"<div><small>{text(more + note, _LONGEST)}</small></div>" if more + note else ""
    return f'<div><div dir="auto">{text(title, _LONGEST)}</div><table><tbody>{lines}</tbody></table>{foot}</div>'
