"""Which two columns hold the text and its label, and whether the first line names them."""

from collections import Counter
from collections.abc import Sequence

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.columns import Layout, Wanted, find_position, is_place
from regard.text.report import COLUMN_NUMBERS, HEADER

TEXT_NAMES = (
    "text", "sentence", "review", "content", "comment", "document", "message", "tweet", "utterance", "body", "question",
    "review_text", "reviewtext", "review_body", "comment_text", "full_text", "text_clean", "description", "phrase", "post",
    "query", "abstract", "headline", "title", "input", "sms", "email", "string",
)  # fmt: skip
"""What columns of texts are usually called, the likeliest first."""
LABEL_NAMES = (
    "label", "labels", "class", "category", "categories", "sentiment", "target", "targets", "classes", "intent", "topic",
    "topics", "emotion", "emotions", "polarity", "tag", "tags", "genre", "genres", "stars", "rating", "star_rating", "score",
    "gold", "gold_label", "coarse_label", "fine_label", "label_text", "label_name", "toxic", "spam", "output", "y",
)  # fmt: skip
OTHER_NAMES = ("", "id", "idx", "index", "uid", "no", "number", "date", "author", "user", "source", "split", "language", "lang")
"""Further names that a header may hold."""


class MissingColumnError(DataError):
    """A column that the settings ask for is not there."""


def labelled_columns(data: LabelledDataConfig) -> Wanted:
    """A text and a label, by the settings of `data`."""
    return Wanted(
        "a text and a label",
        "data.text and data.label",
        choose=lambda names, path: choose_columns(names, data, path),
        find_layout=lambda rows, path: find_layout(rows, data, path),
        kinds=(str, bool, int, float, list),
    )


def find_layout(rows: Sequence[Sequence[str]], data: LabelledDataConfig, path: object) -> Layout:
    """Read the layout off the first rows of a tab- or comma-separated file.

    Args:
        rows: Some rows from the start of the file.
        data: `text`, `label` and `header`.
        path: For messages.

    Raises:
        DataError: If there is only one column, or one is asked for that is not there.
    """
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    widths = Counter(map(len, filled))
    width = max(widths, key=lambda size: (widths[size], size), default=0)
    if width < 2:
        shown = filled[0][0].strip()[:60] if filled else ""
        raise DataError(
            f"{path}: has one column (it starts with {shown!r}), expected a text and a label separated by a tab; give one text "
            "file for each label, or say what it is with data.format"
        )
    first = [cell.strip() for cell in filled[0]]
    named = any(name and not is_place(name) for name in (data.text, data.label))
    if named and data.header == "no":
        given = ", ".join(filter(None, (data.text, data.label)))
        raise DataError(f"{path}: data.text and data.label give names ({given}), but data.header is 'no'; give numbers")
    if data.header == "yes" or (data.header == "auto" and (named or _is_header(first, filled[1:], data, path))):
        places = choose_columns(first, data, path)
        return Layout(places, tuple(first[place] or str(place) for place in places), HEADER, max(width, len(first)))
    places = choose_columns([str(number) for number in range(width)], data, path)
    reason = COLUMN_NUMBERS if data.header == "auto" and first == [str(number) for number in range(len(first))] else None
    return Layout(places, tuple(map(str, places)), reason, width)


def choose_columns(names: Sequence[str], data: LabelledDataConfig, path: object) -> tuple[int, int]:
    """The positions of the text and of the label among the columns' names.

    Args:
        names: What the columns are called.
        data: `text` and `label`; else what such columns are usually called; else the first column that is not the label, and
            the last that is not the text.
        path: For messages.

    Raises:
        DataError: If a column is asked for that is not there, or one for both; or if there is only one.
    """
    if len(names) < 2:
        raise DataError(f"{path}: its first line names {len(names)} column, expected a text and a label; is it a header?")
    text = _find_given(data.text, "data.text", names, path)
    label = _find_given(data.label, "data.label", names, path)
    if text is not None and text == label:
        raise DataError(f"{path}: data.text and data.label are both the column '{names[text]}', expected two different ones")
    if text is None:
        text = _find_usual(names, TEXT_NAMES, label)
    if label is None:
        label = _find_usual(names, LABEL_NAMES, text)
    places = range(len(names))
    if text is None:
        text = next(place for place in places if place != label)
    if label is None:
        label = next(place for place in reversed(places) if place != text)
    return text, label


def _find_given(wanted: str, setting: str, names: Sequence[str], path: object) -> int | None:
    if not wanted:
        return None
    try:
        return find_position(wanted, names, path)
    except DataError as error:
        raise MissingColumnError(f"{error} ({setting})") from None


def _find_usual(names: Sequence[str], usual: Sequence[str], taken: int | None) -> int | None:
    folded = [name.strip().casefold() for name in names]
    found = (folded.index(name) for name in usual if name in folded)
    return next((place for place in found if place != taken), None)


def _is_header(cells: Sequence[str], rows: Sequence[Sequence[str]], data: LabelledDataConfig, path: object) -> bool:
    """Whether the first row names the columns, where neither the settings nor a line of numbers tell.

    It does if all its cells are usual names; or if the cell above the labels is a usual name for them, or the cell above the
    texts one for these, and that stands nowhere below; or if it is no number, and all below it are.
    """
    text, label = choose_columns(cells, data, path)
    folded = [cell.casefold() for cell in cells]
    if len(cells) > 1 and sum(map(bool, cells)) > 1 and all(cell in _KNOWN for cell in folded):
        return True
    below = {place: {row[place].strip() for row in rows if place < len(row)} for place in (text, label)}
    for place, usual in ((label, LABEL_NAMES), (text, TEXT_NAMES)):
        if folded[place] in usual and cells[place] not in below[place]:
            return True
    numbers = below[label] - {""}
    return bool(numbers) and all(map(_is_number, numbers)) and bool(cells[label]) and not _is_number(cells[label])


_KNOWN = {*TEXT_NAMES, *LABEL_NAMES, *OTHER_NAMES}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
