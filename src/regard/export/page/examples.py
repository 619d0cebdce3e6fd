"""The default example texts of a page: texts of the model's own data, or built-in English texts."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from regard.errors import RegardError
from regard.task import find_task
from regard.text.languages import find_language
from regard.text.symbols import UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer

_MOST = 6
# Maximum number of characters of a held-out text; a longer one would fill a small screen.
_LONGEST = 160
_FEWEST_WORDS = 3
# Number of texts whose attention is compared with the decision, and minimum of `Predictor.disagreement` to show one.
_TRIED, _APART = 16, 0.1


class Examples(NamedTuple):
    """The example texts of a page."""

    texts: Sequence[str]
    trained: bool = False
    """If True, the model was trained on these texts."""


def choose_examples(predictors: Sequence[Any]) -> Examples:
    """Return at most six texts of the first model's data, if its files are still there, else built-in ones.

    The texts of the data are held-out ones; if none were held out, training texts.
    """
    first, task = predictors[0], find_task(predictors[0].config.task)
    inventories = [task.bundle_format.inventory(predictor.bundle.parts) for predictor in predictors]
    tokenizers = [next(iter(inventory.tokenizers.values())) for inventory in inventories]
    with suppress(RegardError, OSError):  # the files of the data may have moved or changed since training
        texts, held_out = task.training.held_out(first.config, first.bundle.parts)
        if chosen := _choose(texts, tokenizers[0], first):
            return Examples(chosen, trained=not held_out)
    cards = [task.bundle_format.card(predictor.bundle) for predictor in predictors]
    # Subword tokenizers know the words of every language, so a model of another language needs its own examples.
    if any(card.languages and find_language(card.languages[0]) != "en" for card in cards):
        return Examples([])
    return Examples([spelling for text in cards[0].inputs if (spelling := _known_spelling(text, tokenizers))][:_MOST])


def _choose(texts: Sequence[str], tokenizer: Tokenizer, predictor: Any) -> list[str]:
    """Choose texts of all lengths, up to the longest, and two that show limits, if there are such texts.

    One depends on another word than attention shows, and one has a word that is not in the vocabulary.
    """
    fitting = {text for text in texts if len(text) <= _LONGEST and len(text.split()) >= _FEWEST_WORDS}
    # Without a text that fits, such as in scripts without spaces, the beginnings of texts are better than built-in texts.
    short = sorted(fitting or set(map(_shorten, texts)), key=lambda text: (len(text), text))
    unknown = {text for text in short if UNKNOWN in tokenizer.encode(text).ids}
    known = [text for text in short if text not in unknown]
    # From a third of the lengths on, because the shortest texts show little.
    apart = {text: predictor.disagreement(text) for text in known[:: len(known) // _TRIED + 1]}
    limits = [text for text in sorted(apart, key=lambda text: -apart[text])[:1] if apart[text] >= _APART]
    first, last = len(known) * 2 // (_MOST + 1), len(known) - 1
    count = _MOST - bool(unknown) - bool(limits)
    places = [first + (last - first) * place // (count - 1) for place in range(count)] if known else []
    chosen = list(dict.fromkeys([*(known[place] for place in places), *limits]))
    return chosen + sorted(unknown, key=len)[len(unknown) // 2 :][:1]


def _shorten(text: str) -> str:
    """Return a text, cut at the end of a word if it is too long."""
    return text if len(text) <= _LONGEST else text[: _LONGEST + 1].rsplit(None, 1)[0][:_LONGEST]


def _known_spelling(text: str, tokenizers: Sequence[Tokenizer]) -> str:
    """Return the text in the first spelling whose words all models know; empty if there is none."""
    joined = text.replace(" .", ".").replace(" ,", ",")
    spellings = (text, text[0].upper() + text[1:], joined, joined[0].upper() + joined[1:])
    return next((one for one in spellings if all(UNKNOWN not in each.encode(one).ids for each in tokenizers)), "")
