"""`regard resume`: go on with a run that was interrupted, or train one longer."""

from collections.abc import Mapping, Sequence

from regard.cli.options import Parser
from regard.config.loading import setting_names
from regard.config.run import TASKS
from regard.errors import RequestError


def main(arguments: Sequence[str]) -> None:
    """Resume a run."""
    from regard.cli.train import say_what_next, split_settings

    parser = Parser(
        "resume",
        "Go on with a run that was interrupted, exactly where its last checkpoint is: same batches, same weights, bit for\n"
        "bit. Of a cross-validation, the fold that was begun goes on, and those that were not begin.\n\n"
        "With settings, train on under these: longer (also a run that has ended), or at another learning rate. The learning\n"
        "rate rises gradually to what the schedule of a run of the new length has.",
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

    from regard.training import holds_folds, resume, resume_folds

    if holds_folds(folder):
        if overrides:
            raise RequestError(
                f"resume: {folder} holds a cross-validation, whose folds are trained alike, so its settings cannot change; "
                "start a new one with `regard train classification --folds N`"
            )
        print(resume_folds(folder).render())
        return
    settings = _read_changes(folder, overrides) if overrides else {}
    model = resume(folder, overrides=settings)
    say_what_next(folder, model.config.task)


def _read_changes(folder: str, overrides: Mapping[str, str]) -> dict[str, object]:
    """Return settings by their full names; options of other tools get what regard calls them.

    Raises:
        RequestError: If there is one of another tool.
    """
    from regard.cli.habits import find_setting
    from regard.cli.train import read_settings
    from regard.training.folder import RunFolder

    task = RunFolder(folder).read_start()[0].task
    settings = read_settings(task, overrides)
    known = set(setting_names(TASKS[task]))
    for name in settings:
        answer = "" if name in known else find_setting(f"--{name}", task)
        if answer:
            raise RequestError(f"resume: '--{name}' is not an option here; in regard: {answer}")
    return settings
