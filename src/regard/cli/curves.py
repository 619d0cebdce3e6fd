"""`regard curves`: draw how loss and scores changed during training."""

from collections.abc import Sequence

from regard.cli.options import Parser, add_theme_option, check_ending
from regard.rendering import PICTURES, themed
from regard.terminal import show

_DEFAULT = "curves.png"


def main(arguments: Sequence[str]) -> None:
    """Draw the learning curves of one or several runs."""
    parser = Parser(
        "curves",
        "Draw the training loss, the dev loss and each score of the dev set, from a run's logs/metrics.csv. Several runs are\n"
        "drawn in one picture with a legend. A run that is still training is drawn up to its last row. BLEU and chrF during\n"
        "training are scores of greedy translations.",
        "  regard curves runs/mine\n  regard curves runs/luong runs/transformer --by epoch --to curves.svg\n"
        "  regard curves runs/mine --columns loss,learning_rate --to loss.png",
    )
    parser.add_argument("dirs", metavar="DIR", nargs="+", help="folder of a run")
    parser.add_argument(
        "--to", metavar="FILE", default=_DEFAULT, help=f"picture to write ({' '.join(PICTURES)}; default: {_DEFAULT})"
    )
    parser.add_argument(
        "--by", choices=("update", "epoch", "minute"), default="update", help="horizontal axis (default: update)"
    )
    parser.add_argument(
        "--columns",
        metavar="NAME[,NAME]",
        default="",
        help="columns of metrics.csv to draw; 'loss' stands for train_nll and dev_nll (default: loss and every score)",
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the picture")
    add_theme_option(parser)
    options = parser.read(arguments)
    check_ending(options.to, PICTURES, "--to")

    from regard.analysis.history import curves

    columns = [name.strip() for name in options.columns.split(",") if name.strip()]
    with themed(options.theme):
        curves(options.dirs, options.to, by=options.by, columns=columns, title=options.title)
    show(f"The curves are in {options.to}.")
