"""The symbols of a tokenizer, learned from counts of words.

The symbols are a pure function of the counts: the same texts in any order give the same symbols.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tokenizers import Tokenizer as Library
from tokenizers import models, trainers

from regard.config import BPEConfig, UnigramConfig
from regard.config.data import LearnedTokenizer
from regard.errors import ConfigError
from regard.text.bars import late_bars
from regard.text.symbols import SPECIAL_TOKENS, UNKNOWN, UNKNOWN_TOKEN

# Control characters. No symbol may contain one: symbols are printed, and a text with control characters is damaged anyway.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Maximum number of characters of a unigram subword in a file; the trainer makes subwords of up to 16.
_LONGEST_SUBWORD = 64
_SCORE_DIGITS = 6  # the trainer sums in random order, so further digits differ between runs


@dataclass(frozen=True)
class Symbols:
    """A vocabulary, with merges for BPE, scores for unigram models, or neither for whole words."""

    tokens: tuple[str, ...]
    """Texts of the symbols by id, beginning with the special symbols."""
    merges: tuple[tuple[str, str], ...] | None = None
    scores: tuple[float, ...] | None = None

    def model(self) -> Any:
        """Build the model of the `tokenizers` library."""
        ids = {token: number for number, token in enumerate(self.tokens)}
        if self.merges is not None:
            return models.BPE(ids, list(self.merges), unk_token=UNKNOWN_TOKEN)
        if self.scores is not None:
            return models.Unigram(list(zip(self.tokens, self.scores, strict=True)), unk_id=UNKNOWN)
        return models.WordLevel(ids, unk_token=UNKNOWN_TOKEN)


def learn(units: Counter[str], config: LearnedTokenizer, *, progress: bool = False) -> Symbols:
    """Learn the symbols of one tokenizer from the count of each unit (word, character, or word with its space mark)."""
    if isinstance(config, BPEConfig):
        return _learn_bpe(units, config, progress)
    if isinstance(config, UnigramConfig):
        return _learn_unigram(units, config, progress)
    return _most_frequent(units, config.min_count, config.max_size)


def _most_frequent(units: Counter[str], min_count: int, max_size: int) -> Symbols:
    seen = [(-count, unit) for unit, count in units.items() if count >= min_count and unit not in SPECIAL_TOKENS]
    kept = [(count, unit) for count, unit in sorted(seen) if not _CONTROL.search(unit)][: max_size or None]
    return Symbols((*SPECIAL_TOKENS, *(unit for _, unit in kept)))


def _learn_bpe(units: Counter[str], config: BPEConfig, progress: bool) -> Symbols:
    alphabet = _alphabet(units, config.size, config.min_count)
    trainer = trainers.BpeTrainer(
        vocab_size=config.size,
        min_frequency=config.min_count,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    library = Library(models.BPE(unk_token=UNKNOWN_TOKEN))
    state = _train(library, trainer, _within(units, alphabet), "BPE", progress)
    tokens = sorted(state["vocab"], key=state["vocab"].__getitem__)
    return Symbols(tuple(tokens), merges=tuple((left, right) for left, right in state["merges"]))


def _learn_unigram(units: Counter[str], config: UnigramConfig, progress: bool) -> Symbols:
    alphabet = _alphabet(units, config.size, 1, spare=1)  # the trainer exceeds the limit if there are too many characters
    trainer = trainers.UnigramTrainer(
        vocab_size=config.size, special_tokens=list(SPECIAL_TOKENS), unk_token=UNKNOWN_TOKEN, show_progress=False
    )
    state = _train(Library(models.Unigram()), trainer, _within(units, alphabet), "unigram", progress)
    subwords = sorted((score, subword) for subword, score in _order_characters(state["vocab"]))
    scores = (0.0,) * len(SPECIAL_TOKENS) + tuple(score for score, _ in reversed(subwords))
    return Symbols((*SPECIAL_TOKENS, *(subword for _, subword in reversed(subwords))), scores=scores)


def _order_characters(vocabulary: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Make trained unigram scores deterministic."""
    # The trainer adds characters that have no symbol yet, with the scores min, min + 1e-4, min + 2e-4, … in the order of a hash
    # table, which differs between runs. They get the same scores in the order of their code points.
    scores = {subword: round(score, _SCORE_DIGITS) for subword, score in vocabulary if subword not in SPECIAL_TOKENS}
    least = min(scores.values())
    steps = {subword: (score - least) * 1e4 for subword, score in scores.items() if len(subword) == 1}
    late = [subword for subword, step in steps.items() if step < len(steps) and abs(step - round(step)) < 0.05]
    for subword, score in zip(sorted(late), sorted((scores[subword] for subword in late), reverse=True), strict=True):
        scores[subword] = score
    return list(scores.items())


def _alphabet(units: Counter[str], size: int, min_count: int, *, spare: int = 0) -> set[str]:
    """Return the characters that get a symbol, without the rarest ones if the vocabulary is small."""
    room = size - len(SPECIAL_TOKENS) - spare
    if room < 1:
        raise ConfigError(
            f"the tokenizer's size is {size}; expected a larger one, such as 8000, for {len(SPECIAL_TOKENS)} special "
            "symbols and some subwords"
        )
    counts: Counter[str] = Counter()
    for unit, count in units.items():
        for character in unit:
            counts[character] += count
    seen = sorted((-count, each) for each, count in counts.items() if count >= min_count and not _CONTROL.match(each))
    return {character for _, character in seen[:room]}


def _within(units: Counter[str], alphabet: set[str]) -> Counter[str]:
    """Split units at characters that are not in the alphabet, and return the count of each part."""
    result: Counter[str] = Counter()
    for unit, count in units.items():
        if alphabet.issuperset(unit):
            result[unit] += count
        else:
            for part in "".join(character if character in alphabet else " " for character in unit).split():
                result[part] += count
    return result


def _train(library: Any, trainer: Any, units: Counter[str], name: str, progress: bool) -> dict[str, Any]:
    """Run the library's trainer on counted units, and return its model as plain data."""
    with late_bars(shown=progress) as bars:
        task = bars.add_task(f"learning {name} subwords", total=units.total())

        def repeated() -> Iterator[list[str]]:
            for unit in sorted(units):  # the trainer counts units itself, so each is repeated according to its count
                left = units[unit]
                while left > 0:
                    part = min(left, 10_000)
                    left -= part
                    yield [unit] * part
                    bars.advance(task, part)

        library.train_from_iterator(repeated(), trainer)
    return json.loads(library.to_str())["model"]


def check_symbols(symbols: Symbols) -> str:
    """Return an error message about symbols from a file; empty if they are valid."""
    tokens = symbols.tokens
    known = set(tokens)
    if tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
        return f"its first symbols are not {', '.join(SPECIAL_TOKENS)}"
    if len(known) != len(tokens):
        double = next(one for one, other in pairwise(sorted(tokens)) if one == other)
        return f"its symbol {double!r} occurs twice"
    if any("\ud800" <= character <= "\udfff" for token in tokens for character in token):
        return "a symbol contains half of a surrogate pair, which is not a character"
    if control := next(filter(_CONTROL.search, tokens), None):
        return f"its symbol {control!r:.60} contains a control character, which could control a terminal"
    if "" in known:
        return f"its symbol {tokens.index('')} is empty"
    for left, right in symbols.merges or ():
        if not {left, right, left + right} <= known:
            return f"its merge of {left!r} and {right!r} contains a subword that is not in the vocabulary"
    if symbols.scores is not None and (longest := max(map(len, tokens))) > _LONGEST_SUBWORD:
        return f"a subword has {longest:,} characters, expected at most {_LONGEST_SUBWORD}, so that encoding a text is fast"
    if symbols.scores is not None and not all(-1e4 < score <= 0 for score in symbols.scores):
        return "the score of a subword is not a log-probability (a finite number, at most 0)"
    return ""
