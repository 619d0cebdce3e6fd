"""`regard score`: compute the probability of given translations under a trained translator."""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from regard.cli.options import Parser, add_ensemble_option, load_for
from regard.cli.pair_lines import add_pair_options, print_lines, print_skipped
from regard.plurals import counted
from regard.tasks.arguments import given_files
from regard.tasks.translation.reading import read_given_pairs
from regard.terminal import show

if TYPE_CHECKING:
    from regard.tasks.translation.results import ScoredPair


def main(arguments: Sequence[str]) -> None:
    """Print the log probability of each pair on its own line, and the perplexity of all pairs on standard error."""
    parser = Parser(
        "score",
        "Score given translations with a trained translator.\n"
        "For each line of the file, one line is printed: log p (natural logarithm) and number of tokens, separated by a tab;\n"
        "an empty line if the file's line contains no pair. The perplexity of all pairs, and the formula of the score that\n"
        "ranks translations (in --json), are printed on standard error.",
        "  regard score runs/mine test.tsv\n  regard score runs/mine test.en,test.de --json > scores.jsonl\n"
        "  regard score runs/mine test.tsv --ensemble runs/other",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per pair: line, texts, score, log p (also of tokens)"
    )
    add_ensemble_option(parser)
    add_pair_options(parser)
    options = parser.read(arguments)
    translator = load_for("translation", options, "score")
    chunks, report = read_given_pairs(given_files(options), translator.config)
    pairs, tokens, total = 0, 0, 0.0

    def scored() -> "Iterator[tuple[int, ScoredPair]]":
        """Yield the line number and the scores of each pair, and count it."""
        nonlocal pairs, tokens, total
        for chunk in chunks:
            for line, one in zip(chunk.line, translator.score(chunk.source, chunk.target), strict=True):
                pairs, tokens, total = pairs + 1, tokens + one.num_tokens, total + one.log_probability
                yield line, one

    if options.json:
        for line, one in scored():
            show(json.dumps(_plain(line, one), ensure_ascii=False))
        print_skipped(report)
    else:
        print_lines(((line, f"{one.log_probability:.6f}\t{one.num_tokens}") for line, one in scored()), report)
    perplexity = math.exp(min(-total / max(tokens, 1), 700.0))
    sizes = f"{counted(pairs, 'pair')}, {counted(tokens, 'token')}"
    reward, penalty = translator.config.decoding.length_reward, translator.config.decoding.length_penalty
    formula = f"(log p + {reward:g} · tokens) / ((5 + tokens) / 6)^{penalty:g}"
    show(f"{sizes}: log p {total:.4f}, perplexity {perplexity:.4f}\nscore in --json: {formula}", file=sys.stderr)


def _plain(line: int, one: "ScoredPair") -> dict[str, Any]:
    return {
        "line": line,
        "source": one.source,
        "target": one.target,
        "score": one.score,
        "log_probability": one.log_probability,
        "tokens": one.num_tokens,
        "token_log_probabilities": [round(float(each), 6) for each in one.token_log_probabilities],
    }
