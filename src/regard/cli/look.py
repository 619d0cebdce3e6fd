"""`regard look`: a translation and the attention behind it."""

from collections.abc import Sequence

from regard.cli.options import Parser, add_machine_options, add_search_options, check_ending, load_translator, record_of
from regard.errors import RequestError

_ENDINGS = (".png", ".svg", ".pdf", ".html", ".json", ".npz")


def main(arguments: Sequence[str]) -> None:
    """Translate a sentence, or take a given translation, and show the attention."""
    parser = Parser(
        "look",
        "Translate a sentence and show where the model looked when it wrote each word.",
        '  regard look runs/mine "she kissed him ."\n'
        '  regard look runs/mine "she kissed him ." --to map.png\n'
        '  regard look runs/mine "she kissed him ." --target "sie küsste ihn ."',
    )
    parser.add_argument("dir", metavar="DIR", help="a trained model's folder")
    parser.add_argument("sentence", metavar="SENTENCE", help="what to translate")
    parser.add_argument("--target", metavar="TEXT", help="look at this translation of it instead of the model's own")
    parser.add_argument("--to", metavar="FILE", help=f"write it to a file ({' '.join(_ENDINGS)}) too")
    add_search_options(parser)
    add_machine_options(parser)
    options = parser.read(arguments)
    if not options.sentence.strip():
        raise RequestError("look: the sentence is empty")
    if options.to:
        check_ending(options.to, _ENDINGS, "--to")
    translator = load_translator(options)
    if options.target is None:
        [result] = translator.translate([options.sentence], beam_size=options.beam)
    else:
        [result] = translator.force([options.sentence], [options.target])
    record = record_of(result, "look")

    from rich.console import Console

    from regard.viz import terminal

    print(f"{result.source}\n{result.text}   (log probability {result.log_probability:.2f})\n")
    terminal.render(record, Console())
    if options.to:
        record.save(options.to)
        print(f"written to {options.to}")
