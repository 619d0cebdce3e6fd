"""Write examples of the grammar: `python -m tools.corpora data` writes the tables of `regard.demo` again.

`python -m tools.corpora pairs N FILE` and `python -m tools.corpora reviews N FILE` write the first N examples, as many as
millions, in the form of `regard corpus`.
"""

import argparse
import lzma
from collections.abc import Iterator
from pathlib import Path

from tools.corpora.digits import digit_rows
from tools.corpora.pairs import GeneratedPairs
from tools.corpora.reviews import GeneratedReviews

PACKAGE = Path(__file__).parents[2] / "src" / "regard" / "demo"
NUM_PAIRS, NUM_REVIEWS = 58_000, 28_000
"""Numbers of examples from the beginning of the grammar's order."""
NUM_DISTANT = 2000
"""Number of the examples after these, from the middle of the order; the demo holds some of them out."""


def pair_rows() -> Iterator[str]:
    """Yield the lines of `pairs.tsv.xz`: source, target, sure links and the other possible links. No sentence occurs twice."""
    corpus = GeneratedPairs()
    seen: set[str] = set()
    distant = (index for index in range(len(corpus) // 2, len(corpus)) if not seen & {*corpus.text(index)})
    for index in (*range(NUM_PAIRS), *(None,) * NUM_DISTANT):
        pair = corpus[next(distant) if index is None else index]
        assert not seen & {pair.source, pair.target}
        seen |= {pair.source, pair.target}
        links = (" ".join(f"{i}-{j}" for i, j in sorted(part)) for part in (pair.alignment, pair.possible - pair.alignment))
        yield "\t".join((pair.source, pair.target, *links)) + "\n"


def review_rows() -> Iterator[str]:
    """Yield the lines of `reviews.tsv.xz`: text, label and the positions of the decisive words."""
    corpus = GeneratedReviews()
    middle = len(corpus) // 2
    for index in (*range(NUM_REVIEWS), *range(middle, middle + NUM_DISTANT)):
        review = corpus[index]
        yield f"{review.text}\t{review.label}\t{' '.join(map(str, review.decisive))}\n"


def main() -> None:
    """Write the tables of the package, or a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("data", "pairs", "reviews"))
    parser.add_argument("count", type=int, nargs="?")
    parser.add_argument("file", type=Path, nargs="?")
    options = parser.parse_args()
    if options.what != "data":
        if not options.file:
            parser.error("give a number and a file: python -m tools.corpora pairs 1000000 pairs.tsv")
        corpus = GeneratedPairs() if options.what == "pairs" else GeneratedReviews()
        corpus.write(options.file, options.count)
        return
    for name, rows in (("pairs", pair_rows()), ("reviews", review_rows()), ("digits", digit_rows())):
        table = "".join(rows).encode()
        (PACKAGE / f"{name}.tsv.xz").write_bytes(lzma.compress(table, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
