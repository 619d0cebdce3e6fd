"""`regard score`: how probable a trained translator finds given translations."""

import json
import math
import sys
from collections.abc import Sequence

from regard.cli.options import Parser, add_ensemble_option, add_machine_options, load_translator
from regard.plurals import counted
from regard.tasks.arguments import add_layout_options
from regard.tasks.translation.commands import PAIR_LAYOUT, read_given_pairs


def main(arguments: Sequence[str]) -> None:
    """Print the score of each pair, and the perplexity of all."""
    parser = Parser(
        "score",
        "Score given translations with a trained translator.\n"
        "For each line of the file: score (what a search ranks by), log p (natural logarithm), tokens with the end\n"
        "symbol, separated by tabs; an empty line where the file's line holds no pair. On standard error: perplexity of all.",
        "  regard score runs/mine test.tsv\n  regard score runs/mine test.en,test.de --json > scores.jsonl\n"
        "  regard score runs/mine test.tsv --ensemble runs/other",
    )
    parser.add_argument("dir", metavar="DIR", help="a trained model's folder")
    parser.add_argument("files", metavar="FILE[,FILE]", help="one file of pairs, or two parallel text files")
    parser.add_argument("--json", action="store_true", help="one JSON object a pair: line, texts, score, log p of each token")
    add_ensemble_option(parser)
    add_layout_options(parser, *PAIR_LAYOUT)
    add_machine_options(parser)
    options = parser.read(arguments)
    translator = load_translator(options, "score")
    chunks, report = read_given_pairs(options, translator.config)
    printed, pairs, tokens, total = 0, 0, 0, 0.0
    for chunk in chunks:
        for line, one in zip(chunk.line, translator.score(chunk.source, chunk.target), strict=True):
            pairs, tokens, total = pairs + 1, tokens + one.num_tokens, total + one.log_probability
            if options.json:
                plain = {"line": line, "source": one.source, "target": one.target, "score": one.score}
                plain |= {"log_probability": one.log_probability, "tokens": one.num_tokens}
                plain["token_log_probabilities"] = [round(float(each), 6) for each in one.token_log_probabilities]
                print(json.dumps(plain, ensure_ascii=False))
                continue
            print("\n" * (line - printed - 1) + f"{one.score:.6f}\t{one.log_probability:.6f}\t{one.num_tokens}")
            printed = line
    if report.unit == "lines" and not options.json:
        print("\n" * (report.read - printed), end="")
    if report.skipped:
        print(report.render(), file=sys.stderr)
    perplexity = math.exp(min(-total / max(tokens, 1), 700.0))
    print(
        f"{counted(pairs, 'pair')}, {counted(tokens, 'token')}: log p {total:.4f}, perplexity {perplexity:.4f}", file=sys.stderr
    )
