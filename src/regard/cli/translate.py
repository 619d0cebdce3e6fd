"""`regard translate`: translate sentences from the command line, a file, or standard input."""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import tee
from typing import TYPE_CHECKING, Any

from regard.cli.lines import add_output_option, output_file, read_lines, typed_lines
from regard.cli.options import (
    Parser,
    add_heatmap_option,
    add_machine_options,
    add_model_argument,
    add_restriction_options,
    any_number,
    check_heatmap,
    load_translator,
    positive_number,
    restrictions_of,
    save_heatmap,
    whole_number,
)
from regard.errors import RequestError, nearest
from regard.rendering import Units
from regard.tasks.translation.commands import BEAM, ENSEMBLE, LENGTH_PENALTY, LENGTH_REWARD, PRECISION
from regard.terminal import show

if TYPE_CHECKING:
    from regard.decoding import Sampling
    from regard.tasks.translation.predictor import Translator
    from regard.tasks.translation.results import Translation

_ASKED = ("text", "prefix", "constraints")
_KEPT_OF_ENDLESS = 2048
"""Number of characters to keep of a line with more than 65,536. Translating such a line as a whole would take minutes."""


def main(arguments: Sequence[str]) -> None:
    """Translate sentences, and print one line for each."""
    parser = _parser()
    options = parser.read(arguments)
    if options.sentences and options.input:
        parser.error("sentences and --input are both given; give only one of the two")
    if options.sample and (options.beam is not None or options.n_best > 1):
        parser.error("--sample replaces the beam search: leave out --beam and --n-best")
    if options.minimum_risk and not options.sample and options.n_best == 1:
        parser.error("--minimum-risk chooses among several translations: add --sample 32, or --n-best 8")
    check_heatmap(options, "translate", len(options.sentences), "sentences")
    lines = _lines_of(options)  # a missing file is found before the model is loaded
    with output_file(options.output, "translate") as file:
        translator = load_translator(options, "translate")
        for number, translation in enumerate(_translations(translator, lines, options), 1):
            show(_render(translation, number, options), file=file, flush=options.live)
            if options.heatmap:
                save_heatmap(translation.attention, number, options, "sentences")


def _parser() -> Parser:
    parser = Parser(
        "translate",
        "Translate the given sentences, the lines of --input FILE, or the lines of standard input.\n"
        "For each sentence, one line is printed, in order.",
        '  regard translate runs/mine "she kissed him ." --heatmap map.png\n'
        "  regard translate runs/mine --input test.en > test.de\n"
        "  cat test.en | regard translate runs/mine --beam 5 --n-best 3 --json\n"
        "  regard translate runs/mine --input test.en --ensemble runs/other --ensemble runs/third\n"
        "  regard translate runs/mine --input test.en --sample 32 --minimum-risk chrf\n"
        '  regard translate runs/mine "a blue car ." --beam 6 --groups 3 --n-best 3\n'
        '  regard translate runs/mine "a blue car ." --prefix "Ein" --constraint "blaues Auto"',
    )
    add_model_argument(parser)
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="sentence to translate")
    parser.add_argument("--input", metavar="FILE", help="text file with one sentence per line")
    add_output_option(parser)
    for option in (BEAM, LENGTH_PENALTY, LENGTH_REWARD, PRECISION):
        option.add_to(parser)
    parser.add_argument(
        "--n-best",
        type=positive_number,
        default=1,
        metavar="N",
        help="print the N best translations of each sentence, one per line: sentence number, log probability and text,\n"
        "separated by tabs, in the order of the search's score, which adds the length reward and penalty (--json: score);\n"
        "translations cut off by the length limit come last (with --json, the field finished shows which)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per sentence: texts, scores, words, alignment")
    add_heatmap_option(parser, "the attention", "sentences")
    _add_choices(parser)
    add_restriction_options(parser)
    ENSEMBLE.add_to(parser)
    add_machine_options(parser)
    return parser


def _add_choices(parser: Parser) -> None:
    """Add the options for constraints on translations and for sampling."""
    held = parser.add_argument_group("constraints on translations")
    held.add_argument("--prefix", metavar="TEXT", help="beginning of every translation")
    held.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="TEXT",
        help="word or phrase that every translation contains; may be given several times (works best with a large --beam)",
    )
    held.add_argument(
        "--requests",
        action="store_true",
        help='lines are JSON objects: {"text": …, "prefix": …, "constraints": […]}; the last two are optional',
    )
    drawn = parser.add_argument_group("sampling instead of searching")
    drawn.add_argument("--sample", type=positive_number, metavar="N", help="sample N translations of each sentence")
    drawn.add_argument(
        "--temperature",
        type=any_number,
        metavar="X",
        help="temperature of the sampling; below 1 favours probable words (default: 1)",
    )
    drawn.add_argument("--top-k", type=positive_number, metavar="K", help="sample from the K most probable words")
    drawn.add_argument(
        "--top-p", type=any_number, metavar="P", help="sample from the most probable words that together have probability P"
    )
    drawn.add_argument("--seed", type=whole_number, metavar="N", help="seed of the sampling (default: 0)")
    drawn.add_argument(
        "--minimum-risk",
        choices=("chrf", "bleu"),
        help="of the N translations of --sample or --n-best, print the one that is most similar to all others",
    )


def _lines_of(options: argparse.Namespace) -> Iterable[str]:
    """Return the sentences to translate; empty if they are read from standard input.

    `options.live` is set to True for standard input, where a person or a program may wait for each answer.
    """
    options.live = not options.sentences and not options.input
    if options.sentences:
        return [" ".join(sentence.split()) for sentence in options.sentences]
    if options.input:
        return read_lines(options.input, "translate", kept=_KEPT_OF_ENDLESS)
    return []


def _translations(
    translator: "Translator", lines: Iterable[str], options: argparse.Namespace, done: int = 0
) -> Iterator["Translation"]:
    search: dict[str, Any] = {"beam_size": options.beam, "n_best": options.n_best, "precision": options.precision}
    search |= {"length_penalty": options.length_penalty, "length_reward": options.length_reward}
    search |= restrictions_of(options)
    search |= {"sampling": _sampling(options), "minimum_risk": options.minimum_risk}
    if not (options.json or options.heatmap):
        search["record"] = ()  # faster without records
    if options.beam is None and options.n_best > 1:
        search["beam_size"] = max(translator.config.decoding.beam_size, options.n_best)
    groups = typed_lines("translate", "sentence", kept=_KEPT_OF_ENDLESS) if options.live else [lines]
    for group in groups:
        if search["sampling"] is not None:
            search["sampling"] = replace(search["sampling"], first=done)
        texts: Iterable[str] = group
        if options.prefix or options.constraint or options.requests:
            texts, search["prefix"], search["constraints"] = _unzip(
                _request(line, number, options) for number, line in enumerate(group, done + 1)
            )
        yield from translator.translate_stream(texts, **search)
        done += len(group) if isinstance(group, list) else 0


def _sampling(options: argparse.Namespace) -> "Sampling | None":
    names = ("temperature", "top_k", "top_p", "seed")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.sample is None:
        if given:
            raise RequestError(f"translate: --{next(iter(given)).replace('_', '-')} is for sampling: add --sample N")
        return None
    from regard.decoding import Sampling

    return Sampling(count=options.sample, **given)


def _request(line: str, number: int, options: argparse.Namespace) -> tuple[str, str, list[str]]:
    """Return the text of a line, and the prefix and the constraints of its translation.

    Raises:
        RequestError: If the line should be a JSON object (`--requests`), but is not a valid one.
    """
    if not options.requests:
        return line, options.prefix or "", options.constraint
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"translate: line {number} is not JSON ({error}); --requests expects one JSON object per line"
        ) from error
    if not isinstance(asked, dict) or not isinstance(asked.get("text"), str):
        raise RequestError(f'translate: line {number} is not a JSON object with a text, such as {{"text": "…"}}')
    for name in asked.keys() - {"text", "prefix", "constraints"}:
        raise RequestError(f"translate: line {number} has '{name}'{nearest(name, _ASKED)}; expected {', '.join(_ASKED)}")
    prefix, constraints = asked.get("prefix", options.prefix or ""), asked.get("constraints", [])
    if not isinstance(prefix, str):
        raise RequestError(f"translate: the prefix of line {number} is not a text")
    if not isinstance(constraints, list) or not all(isinstance(one, str) for one in constraints):
        raise RequestError(f"translate: the constraints of line {number} are not a list of texts")
    return asked["text"], prefix, [*options.constraint, *constraints]


def _unzip(
    requests: Iterator[tuple[str, str, list[str]]],
) -> tuple[Iterator[str], Iterator[str], Iterator[list[str]]]:
    """Split an iterator of triples into three iterators. A triple is read when one of the three needs it."""
    texts, prefixes, constraints = tee(requests, 3)
    return (one[0] for one in texts), (one[1] for one in prefixes), (one[2] for one in constraints)


def _render(translation: "Translation", number: int, options: argparse.Namespace) -> str:
    several = options.minimum_risk is None and max(options.n_best, options.sample or 1) > 1
    best = [translation, *translation.alternatives] if several else [translation]
    if options.json:
        plain = _plain(translation, options.units)
        if several:
            listed = [{"text": x.text, **_scores(x)} for x in best]
            plain["samples" if options.sample else "n_best"] = listed
        return json.dumps(plain, ensure_ascii=False)
    if several:
        return "\n".join(f"{number}\t{x.log_probability:.4f}\t{x.text}" for x in best)
    return translation.text


def _plain(translation: "Translation", units: Units) -> dict[str, Any]:
    record = translation.attention
    plain: dict[str, Any] = {
        "source": translation.source,
        "text": translation.text,
        **_scores(translation),
    }
    if record is not None:
        record = record.in_units(units)
        plain |= {
            "source_words": list(record.source_words),
            "target_words": list(record.target_words),
            "alignment": record.pharaoh(),
        }
    return plain


def _scores(translation: "Translation") -> dict[str, Any]:
    return {
        "score": translation.score,
        "log_probability": translation.log_probability,
        "finished": translation.finished,
    }
