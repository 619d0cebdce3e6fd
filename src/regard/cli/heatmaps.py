"""The option `--heatmap` of the commands that predict for several texts."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.options import add_picture_options, check_ending, check_picture_options, record_of
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.records import AttentionRecord

PICTURES = (".png", ".svg", ".pdf", ".html", ".json", ".npz")


def add_heatmap_option(parser: argparse.ArgumentParser, what: str, texts: str) -> None:
    """Add `--heatmap` and the options of pictures.

    Args:
        parser: The parser of the command.
        what: What is drawn, for the help text.
        texts: What the command predicts for, in the plural, for the help text.
    """
    parser.add_argument(
        "--heatmap",
        metavar="FILE",
        help=f"draw {what} ({' '.join(PICTURES)}); with several {texts}: a folder, which gets 1.png, 2.png, …",
    )
    add_picture_options(parser)


def check_heatmap(options: argparse.Namespace, command: str, num_given: int, texts: str) -> None:
    """Check `--heatmap` before a model is loaded.

    Args:
        options: The parsed options.
        command: Name of the command, for messages.
        num_given: Number of texts on the command line.
        texts: What the command predicts for, in the plural.

    Raises:
        RequestError: If the ending of the file is unknown, or one file is named for several texts.
    """
    check_picture_options(options, command)
    if options.heatmap and Path(options.heatmap).suffix:
        check_ending(options.heatmap, PICTURES, "--heatmap")
        if num_given > 1:
            raise RequestError(f"--heatmap names the file {options.heatmap}, but there are {num_given} {texts}: name a folder")


def save_heatmap(attention: "AttentionRecord | None", number: int, options: argparse.Namespace, texts: str) -> None:
    """Draw the attention of one prediction.

    Args:
        attention: Its record.
        number: The number of the text, from 1.
        options: The parsed options.
        texts: What the command predicts for, in the plural.

    Raises:
        RequestError: If one file is named for several texts, or there is no attention to draw.
    """
    target = Path(options.heatmap)
    if not target.suffix:
        target.mkdir(parents=True, exist_ok=True)
        target /= f"{number}.png"
    elif number > 1:
        raise RequestError(f"--heatmap names the file {target}, but there are several {texts}: name a folder")
    record_of(attention, "--heatmap").save(target, special=options.special, caption=options.caption)
