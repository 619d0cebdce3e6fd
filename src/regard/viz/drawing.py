"""The renderer of records (see `regard.rendering`), which makes figures, files, and frames for notebooks.

A classification is drawn as coloured words, many sites as a grid, and all else as a heatmap.
"""

from pathlib import Path
from typing import Any

from regard import disk
from regard.records import AttentionRecord
from regard.records.views import sides
from regard.rendering import PAGE, Units
from regard.viz import grid, heatmap, page, words
from regard.viz.picture import Picture


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    title: str | None = None,
    special: bool = False,
    caption: bool = True,
    units: Units = "auto",
) -> Picture:
    """Draw a record.

    Args:
        record: The record.
        path: File to write, as .png, .svg or .pdf; by default, no file is written.
        site: Site to draw; by default `cross`, `pool`, or the only site. In a classification, sites of attention among the
            words are drawn as heatmaps. A common prefix of several sites, such as `encoder`, gives a grid of all their heads;
            write `cross.*` if `cross` is also a site. The grid is the default if all sites share a prefix that is not a site.
        head: Head to draw, from 0; by default the mean over heads.
        title: Text at the top; by default, none, or the label and its probability above coloured words.
        special: If True, special tokens such as [CLS] and the end of the sentence are drawn like words.
        caption: If False, the picture has no text below it.
        units: Units of the picture; see `AttentionRecord.in_units`.

    Raises:
        RequestError: If there is no such site or head, or the file has another ending.
        DataError: If the file cannot be written.
    """
    record = record.in_units(units)
    families = {each.partition(".")[0] for each in record.sites}
    if site is None and head is None and len(families) == 1 < len(record.sites):
        [site] = families
    asked: dict[str, Any] = {"title": title, "special": special, "caption": caption}
    if site is not None and site not in record.weights and head is None and grid.sites_of(record, site):
        return grid.draw(record, path, family=site, **asked)  # `cross` may also be a site, which summarises the others
    if record.is_classification and sides(record.site(site)) == ("target", "source"):
        return words.draw(record, path, site=site, head=head, **asked)
    return heatmap.draw(record, path, site=site, head=head, **asked)


def write(record: AttentionRecord, path: Path, *, site: str | None = None, head: int | None = None, **options: Any) -> None:
    """Write a picture or a page, depending on the file's ending."""
    if path.suffix.lower() == PAGE:
        disk.save(path, page.render(record, **options))
    else:
        draw(record, path, site=site, head=head, **options)


embed = page.embed
"""With `draw` and `write`, this function is the renderer of records; see `regard.rendering`."""
