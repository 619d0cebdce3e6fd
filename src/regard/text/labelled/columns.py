"""Scores of columns as the text or the label of labelled texts."""

from collections.abc import Sequence

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.files.columns import Column, MissingColumnError, TwoColumns, find_position
from regard.text.files.content import Content, rate_text
from regard.text.files.names import LABEL, METADATA_SCORE, TEXT, is_metadata

_FEW_VALUES, _SOME_VALUES, _NOT_LABELS = 3, 1, -6
_LONGEST_LABEL_WORDS = 8
_NUMBERED_LABEL = 2
"""Score of a name such as `label_id` or `Class Index` as the name of a label."""
_LONGEST = 2
"""Bonus for a column that is named like a text if its texts are at least twice as long as the texts of any other column."""


class LabelledColumns(TwoColumns):
    """A text and a label column, as the settings of `data` describe them."""

    what = "a text and a label"
    sides = ("the text", "the label")
    settings = "data.text and data.label"
    kinds = (str, bool, int, float, list)
    allowed = "text, a number, true or false, or an array of these"
    one_column = "give one text file for each label"
    common_width = True
    repeating = True

    def __init__(self, data: LabelledDataConfig) -> None:
        self.data, self.header, self.encoding = data, data.header, data.encoding

    def given(self) -> tuple[str, str]:
        """Return `data.text` and `data.label`."""
        return self.data.text, self.data.label

    def place_given(self, names: Sequence[str], path: object) -> tuple[int | None, int | None]:
        """Return the positions of `data.text` and `data.label`."""
        text = _find_given(self.data.text, "data.text", names, path)
        label = _find_given(self.data.label, "data.label", names, path)
        if text is not None and text == label:
            raise DataError(
                f"{path}: data.text and data.label are both the column '{names[text]}', expected two different ones"
            )
        return text, label

    def scores(self, columns: Sequence[Column]) -> list[tuple[float, float]]:
        """Return the scores of each column, by its name and content; if there are a title and a body, the body is the text."""
        names = [self._rate_text_name(column.name) for column in columns]
        texts = [column.content.characters if rate_text(column.content) > 0 else 0.0 for column in columns]
        longest = max(texts, default=0.0)
        alone = sum(2 * length > longest for length in texts) == 1
        return [
            (
                name + rate_text(column.content) + (_LONGEST if alone and length == longest and name > 0 else 0),
                self._rate_label_name(column.name) + rate_label(column.content),
            )
            for name, length, column in zip(names, texts, columns, strict=True)
        ]

    def find_doubt(self, columns: Sequence[Column], best: tuple[int, int]) -> str:
        """Return a reason against the best columns if labels hardly ever repeat, or three or more columns hold only 0 and 1.

        The second reason also holds for columns of true and false. It does not count if `data.label` is set, or if the label
        column holds other values.
        """
        if columns[best[1]].content.varies and self.scores(columns)[best[1]][1] < 0:
            return f"a label must repeat, but nearly all values of {columns[best[1]]} are different"
        marks = [str(column) for column in columns if column.place != best[0] and _is_mark(column)]
        if self.data.label or len(marks) < 3 or not _is_mark(columns[best[1]]):
            return ""
        return (
            f"{', '.join(marks[:-1])} and {marks[-1]} hold only 0 and 1, or true and false; if they are labels of a text, "
            "write their names into one column, such as 'toxic,insult', and set data.label_separator to ','"
        )

    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if a cell is a usual name of texts or labels, two cells contain a name of each, or all name metadata."""
        if any(TEXT.is_usual(cell) or LABEL.is_usual(cell) for cell in first):
            return True
        texts, labels = ({place for place, cell in enumerate(first) if names.rate(cell) > 0} for names in (TEXT, LABEL))
        return (bool(texts) and bool(labels) and len(texts | labels) > 1) or all(map(is_metadata, first))

    def example(self, names: Sequence[str]) -> str:
        """Return the options `--data.text` and `--data.label` for two columns."""
        text, label = (f"'{name}'" if " " in name else name for name in names)
        return f"--data.text {text} --data.label {label}"

    @staticmethod
    def _rate_text_name(name: str | None) -> float:
        if name is None:
            return 0
        if not TEXT.is_exact(name) and (is_metadata(name) or LABEL.is_exact(name)):
            return METADATA_SCORE
        return TEXT.rate(name)

    @staticmethod
    def _rate_label_name(name: str | None) -> float:
        if name is None:
            return 0
        if LABEL.is_exact(name):
            return LABEL.rate(name)
        if is_metadata(name):
            return _NUMBERED_LABEL if LABEL.rate(name) else METADATA_SCORE
        return METADATA_SCORE if TEXT.is_exact(name) else LABEL.rate(name)


def rate_label(content: Content) -> float:
    """Return the score of a column as a label: highest for short values that are repeated often."""
    if content.kind == "lists":
        return _FEW_VALUES
    if content.kind in ("dates", "addresses", "licences") or content.words > _LONGEST_LABEL_WORDS:
        return _NOT_LABELS
    if content.varies:
        return _NOT_LABELS
    if content.kind in ("nothing", "one value") or content.count < 3:
        return 0
    return _FEW_VALUES if content.repeats else _SOME_VALUES if content.words <= 2 else 0


def _is_mark(column: Column) -> bool:
    """Return True if the values of a column are exactly 0 and 1, or exactly true and false."""
    return {str(cell).casefold().removesuffix(".0") for cell in column.cells} in ({"0", "1"}, {"false", "true"})


def _find_given(wanted: str, setting: str, names: Sequence[str], path: object) -> int | None:
    if not wanted:
        return None
    try:
        return find_position(wanted, names, path)
    except MissingColumnError as error:
        raise MissingColumnError(f"{error} ({setting})") from None
