"""The renderer of records (see `regard.rendering`), which makes figures, files, and frames for notebooks."""

from pathlib import Path
from typing import Any

from regard import disk
from regard.records import AttentionRecord
from regard.rendering import PAGE
from regard.viz import drawing, frame, page

embed = frame.embed
plot = drawing.draw


def write(record: AttentionRecord, path: Path, *, site: str | None = None, head: int | None = None, **options: Any) -> None:
    """Write a picture or a page, depending on the file's ending."""
    if path.suffix.lower() == PAGE:
        disk.save(path, page.render(record, **options))
    else:
        drawing.draw(record, path, site=site, head=head, **options)
