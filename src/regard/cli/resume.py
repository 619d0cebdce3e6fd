"""`regard resume`: continue an interrupted run, or train a run longer."""

from collections.abc import Sequence

from regard.cli.habits import find_habit
from regard.cli.options import Parser
from regard.errors import RequestError
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Resume a run, with changed settings if any are given, or a cross-validation."""
    from regard.cli.train import read_settings, say_what_next, split_settings

    parser = Parser(
        "resume",
        "Continue an interrupted run from its last checkpoint. It uses the same batches as without the interruption, and ends\n"
        "with exactly the same weights. In a cross-validation, the interrupted fold continues, and then the remaining folds\n"
        "are trained.\n\n"
        "Settings change the run: train longer (even if the run has ended), or with another learning rate.\n"
        "The learning rate is then that of a run with the new length at this point.",
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
    from regard.training.folder import RunFolder

    if holds_folds(folder):
        if overrides:
            raise RequestError(
                f"resume: {folder} holds a cross-validation, whose settings cannot change, because all folds must be trained "
                "with the same settings; start a new one with `regard train classification --folds N`"
            )
        show(resume_folds(folder).render())
        return
    for name in overrides:
        if "." not in name and (answer := find_habit("training", name)):
            raise RequestError(f"resume: '--{name}' is not an option here; in regard: {answer}")
    settings = read_settings(RunFolder(folder).read_start()[0].task, overrides) if overrides else {}
    model = resume(folder, overrides=settings)
    say_what_next(folder, model.config)
