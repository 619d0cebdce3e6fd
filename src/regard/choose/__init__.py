"""Choose settings from the data. `regard train` without a preset does this for all settings that the user did not set.

Each task has one table in its module `choice`. A table maps the measurements of `survey` (number of texts, lengths, writing
systems) to settings; `docs/explanation/choosing.md` shows the experiments from which the rows were derived. The speed of the
machine does not affect the choice, so the same files give the same settings on every machine.
"""

from regard.choose.config import choose_config

__all__ = ["choose_config"]
