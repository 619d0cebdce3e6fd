"""The picture that suits a record: a classification's words in colour, a grid of many sites, a heatmap of anything else."""

from pathlib import Path
from typing import Any

from regard.records import AttentionRecord
from regard.records.views import sides
from regard.viz import grid, heatmap, words
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
) -> Picture:
    """Draw a record.

    Args:
        record: What to draw.
        path: Where to write it, as .png, .svg or .pdf; nowhere if left out.
        site: Which weights; `cross`, `pool`, or the only site, if left out. Those among a classification's words are a heatmap.
            What several sites' names begin with, such as `encoder` or `cross.*`, gives a grid of all their heads; so does
            leaving it out where all sites are of one such family.
        head: Which head, from 0; the mean over heads if left out.
        title: Text on top; of a classification, the label and its probability if left out.
        special: If True, special tokens such as [CLS] and the end of the sentence are drawn like words.
        caption: If False, the picture has no text below it.

    Raises:
        RequestError: If there is no such site, head or ending.
        DataError: If the file cannot be written.
    """
    site = _only_family(record) if site is None and head is None else site
    asked: dict[str, Any] = {"title": title, "special": special, "caption": caption}
    if site is not None and site not in record.weights and head is None and grid.sites_of(record, site):
        return grid.draw(record, path, family=site, **asked)  # `cross` alone may be a site of its own: a mean of others
    if record.is_classification and sides(record.site(site)) == ("target", "source"):
        return words.draw(record, path, site=site, head=head, **asked)
    return heatmap.draw(record, path, site=site, head=head, **asked)


def _only_family(record: AttentionRecord) -> str | None:
    families = {site.partition(".")[0] for site in record.sites}
    return families.pop() if len(families) == 1 < len(record.sites) else None
