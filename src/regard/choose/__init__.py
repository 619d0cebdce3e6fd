"""Settings chosen from the data: what a run without a preset uses wherever the user set nothing.

Each task has one table in one module: `translation`, `classification`, `language`. A table maps what `survey` measured (number
of texts, lengths, scripts) to settings, with the measurements behind each row beside it. Nothing is chosen by timing, so the
same files give the same settings on every machine.
"""

from regard.choose.config import choose_config

__all__ = ["choose_config"]
