"""The picture that suits a record: a classification's words in colour, a grid of many sites, a heatmap of anything else."""

from pathlib import Path

from regard.record import AttentionRecord
from regard.record.views import sides
from regard.viz import grid, heatmap, words
from regard.viz.picture import Picture


def draw(
    record: AttentionRecord,
    path: str | Path | None = None,
    *,
    site: str | None = None,
    head: int | None = None,
    title: str | None = None,
) -> Picture:
    """Draw a record.

    Args:
        record: What to draw.
        path: Where to write it, as .png, .svg or .pdf; nowhere if left out.
        site: Which weights; `cross`, `pool`, or the only site, if left out. Those among a classification's words are a heatmap.
            What several sites' names begin with, such as `encoder` or `cross.*`, gives a grid of all their heads; so does
            leaving it out where all sites are of one such family.
        head: Which head, from 0; the mean over heads if left out.
        title: Put on top; of a classification, the label and its probability if left out.

    Raises:
        RequestError: If there is no such site, head or ending, or no word to draw.
        DataError: If the file cannot be written.
    """
    site = _only_family(record) if site is None and head is None else site
    if site is not None and site not in record.weights and head is None and grid.sites_of(record, site):
        return grid.draw(record, path, family=site, title=title)  # `cross` alone may be a site of its own: a mean of others
    if record.is_classification and sides(record.site(site)) == ("target", "source"):
        return words.draw(record, path, site=site, head=head, title=title)
    return heatmap.draw(record, path, site=site, head=head, title=title)


def _only_family(record: AttentionRecord) -> str | None:
    families = {site.partition(".")[0] for site in record.sites}
    return families.pop() if len(families) == 1 < len(record.sites) else None
