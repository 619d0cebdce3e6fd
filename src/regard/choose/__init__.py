"""Settings chosen from the data, which a run without a preset uses for everything that the user did not set.

Each task has one table in its module `choice`. A table maps what `survey` measured (number of texts, lengths, scripts) to
settings; `docs/explanation/choosing.md` has the measurements behind the rows. Timing does not affect the choice,
so the same files give the same settings on every machine.
"""

from regard.choose.config import choose_config

__all__ = ["choose_config"]
