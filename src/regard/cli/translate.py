"""`regard translate`: translate sentences from the command line, a file, or standard input."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.lines import read_lines, typed_lines
from regard.cli.options import (
    Parser,
    add_machine_options,
    add_search_options,
    check_ending,
    load_translator,
    positive_number,
    record_of,
)
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.predict import Translation, Translator

_PICTURES = (".png", ".svg", ".pdf", ".html", ".json", ".npz")


def main(arguments: Sequence[str]) -> None:
    """Translate, and print one line for each sentence."""
    parser = _parser()
    options = parser.read(arguments)
    if options.sentences and options.input:
        parser.error("sentences and --input at once; give one of the two")
    if options.heatmap and Path(options.heatmap).suffix:
        check_ending(options.heatmap, _PICTURES, "--heatmap")
    lines = _lines_of(options)  # a file that is not there is found before the model is loaded
    translator = load_translator(options, "translate")
    for number, translation in enumerate(_translations(translator, lines, options), 1):
        print(_render(translation, number, options), flush=options.live)
        if options.heatmap:
            _save(translation, number, Path(options.heatmap))


def _parser() -> Parser:
    parser = Parser(
        "translate",
        "Translate sentences: those given, or the lines of --input FILE, or those of standard input.\n"
        "One line comes out for each that goes in, in order.",
        '  regard translate runs/mine "she kissed him ." --heatmap map.png\n'
        "  regard translate runs/mine --input test.en > test.de\n"
        "  cat test.en | regard translate runs/mine --beam 5 --n-best 3 --json",
    )
    parser.add_argument("dir", metavar="DIR", help="a trained model's folder")
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="what to translate")
    parser.add_argument("--input", metavar="FILE", help="text file, one sentence a line")
    add_search_options(parser)
    parser.add_argument(
        "--n-best",
        type=positive_number,
        default=1,
        metavar="N",
        help="the N best translations of each sentence, one a line: sentence's number, score, text, separated by tabs",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        help="bfloat16 is quicker where the processor computes in it, and now and then chooses another word",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a sentence: texts, scores, words, alignment")
    parser.add_argument(
        "--heatmap",
        metavar="FILE",
        help=f"draw the attention ({' '.join(_PICTURES)}); with several sentences: a folder, which gets 1.png, 2.png, …",
    )
    add_machine_options(parser)
    return parser


def _lines_of(options: argparse.Namespace) -> Iterable[str]:
    """What to translate; sets `options.live` where somebody may wait for each line's answer."""
    options.live = not options.sentences and not options.input
    if options.sentences:
        if len(options.sentences) > 1 and options.heatmap and Path(options.heatmap).suffix:
            raise RequestError(
                f"--heatmap names the file {options.heatmap}, but there are {len(options.sentences)} sentences: name a folder"
            )
        return [" ".join(sentence.split()) for sentence in options.sentences]
    if options.input:
        return read_lines(options.input, "translate")
    return []


def _translations(translator: "Translator", lines: Iterable[str], options: argparse.Namespace) -> Iterator["Translation"]:
    search: dict[str, Any] = {"beam_size": options.beam, "n_best": options.n_best, "precision": options.precision}
    if not (options.json or options.heatmap):
        search["record"] = ()  # quicker
    if options.beam is None and options.n_best > 1:
        search["beam_size"] = max(translator.config.decoding.beam_size, options.n_best)
    if not options.live:
        yield from translator.translate_stream(lines, **search)
        return
    for group in typed_lines("translate", "sentence"):
        yield from translator.translate(group, **search)


def _render(translation: "Translation", number: int, options: argparse.Namespace) -> str:
    best = [translation, *translation.alternatives][: options.n_best]
    if options.json:
        plain = _plain(translation)
        if options.n_best > 1:
            plain["n_best"] = [{"text": x.text, "score": x.score, "log_probability": x.log_probability} for x in best]
        return json.dumps(plain, ensure_ascii=False)
    if options.n_best > 1:
        return "\n".join(f"{number}\t{x.score:.4f}\t{x.text}" for x in best)
    return translation.text


def _plain(translation: "Translation") -> dict[str, Any]:
    record = translation.attention
    plain: dict[str, Any] = {
        "source": translation.source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
    }
    if record is not None:
        plain |= {
            "source_words": list(record.source_words),
            "target_words": list(record.target_words),
            "alignment": record.pharaoh(),
        }
    return plain


def _save(translation: "Translation", number: int, target: Path) -> None:
    if target.suffix:
        if number > 1:
            raise RequestError(f"--heatmap names the file {target}, but there are several sentences: name a folder")
        record_of(translation, "--heatmap").save(target)
        return
    if not translation.text:
        print(f"{number}: the translation is empty, so there is nothing to draw", file=sys.stderr)
        return
    target.mkdir(parents=True, exist_ok=True)
    record_of(translation, "--heatmap").save(target / f"{number}.png")
