"""`regard resume`: go on with a run that was interrupted."""

from collections.abc import Sequence

from regard.cli.options import Parser


def main(arguments: Sequence[str]) -> None:
    """Resume a run."""
    parser = Parser(
        "resume",
        "Go on with a run that was interrupted, exactly where its last checkpoint is: same batches, same weights, bit for\n"
        "bit. Of a cross-validation, the fold that was begun goes on, and those that were not begin.",
        "  regard resume runs/mine",
    )
    parser.add_argument("dir", metavar="DIR", help="the run's folder")
    folder = parser.read(arguments).dir

    from regard.cli.train import say_what_next
    from regard.training import holds_folds, resume, resume_folds

    if holds_folds(folder):
        print(resume_folds(folder).render())
        return
    model = resume(folder)
    say_what_next(folder, model.config.task)
