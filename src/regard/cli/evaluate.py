"""`regard evaluate`: how good a trained model is on sentence pairs."""

import json
import sys
from collections.abc import Sequence

from regard.cli.options import Parser, add_machine_options, add_search_options, load_translator
from regard.cli.pairs import read_given_pairs


def main(arguments: Sequence[str]) -> None:
    """Print loss, perplexity, BLEU and chrF."""
    parser = Parser(
        "evaluate",
        "Translate the sources of some pairs and compare with their targets.\n"
        "Prints the loss (nats a target token), the perplexity, and BLEU and chrF with sacrebleu's signatures.",
        "  regard evaluate runs/mine test.tsv\n  regard evaluate runs/mine test.en,test.de --beam 5 --json",
    )
    parser.add_argument("dir", metavar="DIR", help="a trained model's folder")
    parser.add_argument("files", metavar="FILE[,FILE]", help="one file of pairs, or two parallel text files")
    add_search_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_machine_options(parser)
    options = parser.read(arguments)
    translator = load_translator(options)
    chunks, report = read_given_pairs(options.files, translator.config)
    sources, references = [], []
    for chunk in chunks:
        sources += chunk.source
        references += chunk.target
    print(report.render(), file=sys.stderr)
    scores = translator.evaluate(sources, references, beam_size=options.beam, progress=True)
    print(json.dumps(scores.to_dict(), ensure_ascii=False) if options.json else scores.render())
