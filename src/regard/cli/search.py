"""`regard search`: search for the settings of a run with the best score, with Optuna."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.cli import train
from regard.cli.options import Parser, check_ending
from regard.config.plugins import is_task, task_names
from regard.config.run import RunConfig
from regard.errors import RequestError, nearest
from regard.evaluation.tables import table
from regard.rendering import PICTURES
from regard.terminal import show

_DESCRIPTION = """\
Search for the settings of a run with the best score on the dev examples. Each trial is an ordinary run in a folder of its own.
A range is a list of values (1,2,3), or two numbers (0.1:0.5); with :log, numbers are drawn on a logarithmic scale. All other
options are those of `regard train TASK`. Repeat the command to continue a search that was interrupted, or to add trials."""
_EXAMPLES = """\
  regard search translation --data.train pairs.tsv --search.training.learning_rate 0.0005:0.005:log \\
      --search.model.hidden_size 64,128,256 --training.max_minutes 5 --trials 20 --out runs/search
  regard search classification --data.train reviews.csv --data.dev_size 500 \\
      --search.training.label_smoothing 0.0:0.2 --trials 10"""
# Options of `regard train` that are not settings; True for those with a value.
_FLAGS = {"--preset": True, "--config": True, "--from": True, "--distill": True, "--overwrite": False}


def main(arguments: Sequence[str]) -> None:
    """Run the trials of a search, and print the best."""
    if not arguments or "-h" in arguments or "--help" in arguments:
        parser = Parser("search", _DESCRIPTION, _EXAMPLES)
        parser.add_argument("task", metavar="TASK", help="task of the runs, such as translation")
        parser.add_argument("--search.NAME", metavar="RANGE", help="setting to search, and its range; several are allowed")
        parser.add_argument("--trials", metavar="N", help="number of trials of the search (default: 20)")
        parser.add_argument("--out", metavar="DIR", help="folder of the search (default: runs/ and a name)")
        parser.add_argument(
            "--to", metavar="FILE", help=f"picture of the scores ({' '.join(PICTURES)}; default: trials.png in the folder)"
        )
        show(parser.format_help())
        return
    task, *rest = arguments
    if not is_task(task):
        names = task_names()
        raise RequestError(f"search: there is no task '{task}'{nearest(task, names)} (expected one of: {', '.join(names)})")
    given, others = train.split_settings(f"search {task}", rest, _FLAGS)
    trials, out, to = (given.pop(name, "") for name in ("trials", "out", "to"))
    if trials and (not trials.isdecimal() or not int(trials)):
        raise RequestError(f"search: --trials is '{trials}', expected a whole number of 1 or more")
    if to:
        check_ending(to, PICTURES, "--to")
    _search(task, given, others, int(trials or 20), out, to)


def _search(task: str, given: Mapping[str, str], others: Sequence[str], trials: int, out: str, to: str) -> None:
    from regard.training.search import Range, search, write_table
    from regard.viz.trials import draw

    searched = {name: text for name, text in given.items() if name.startswith("search.")}
    ranges = {name.removeprefix("search."): Range.parse(name, text) for name, text in searched.items()}
    fixed = [*others, *(f"--{name}={text}" for name, text in sorted(given.items()) if name not in searched)]
    if not ranges:
        raise RequestError("search: no setting is searched; name one, as in --search.training.learning_rate 0.0005:0.005:log")
    if twice := next((name for name in ranges if name in given), ""):
        raise RequestError(f"search: --{twice} and --search.{twice} are the same setting; give only one of them")

    def build(settings: Mapping[str, str], folder: str) -> RunConfig:
        chosen = {**settings, "out": folder} if folder else settings
        return train.read_arguments(task, [*fixed, *(f"--{name}={value}" for name, value in chosen.items())], choose=True)

    first = build({name: one.ends()[0] for name, one in ranges.items()}, "")
    folder = Path(out or f"{first.out}-search")
    found = search(
        build,
        ranges,
        folder,
        trials=trials,
        seed=first.seed,
        after_trial=lambda found: write_table(found, folder / "trials.csv"),
        say=lambda text: show(text, flush=True),
    )
    best, scored = found[0], sorted((one for one in found if one.score is not None), key=lambda one: one.number)
    points = [(one.number, one.score or 0.0, one.state != "complete") for one in scored]
    picture = Path(to or folder / "trials.png")
    draw(points, picture, score=best.monitor, title="Trials of the search")
    rows = [
        [f"{one.number}", one.state, "" if one.score is None else f"{one.score:.4g}", *(one.settings[name] for name in ranges)]
        for one in found
    ]
    show("\n" + table(["trial", "state", best.monitor, *ranges], rows))
    show(f"\nThe table is in {folder / 'trials.csv'}, and the scores are drawn in {picture}.")
    settings = " ".join(f"--{name} {value}" for name, value in best.settings.items())
    show(f"Best: trial {best.number} ({best.monitor} {best.score:.4g}): {settings}")
    train.say_what_next(best.folder, first)
