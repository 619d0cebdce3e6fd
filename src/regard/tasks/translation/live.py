"""Translate a sentence while its words arrive, by the ordinary greedy search.

The search asks a `GrowingModel` for the scores of the next word. This model reads as many words as the policy requires, and
waits only if they have not arrived. The states of words that were read do not change when more arrive, because the encoder is
causal, so the words are those of a search with the whole sentence.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import DecodingConfig
from regard.decoding import Hypothesis
from regard.decoding.best import Best
from regard.decoding.search import Ranking, length_limits, run_search
from regard.errors import RequestError
from regard.evaluation.lagging import SimultaneousEvaluation, average_lagging
from regard.evaluation.words import Evaluation
from regard.models.policies import Policy, WaitK
from regard.models.seq2seq import Seq2Seq
from regard.reweight import ReweightBySite
from regard.tasks.translation.results import Translation, replace_unknown
from regard.tasks.translation.sources import Source, find_cuts
from regard.text.symbols import END
from regard.text.tokenizers.tokenizer import Tokenizer

# Number of source tokens that is assumed until the source ends; it sets the length limit of the search.
_UNKNOWN_LENGTH = 1000


class GrowingSource:
    """A source of which the first words have arrived.

    Args:
        words: The further words; the iterator may wait for them.
        tokenizer: The tokenizer of the source.
        longest: Maximum number of tokens; a word that does not fit begins another source, and a word that is too long is cut.
        start: Number of tokens of the first word that earlier sources contain, if the word was cut.
    """

    def __init__(self, words: Iterator[str], tokenizer: Tokenizer, longest: int, start: int) -> None:
        self._words, self._tokenizer, self._longest = words, tokenizer, longest
        self.text, self.ids = "", list[int]()
        self.start, self.next_start = start, 0
        self.ended = False
        self.next_word: str | None = None
        """The word that did not fit; None if all words fit, or the source has not ended."""

    def read(self, word: str | None = None) -> None:
        """Wait for the next word, or take `word`, and add its tokens; after the last word, add the end symbol."""
        word = next(self._words, None) if word is None else word
        text = self.text if word is None else " ".join([*self.text.split(), *word.split()])
        encoding = self._tokenizer.encode(text)
        ids = encoding.ids[self.start :]
        if word is None or len(ids) > self._longest:
            if ids and not self.ids:  # the word alone is too long
                self.next_start = next(cut for cut in find_cuts(encoding, self._longest) if cut > self.start)
                self.text, self.ids = text, ids[: self.next_start - self.start]
            self.next_word, self.ended = word, True
            self.ids.append(END)
            return
        if ids[: len(self.ids)] != self.ids:
            raise RequestError(
                f"translate_live: the source's tokenizer ({self._tokenizer.kind}) splits earlier words in another way after "
                f"'{word:.40}' has arrived; train the model with a tokenizer of kind words or bpe, or translate whole sentences"
            )
        self.text, self.ids = text, ids


class GrowingModel(Seq2Seq[Any]):
    """A model that reads a `GrowingSource`: its `step` first reads the words that the policy of the model requires.

    `limits` is the length limit of the search, which becomes that of the whole source when the source has ended.
    """

    packed = True

    def __init__(self, model: Seq2Seq, source: GrowingSource, decoding: DecodingConfig, limits: Tensor) -> None:
        super().__init__()
        assert model.policy is not None
        self.model, self.source, self.decoding, self.limits = model, source, decoding, limits
        self.policy: Policy = model.policy
        self.sites, self.feeds_back = model.sites, model.feeds_back
        self.weights = list[np.ndarray]()
        """Weights of each step at the last site that the search records, (S') for the S' words so far."""

    def encode(self, source: Tensor, source_mask: Tensor, **options: Any) -> Any:
        """Read the words of the first step, and encode them; the arguments are not used."""
        self._wait_for(0)
        return self._encoded()

    def step(self, tokens: Tensor, state: Any, *, record: Collection[str] = (), reweight: ReweightBySite | None = None) -> Any:
        """Read what the step needs, and return its result."""
        if self._wait_for(state.length):
            state = state.reading(self._encoded())
        sites = {*record, self.policy.site} - {""}
        while True:
            logits, maps, after = self.model.step(tokens, state, record=sites)
            # Hard attention that has stopped at no word so far needs further words to decide.
            if self.source.ended or not self.policy.site or bool(maps[self.policy.site].any()):
                break
            self.source.read()
            state = state.reading(self._encoded())
        for site in record:
            weights = maps[site][0] if maps[site].ndim == 3 else maps[site][0].mean(0)
            self.weights.append(weights[0].float().numpy(force=True))
        return logits, {}, after

    def _wait_for(self, step: int) -> bool:
        """Read at least the words that the step, counted from 0, needs; return whether there were new ones."""
        needed, before = step + self.policy.k if isinstance(self.policy, WaitK) else 1, len(self.source.ids)
        while len(self.source.ids) < needed and not self.source.ended:
            self.source.read()
        return len(self.source.ids) > before

    def _encoded(self) -> Any:
        ids = torch.tensor([self.source.ids], device=self.limits.device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        if self.source.ended:
            self.limits.copy_(length_limits(mask, self.decoding))
        return self.model.encode(ids, mask)

    def decode(self, *arguments: Any, **options: Any) -> Any:
        """Not supported: a growing source has no known target."""
        raise NotImplementedError


def translate_live(translator: Any, words: Iterable[str], write: Callable[[str], object], decoding: DecodingConfig) -> str:
    """Translate a sentence while its words arrive; see `Translator.translate_live`."""
    if translator.model.policy is None or not hasattr(translator.model, "decoder"):
        raise RequestError(
            "translate_live: this model reads the whole source before it writes the first word; train one with "
            "--model.wait_k 3, or with an encoder of one direction, bridge zeros and monotonic attention"
        )
    if isinstance(words, str):
        raise RequestError("translate_live: words is a text, expected its words one by one, such as text.split()")
    parts = list[str]()
    arriving, first, start = iter(words), None, 0
    while True:
        source = GrowingSource(arriving, translator.tokenizers.source, translator.config.data.max_tokens, start)
        source.read(first)
        while not source.ids:  # empty words and white space
            source.read()
        if source.ids != [END]:
            if parts:
                write(" ")
            parts.append(_translate(translator, source, write, decoding))
        while not source.ended:  # the translation may end before the source does
            source.read()
        first, start = source.next_word, source.next_start
        if first is None:
            return " ".join(parts)


@torch.inference_mode()
def _translate(translator: Any, source: GrowingSource, write: Callable[[str], object], decoding: DecodingConfig) -> str:
    device, target = translator.device, translator.tokenizers.target
    limits = length_limits(torch.ones(1, _UNKNOWN_LENGTH, dtype=torch.bool, device=device), decoding)
    record = [translator.main_sites[-1]] if decoding.replace_unknown else []
    tokens, written = list[int](), 0

    def text(count: int) -> str:
        replaced = {}
        if record:
            piece = np.array([*source.ids, *[END] * (not source.ended)])
            before = np.full(source.start + 1, END)  # the part of the first word in earlier sources
            weights = np.array([np.pad(row, (len(before), len(piece) - len(row))) for row in model.weights[:count]])
            hypothesis = Hypothesis(tokens[:count], 0.0, 0.0, True, np.zeros(0), {record[0]: weights})
            read = Source(source.text, (before, piece))
            replaced = replace_unknown(hypothesis, read, translator.tokenizers.source, record[0])
        return target.decode(tokens[:count], replace=replaced)

    def write_words(count: int) -> None:
        nonlocal written
        found = text(count)
        # The spaces before a word can depend on the next one, but its letters do not.
        places = [place for place, letter in enumerate(found) if not letter.isspace()]
        if len(places) > written:
            write(found[places[written - 1] + 1 if written else 0 :])
            written = len(places)

    def follow(_: Tensor, chosen: Tensor) -> None:
        if int(chosen) != END:
            tokens.append(int(chosen))
            owners = target.describe(tokens).word_of
            write_words(owners.index(owners[-1]))  # the last word may still get further tokens

    with translator._search_model.running(decoding.precision, device, 1) as packed:
        model = GrowingModel(packed, source, decoding, limits)
        start = torch.zeros(1, 1, dtype=torch.long, device=device)
        ranking = Ranking(limits, 1, decoding.length_penalty, decoding.length_reward)
        chooser = Best(decoding)
        run_search(model, start, start == 0, chooser, ranking, guidance=None, record=record, reweight=None, follow=follow)
    write_words(len(tokens))
    return text(len(tokens))


def with_lagging(scores: Evaluation, policy: Policy, found: list[Translation], translator: Any) -> SimultaneousEvaluation:
    """Return scores with the average lagging of translations.

    Empty sources and translations, which have none, and sources that were split into parts are left out.
    """
    _, offsets = translator.tokenizers.source.encode_batch([one.source for one in found])
    lags = []
    for one, size in zip(found, np.diff(offsets).tolist(), strict=True):
        length = one.num_tokens - one.finished
        if 0 < size <= translator.config.data.max_tokens and length:
            weights = one.attention.weights[policy.site] if policy.site and one.attention else None
            lags.append(average_lagging(policy.delays(length, size, weights), size))
    kept = {item.name: getattr(scores, item.name) for item in fields(scores)}
    return SimultaneousEvaluation(**kept, average_lagging=float(np.mean(lags)) if lags else 0.0)
