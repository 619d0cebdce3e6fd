"""The renderer of records (see `regard.rendering`), which makes figures, files, and frames for notebooks.

Weights on an image or a sound are drawn over it, a classification as coloured words, many sites as a grid, and all else as a
heatmap.
"""

from pathlib import Path
from typing import Any, get_args

from regard import disk
from regard.errors import RequestError, nearest
from regard.records import AttentionRecord
from regard.records.views import sides
from regard.rendering import PAGE, Over, Theme, Units, themed
from regard.viz import grid, heatmap, page, places, sound, words
from regard.viz import image as image_picture
from regard.viz.picture import Picture


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    units: Units = "auto",
    theme: Theme = "light",
    word: str | int | None = None,
    image: Over = "patches",
    **options: Any,
) -> Picture:
    """Draw a record; the arguments and errors are those of `AttentionRecord.plot`, and a file is written if `path` is given.

    A common prefix of several sites, such as `encoder`, gives a grid of all their heads; `cross.*` does if `cross` is also a
    site. The title of coloured words is, by default, the label with its probability. In a classification, sites of attention
    among the words are drawn as heatmaps.
    """
    if image not in get_args(Over):
        raise RequestError(f"image is {image!r:.40}, expected {', '.join(get_args(Over))}{nearest(str(image), get_args(Over))}")
    record = record.in_units(units)
    families = {each.partition(".")[0] for each in record.sites}
    if site is None and head is None and len(families) == 1 < len(record.sites):
        [site] = families
    with themed(theme):
        family = [] if site is None or site in record.weights or head is not None else grid.sites_of(record, site)
        sites = family or [record.site(site)]  # `cross` may also be a site, which summarises the others
        of = "" if image == "matrix" else places.kind(record, sites[0])
        if of == "image":
            return image_picture.draw(
                record, path, sites=sites, by_head=bool(family), head=head, word=word, image=image, **options
            )
        if of == "sound":
            return sound.draw(record, path, sites=sites, by_head=bool(family), head=head, word=word, **options)
        if word is not None or image in ("smooth", "beside"):
            raise RequestError(f"word and image are for weights on images and sounds; the columns of {sites[0]!r} are words")
        if family:
            return grid.draw(record, path, family=str(site), **options)
        if record.is_classification and sides(record.site(site)) == ("target", "source"):
            return words.draw(record, path, site=site, head=head, **options)
        return heatmap.draw(record, path, site=site, head=head, **options)


def write(record: AttentionRecord, path: Path, *, site: str | None = None, head: int | None = None, **options: Any) -> None:
    """Write a picture or a page, depending on the file's ending."""
    if path.suffix.lower() == PAGE:
        disk.save(path, page.render(record, site=site, **options))
    else:
        draw(record, path, site=site, head=head, **options)


embed = page.embed
"""With `draw` and `write`, this function is the renderer of records; see `regard.rendering`."""
