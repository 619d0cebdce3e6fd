"""`regard resume`: go on with a run that was interrupted."""

from collections.abc import Sequence

from regard.cli.options import Parser


def main(arguments: Sequence[str]) -> None:
    """Resume a run."""
    parser = Parser(
        "resume",
        "Go on with a run that was interrupted, exactly where its last checkpoint is: same batches, same weights, bit for bit.",
        "  regard resume runs/mine",
    )
    parser.add_argument("dir", metavar="DIR", help="the run's folder")
    folder = parser.read(arguments).dir

    from regard.cli.train import say_what_next
    from regard.training import resume

    model = resume(folder)
    say_what_next(folder, model.config.task)
