"""The renderer of records (see `regard.rendering`), which makes figures, files, and frames for notebooks.

A classification is drawn as coloured words, many sites as a grid, and all else as a heatmap.
"""

from pathlib import Path
from typing import Any

from regard import disk
from regard.records import AttentionRecord
from regard.records.views import sides
from regard.rendering import PAGE, Theme, Units, themed
from regard.viz import grid, heatmap, page, words
from regard.viz.picture import Picture


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    units: Units = "auto",
    theme: Theme = "light",
    **options: Any,
) -> Picture:
    """Draw a record; the arguments and errors are those of `AttentionRecord.plot`, and a file is written if `path` is given.

    A common prefix of several sites, such as `encoder`, gives a grid of all their heads; `cross.*` does if `cross` is also a
    site. The title of coloured words is, by default, the label with its probability. In a classification, sites of attention
    among the words are drawn as heatmaps.
    """
    record = record.in_units(units)
    families = {each.partition(".")[0] for each in record.sites}
    if site is None and head is None and len(families) == 1 < len(record.sites):
        [site] = families
    with themed(theme):
        if site is not None and site not in record.weights and head is None and grid.sites_of(record, site):
            return grid.draw(record, path, family=site, **options)  # `cross` may also be a site, which summarises the others
        if record.is_classification and sides(record.site(site)) == ("target", "source"):
            return words.draw(record, path, site=site, head=head, **options)
        return heatmap.draw(record, path, site=site, head=head, **options)


def write(record: AttentionRecord, path: Path, *, site: str | None = None, head: int | None = None, **options: Any) -> None:
    """Write a picture or a page, depending on the file's ending."""
    if path.suffix.lower() == PAGE:
        disk.save(path, page.render(record, **options))
    else:
        draw(record, path, site=site, head=head, **options)


embed = page.embed
"""With `draw` and `write`, this function is the renderer of records; see `regard.rendering`."""
