"""The choice of a progress report: bars, lines, a notebook's display, or nothing."""

from rich.console import Console

from regard.training.notebook import Notebook, in_notebook
from regard.training.progress import Bars, Lines, Reporter


def build_reporter(*, progress: bool) -> Reporter:
    """Build a reporter: bars in a terminal, a bar and curves in a notebook, lines elsewhere; silent without `progress`."""
    if not progress:
        return Reporter()
    if in_notebook():
        return Notebook()
    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else Lines()
