"""`regard resume`: continue an interrupted run, or train a run longer."""

from collections.abc import Mapping, Sequence

from regard.cli.options import Parser
from regard.config.loading import setting_names
from regard.errors import RequestError
from regard.task import find_task
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Resume a run, with changed settings if any are given, or a cross-validation."""
    from regard.cli.train import say_what_next, split_settings

    parser = Parser(
        "resume",
        "Continue an interrupted run from its last checkpoint. It uses the same batches as without the interruption, and ends\n"
        "with exactly the same weights. In a cross-validation, the interrupted fold continues, and then the remaining folds\n"
        "are trained.\n\n"
        "Settings change the run: train longer (even if the run has ended), or with another learning rate.\n"
        "The learning rate then rises gradually to the value that a run with the new length would have at this point.",
        "  regard resume runs/mine\n"
        "  regard resume runs/mine --training.max_epochs 20\n"
        "  regard resume runs/mine --training.max_epochs 20 --training.learning_rate 5e-4",
    )
    parser.add_argument("dir", metavar="DIR", help="the run's folder")
    parser.add_argument(
        "--any.setting",
        metavar="VALUE",
        help="a setting of `regard train` to change: training.max_epochs, max_steps, max_minutes, patience, learning_rate, "
        "schedule, …, dropouts of the model, decoding, device, threads",
    )
    overrides, rest = split_settings("resume", arguments, {"--help": False})
    folder = parser.read(rest).dir

    from regard.training import resume
    from regard.training.cross_validation import holds_folds, resume_folds

    if holds_folds(folder):
        if overrides:
            raise RequestError(
                f"resume: {folder} holds a cross-validation, whose settings cannot change, because all folds must be trained "
                "with the same settings; start a new one with `regard train classification --folds N`"
            )
        show(resume_folds(folder).render())
        return
    settings = _read_changes(folder, overrides) if overrides else {}
    model = resume(folder, overrides=settings)
    say_what_next(folder, model.config.task)


def _read_changes(folder: str, overrides: Mapping[str, str]) -> dict[str, object]:
    """Return the changed settings by their dotted names, and check that none is an option of another tool.

    Raises:
        RequestError: If one is an option of another tool. The message gives regard's name for it.
    """
    from regard.cli.habits import find_setting
    from regard.cli.train import read_settings
    from regard.training.folder import RunFolder

    task = RunFolder(folder).read_start()[0].task
    settings = read_settings(task, overrides)
    known = set(setting_names(find_task(task).config_class))
    for name in settings:
        answer = "" if name in known else find_setting(f"--{name}", task)
        if answer:
            raise RequestError(f"resume: '--{name}' is not an option here; in regard: {answer}")
    return settings
