"""The heatmap as PNG, SVG or PDF: columns are source words, rows are output words.

The picture grows with the words, so that a text of two or of a hundred words is readable and nothing is cut off.
"""

from pathlib import Path

from regard.records import AttentionRecord
from regard.viz import colour, picture
from regard.viz.caption import axis_names, bar_name, empty, note, write
from regard.viz.labels import label, runs_right_to_left
from regard.viz.numbers import blank_cells, decimals, fixed, greatest
from regard.viz.picture import Picture

# Font size in points and side of a cell in inches, by the maximum number of words on a side.
_SIZES = ((12, 10.0, 0.44), (30, 9.0, 0.28), (60, 8.0, 0.2), (10**9, 7.0, 0.165))
_MIN_WIDTH, _MAX_NUMBERS = 4.4, 260
# Maximum number of decimal places of weights in cells. Longer numbers would not fit, so cells then have only colours.
_MOST_PLACES = 3


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    title: str | None = None,
    special: bool = False,
    caption: bool = True,
    scale: float | None = None,
    between: tuple[str, str] | None = None,
) -> Picture:
    """Draw the weights of a record over words; the arguments and errors are those of `drawing.draw`.

    Weights are not normalised, even if rows do not sum to one; the caption says how much weight is not drawn. Columns run from
    right to left if their words do.
    """
    site = record.site(site)
    view = record.view(site, head, special=special, between=between).with_p_gen()
    kind = "True label" if record.is_classification else "Reference"
    reference = [] if record.reference is None else [f"{kind}: {label(record.reference, 400)}"]
    title = label(title, 200) if title else ""
    matrix = view.matrix
    if not matrix.size:
        return picture.draw_empty("heatmap", empty(record, site), [*reference, *note(record)] if caption else None, path, title)
    rows, columns = ([label(word) for word in words] for words in (view.rows, view.columns))
    # The first word of such a text is the rightmost column.
    unknown_columns = view.unknown_columns
    if turned := runs_right_to_left(columns):
        columns, matrix, unknown_columns = columns[::-1], matrix[:, ::-1], unknown_columns[::-1]
    size, side = next(x[1:] for x in _SIZES if max(matrix.shape) <= x[0])
    places = decimals(greatest(matrix))
    has_numbers = matrix.size <= _MAX_NUMBERS and side >= 0.26 and places <= _MOST_PLACES
    numbers = [fixed(weight, places) for weight in matrix.ravel().tolist()] if has_numbers else []
    foot = [*reference, *write(record, [site], [view], head)] if caption else None
    if foot and any(not float(number) for number in numbers):
        foot.insert(len(reference) + 1, blank_cells(places))
    with picture.begin("heatmap", [*rows, *columns, *(foot or ()), title], path) as figure:
        width = max(side, max(figure.measure(columns, size)) + 0.14)
        angle = 0 if width <= max(side, 0.9) and len(columns) <= 16 else 45 if len(columns) <= 40 else 90
        down, across = axis_names(site)
        axes = picture.draw_matrix(
            figure,
            matrix,
            picture.colours(matrix, colour.full_scale(matrix, given=scale)),
            (rows, columns),
            cell=(side if angle else width, side),
            names=(down, across, bar_name(site)),
            angle=angle,
            size=size,
            unknown=(view.unknown_rows, unknown_columns),
            numbers=[number if float(number) else "" for number in numbers],
        )
        picture.draw_borders(axes, view, turned=turned, width=1.2)
        if view.p_gen:
            axes.axvline(1 if turned else len(columns) - 1, color=colour.palette().ink, linewidth=1.2)
        figure.finish(title, foot, least_width=_MIN_WIDTH, centred=True)
    return figure
