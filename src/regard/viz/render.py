"""The renderer of records (see `regard.rendering`), which makes figures, files, and frames for notebooks."""

from pathlib import Path

from regard import disk
from regard.records import AttentionRecord
from regard.rendering import PAGE
from regard.viz import drawing, frame, page

embed = frame.embed
plot = drawing.draw


def write(
    record: AttentionRecord,
    path: Path,
    *,
    site: str | None = None,
    head: int | None = None,
    special: bool = False,
    caption: bool = True,
) -> None:
    """Write a picture or a page, depending on the file's ending."""
    if path.suffix.lower() == PAGE:
        disk.save(path, page.render(record, special=special, caption=caption))
    else:
        drawing.draw(record, path, site=site, head=head, special=special, caption=caption)
