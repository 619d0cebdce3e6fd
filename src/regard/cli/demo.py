"""`regard demo`: train on built-in texts, and draw the attention of a prediction."""

from collections.abc import Sequence

from regard.cli import demo_classification, demo_translation
from regard.cli.options import Parser, add_machine_options
from regard.tasks.arguments import positive_number, whole_number


def main(arguments: Sequence[str]) -> None:
    """Write a corpus, train on it, score the model on held-out texts, and show one prediction with its attention."""
    parser = Parser(
        "demo",
        "Train on built-in texts, score the model on new texts, and show one prediction with its attention. Nothing is\n"
        "downloaded. A small recurrent English-German translator takes some two minutes on two cores, a Transformer up to\n"
        "five; classifiers of reviews, one for each preset, take a minute.",
        "  regard demo\n  regard demo --model transformer\n  regard demo --task classification\n  regard demo --out /tmp/demo",
    )
    parser.add_argument(
        "--task", choices=("translation", "classification"), default="translation", help="what to train (default: translation)"
    )
    parser.add_argument(
        "--model",
        choices=tuple(demo_translation.PRESETS),
        help="translator to train: recurrent (the default, preset demo) or transformer (preset transformer-demo)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder of the run (default: runs/demo, runs/demo-transformer or runs/demo-classification)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the run that the folder already holds")
    parser.add_argument(
        "--examples",
        "--pairs",
        type=positive_number,
        metavar="N",
        help="pairs or reviews to train on (default: 30000 pairs, 16000 reviews)",
    )
    parser.add_argument(
        "--seed", type=whole_number, default=1, metavar="N", help="seed of the texts and of training (default: 1)"
    )
    add_machine_options(parser)
    options = parser.read(arguments)
    if options.seed >= 1 << 32:
        parser.error(f"--seed is {options.seed}, expected at most {(1 << 32) - 1}")
    most = (demo_translation if options.task == "translation" else demo_classification).FIRST_HELD_OUT
    if (options.examples or 0) > most:
        parser.error(f"--examples is {options.examples:,}, expected at most {most:,}; the examples after these are held out")
    if options.task == "translation":
        options.model = options.model or "recurrent"
        options.out = options.out or "runs/demo" + ("-transformer" if options.model == "transformer" else "")
        demo_translation.demonstrate(options)
    else:
        if options.model:
            parser.error("--model chooses a translator; the demo of classifiers trains one for each preset, so leave it out")
        options.out = options.out or "runs/demo-classification"
        demo_classification.demonstrate(options)
