"""`regard corpus`: write the built-in sentence pairs or reviews to a file."""

import argparse
from collections.abc import Sequence

from regard.cli.options import Parser, at_least
from regard.errors import RequestError
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Write pairs, optionally with alignments, or reviews."""
    parser = Parser(
        "corpus",
        "Write built-in data to a file that `regard train` reads: English-German sentence pairs, or reviews with labels.\n"
        "The package contains 60,000 pairs, with their correct word alignments, and 30,000 reviews. The same options always\n"
        "give the same file. `regard demo` trains on the pairs and reviews from number 0 on.",
        "  regard corpus --pairs 20000 --to pairs.tsv\n"
        "  regard corpus --pairs 20000 --to pairs.tsv --alignments pairs.align\n"
        "  regard corpus --pairs 1000 --start 50000 --to test.tsv           pairs after the first 50,000\n"
        "  regard corpus --reviews 16000 --to reviews.tsv\n"
        "  regard train translation --preset tutorial-bahdanau --data.train pairs.tsv --out runs/bahdanau",
    )
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--pairs", type=at_least(1), metavar="N", help="write N sentence pairs, English TAB German")
    kind.add_argument("--reviews", type=at_least(1), metavar="N", help="write N reviews, text TAB label, with a header")
    parser.add_argument("--to", metavar="FILE", required=True, help="file to write; an existing one is replaced")
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
    """Write the pairs or reviews to a file, and name it."""
    if options.alignments and options.reviews:
        raise RequestError("corpus: --alignments belongs to sentence pairs; reviews have no alignments, so leave it out")
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
