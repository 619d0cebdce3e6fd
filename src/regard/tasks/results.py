"""The base class of results, and short views of models and results for notebooks. All text from files and users is escaped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from regard.decoding import Hypothesis
from regard.records import AttentionRecord
from regard.text.symbols import END
from regard.text.tokenizers.tokenizer import Tokenizer
from regard.viz.labels import escaped

SHOWN = 60
"""Maximum number of characters of a text in a `repr`."""
_LONGEST = 2000
_CELL = 'style="text-align:left;vertical-align:top;padding:.15em .8em .15em 0"'


@dataclass(frozen=True, repr=False)
class Prediction:
    """A result of a model, perhaps with the attention of the model."""

    _build: Callable[[], AttentionRecord] | None = field(default=None, repr=False, compare=False, kw_only=True)
    """Function that builds the record of the attention; None if no attention was recorded."""
    _written: tuple[int, ...] = field(default=(), repr=False, compare=False, kw_only=True)
    """Ids of the tokens of a written text, with the end symbol if the model wrote it."""

    @cached_property
    def attention(self) -> AttentionRecord | None:
        """Record of the attention, built at the first access; None if no attention was recorded."""
        return None if self._build is None else self._build()


def record_side(
    side: str, tokenizer: Tokenizer, tokens: Sequence[str], words: Sequence[str], word_of: Sequence[int], text: str
) -> dict[str, Any]:
    """Return the fields of an `AttentionRecord` on one side, `source` or `target`."""
    units = {"tokens": tuple(tokens), "words": tuple(words), "word_of": tuple(word_of)}
    return {f"{side}_{name}": value for name, value in (units | {"scheme": tokenizer.record_scheme, "text": text}).items()}


def target_side(
    hypothesis: Hypothesis, tokenizer: Tokenizer, replaced: Mapping[int, str], text: str, reference: str | None
) -> dict[str, Any]:
    """Return the fields of an `AttentionRecord` on the side of a written text.

    Args:
        hypothesis: The text as tokens.
        tokenizer: Tokenizer of the text.
        replaced: Words shown instead of symbols of the output, by the symbol's position.
        text: The text.
        reference: The text if the caller gave it, whose words are shown even if the model does not know them; else None.
    """
    tokens = hypothesis.tokens
    # End symbols are among the tokens, but belong to no word.
    ended = len(hypothesis.token_log_probabilities) > len(tokens)
    output = tokenizer.describe([*tokens, END] if ended else tokens)
    words, word_of = list(output.words), list(output.word_of)
    if reference is not None:
        encoding = tokenizer.encode(reference)
        words, word_of = list(encoding.words), [*encoding.word_of, -1]
    for number in {output.word_of[place] for place in replaced}:
        places = [place for place, owner in enumerate(output.word_of) if owner == number]
        parts = {at: replaced[place] for at, place in enumerate(places) if place in replaced}
        words[number] = tokenizer.decode([output.ids[place] for place in places], replace=parts).strip()
    return record_side("target", tokenizer, output.tokens, words, word_of, text)


def shortened(words: str) -> str:
    """Return a text for a `repr`: quoted, escaped, and truncated if it is long."""
    return repr(words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…")


def table(title: str, rows: Iterable[tuple[str, str]], note: str = "") -> str:
    """Return an HTML table of names and values, escaped, with a text above and a note below it; both may be empty."""
    lines = "".join(
        f'<tr><th scope="row" {_CELL}>{escaped(name, 200)}</th><td dir="auto" {_CELL}>{escaped(value, _LONGEST)}</td></tr>'
        for name, value in rows
    )
    head = f'<div dir="auto"><b>{escaped(title, 200)}</b></div>' if title else ""
    foot = f"<div><small>{escaped(note, _LONGEST)}</small></div>" if note else ""
    return f"<div>{head}<table><tbody>{lines}</tbody></table>{foot}</div>"
