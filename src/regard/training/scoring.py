"""Cross-validation that estimates the scores of a run without held-out examples."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config import RunConfig
from regard.errors import ConfigError, DataError, Interrupted
from regard.task import Trainable
from regard.training.progress import Reporter


def score_by_folds(task: Trainable, train: Callable[[RunConfig], Any], reporter: Reporter) -> dict[str, Any]:
    """Train a model for each run of `task.scoring_runs`, and combine their scores.

    The models are discarded. They do not affect the model of the run itself.

    Args:
        task: The run without held-out examples.
        train: Function that trains a model without printing anything, and returns its predictor.
        reporter: Reporter of the progress.

    Returns:
        The scores, for the signature; empty if there are no such runs, or if a fold cannot be trained.

    Raises:
        Interrupted: If a signal stopped the cross-validation; nothing has been written then.
    """
    runs = task.scoring_runs()
    if not runs:
        return {}
    reporter.say(
        f"estimating the scores by cross-validation: {len(runs)} models, each scored on texts that were held out of its "
        "training (training.score_folds 0 skips this)"
    )
    found = []
    with tempfile.TemporaryDirectory(prefix="regard-folds-") as folder:
        for number, config in enumerate(runs, 1):
            try:
                predictor = train(replace(config, out=str(Path(folder, str(number))), chosen=()))
            except Interrupted as error:
                raise Interrupted(
                    f"stopped during the cross-validation, before training began; nothing was written to {task.config.out}",
                    signal_number=error.exit_code - 128,
                ) from error
            except (ConfigError, DataError) as error:
                reporter.say(f"no scores: fold {number} cannot be trained: {error}")
                return {}
            reporter.say(f"  trained and scored model {number} of {len(runs)}")
            found.append(predictor.bundle.signature["scores"])
    return task.pool_scores(found)
