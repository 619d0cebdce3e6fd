"""`regard corpus`: write the built-in sentence pairs, reviews or images of digits."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from regard.cli.options import Parser, at_least
from regard.errors import RequestError
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Write pairs, optionally with alignments, reviews, or images of digits."""
    parser = Parser(
        "corpus",
        "Write built-in data that `regard train` reads: English-German sentence pairs, reviews with labels, or images of\n"
        "handwritten digits with their names. The package contains 60,000 pairs, with their correct word alignments,\n"
        "30,000 reviews, and 1,797 digits. The same options always give the same files. `regard demo` trains on the pairs\n"
        "and reviews from number 0 on.",
        "  regard corpus --pairs 20000 --to pairs.tsv\n"
        "  regard corpus --pairs 20000 --to pairs.tsv --alignments pairs.align\n"
        "  regard corpus --pairs 1000 --start 50000 --to test.tsv           pairs after the first 50,000\n"
        "  regard corpus --reviews 16000 --to reviews.tsv\n"
        "  regard corpus --digits 16000 --to digits\n"
        "  regard train translation --preset demo --data.train pairs.tsv --out runs/pairs",
    )
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--pairs", type=at_least(1), metavar="N", help="write N sentence pairs, English TAB German")
    kind.add_argument("--reviews", type=at_least(1), metavar="N", help="write N reviews, text TAB label, with a header")
    kind.add_argument(
        "--digits",
        type=at_least(1),
        metavar="N",
        help="write a folder with images of three to five digits: N to train on, 500 for validation and 1,000 for a test,\n"
        "with tables of their texts, and files with the places of the digits, for `regard evaluate --regions`",
    )
    parser.add_argument(
        "--to", metavar="FILE", required=True, help="file to write, an existing one is replaced; for digits a new folder"
    )
    parser.add_argument(
        "--alignments",
        metavar="FILE",
        help="also write the word alignment of each pair in Pharaoh format (0-0 1-2), for data.alignments or to compare with\n"
        "`regard align`; a punctuation mark counts as a word",
    )
    parser.add_argument("--start", type=at_least(0), default=0, metavar="N", help="number of the first example (default: 0)")
    parser.add_argument(
        "--seed", type=at_least(0), default=1, metavar="N", help="seed, which chooses the first example (default: 1)"
    )
    _write(parser.read(arguments))


def _write(options: argparse.Namespace) -> None:
    if options.alignments and not options.pairs:
        raise RequestError("corpus: --alignments belongs to sentence pairs; other data have no alignments, so leave it out")
    if options.alignments and Path(options.alignments).resolve() == Path(options.to).resolve():
        raise RequestError(f"corpus: --to and --alignments both name {options.to}; give them different files")
    if options.digits:
        from regard.demo.digits import write_digits

        if options.start:
            raise RequestError("corpus: --start belongs to sentence pairs and reviews; choose other images with --seed")
        write_digits(options.to, options.digits, seed=options.seed)
        show(f"{options.digits:,} images to train on, 500 for validation and 1,000 for a test are in {options.to}.")
        return
    from regard.demo import DemoCorpus, ReviewCorpus

    corpus = DemoCorpus(seed=options.seed) if options.pairs else ReviewCorpus(seed=options.seed)
    what, count = ("pairs", options.pairs) if options.pairs else ("reviews", options.reviews)
    stop = options.start + count
    if stop > len(corpus):
        raise RequestError(
            f"corpus: {count:,} {what} from number {options.start:,} on were requested, but the corpus ends at number "
            f"{len(corpus) - 1:,}; lower --{what} or --start"
        )
    if isinstance(corpus, DemoCorpus):
        corpus.write(options.to, options.start, stop, alignments=options.alignments)
    else:
        corpus.write(options.to, options.start, stop)
    aligned = f", and their alignments in {options.alignments}" if options.alignments else ""
    show(f"{count:,} {what} are in {options.to}{aligned}.")
