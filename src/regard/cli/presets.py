"""`regard presets`: list the presets, or print one."""

from collections.abc import Sequence

from regard.cli.options import Parser
from regard.presets import preset_names, preset_text
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Print the name and a summary of each preset, or the YAML text of one preset."""
    parser = Parser(
        "presets",
        "List the presets, which are complete settings of runs, or print one as YAML, to edit it and give it to --config.",
        "  regard presets\n"
        "  regard presets luong > mine.yaml && regard train translation --config mine.yaml --data.train pairs.tsv",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="preset to print")
    name = parser.read(arguments).name
    if name is not None:
        show(preset_text(name), end="")
        return
    width = max(map(len, preset_names()))
    for known in preset_names():
        summary = preset_text(known).partition("\n")[0].removeprefix("# ")
        show(f"{known:<{width}}  {summary}")
