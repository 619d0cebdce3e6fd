"""Predictions, attention and gradients of a classifier for one text: with all words, without some, with other weights."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.machine import device_of, exact_dtype
from regard.models.text_classifier import Reweight, TextClassifier
from regard.tasks.faithfulness import SHARES, MeasuredProbe
from regard.tasks.probe import Probe, between
from regard.tasks.requests import pad, padded_batches
from regard.text.symbols import UNKNOWN
from regard.text.tokenizers.tokenizer import Encoding

_RANDOM_ORDERS = 3


@dataclass(frozen=True)
class WordedText:
    """Token ids of a text, and the word that each token belongs to."""

    ids: np.ndarray
    """Token ids (S,)."""
    word_of: np.ndarray
    """Index (S,) of the word of each token, from 0; −1 for tokens that belong to no word, which are never deleted."""

    @classmethod
    def of(cls, encoding: Encoding) -> "WordedText":
        """Return the tokens of an encoded text."""
        return cls(np.array(encoding.ids, np.int32), np.array(encoding.word_of, np.int64))

    @property
    def num_words(self) -> int:
        """Number of words."""
        return int(self.word_of.max(initial=-1)) + 1

    def keep(self, words: Bool[np.ndarray, " W"]) -> Int[np.ndarray, " S"]:
        """Return the ids of the tokens that belong to a word marked True or to no word; if none are left, an unknown token."""
        kept = self.ids[(self.word_of < 0) | words[self.word_of]]
        return kept if len(kept) else np.array([UNKNOWN], self.ids.dtype)

    def sum_words(self, tokens: Float[np.ndarray, " S"]) -> Float[np.ndarray, " W"]:
        """Return the sum of the tokens' values for each word."""
        owned = self.word_of >= 0
        return np.bincount(self.word_of[owned], weights=tokens[owned], minlength=self.num_words)


class TextProbe(MeasuredProbe):
    """A classifier's predictions for one text. Scores are divided by `temperature`."""

    main, has_steps = "pool", False

    def __init__(self, model: TextClassifier, text: WordedText, *, several: bool = False, temperature: float = 1.0) -> None:
        self.model, self.sites, self.text = model, model.sites, text
        self.several, self.temperature = several, temperature
        self._device = device_of(model)
        self.num_tokens, self.num_words = len(text.ids), text.num_words
        with torch.inference_mode():
            logits, attention = model(*pad([text.ids], self._device), record=("pool",))
        self.decision = torch.tensor([int(logits[0].argmax())], device=self._device)
        weights = attention["pool"].to(exact_dtype(self._device)).numpy(force=True)[0]
        self.attention = self.to_words((weights.mean(0) if weights.ndim == 2 else weights)[None])

    def _probabilities(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B 1 C"]:
        scores = logits.to(exact_dtype(self._device))[:, None] / self.temperature
        return scores.sigmoid() if self.several else scores.softmax(-1)

    @torch.inference_mode()
    def keep(self, kept: Bool[np.ndarray, "B W"]) -> Float[Tensor, "B 1 C"]:
        """Return p(label) of the text with some words only. Words are deleted, not masked."""
        # Small shares of a short text delete the same words, and the model reads equal texts once.
        unique, rows = np.unique(kept, axis=0, return_inverse=True)
        order, found = [], []
        with padded_batches("", [self.text.keep(words) for words in unique], self._device, shown=False) as batches:
            for numbers, tokens, mask in batches:
                order.append(numbers)
                found.append(self._probabilities(self.model(tokens, mask).logits))
        places = np.argsort(np.concatenate(order))[rows.reshape(-1)]
        return torch.cat(found)[torch.from_numpy(places).to(self._device)]

    def reweight(self, reweight: Reweight, copies: int = 1) -> Float[Tensor, "B 1 C"]:
        """Return p(label) of copies of the text whose pooling weights `reweight` replaces."""
        tokens, mask = pad([self.text.ids], self._device)
        return self._probabilities(self.model.reweighted(tokens, mask, reweight, times=copies))

    def scores(
        self, shares: Float[Tensor, " B"], reweight: Reweight | None = None
    ) -> tuple[Float[Tensor, "B 1"], Float[Tensor, "B S E"]]:
        """Return log p(label) of copies of the text between unknown words and its own, and their embeddings."""
        tokens, mask = (part.expand(len(shares), -1) for part in pad([self.text.ids], self._device))
        is_word = torch.from_numpy(self.text.word_of >= 0).to(self._device)
        first, last = (self.model.embed(each).detach() for each in (tokens[:1].masked_fill(is_word, UNKNOWN), tokens[:1]))
        embedded = between(first, last, shares).requires_grad_()
        scores = self.model(tokens, mask, embedded=embedded, reweight=reweight).logits.to(exact_dtype(self._device))
        scores = scores / self.temperature
        logs = torch.nn.functional.logsigmoid(scores) if self.several else scores.log_softmax(-1)
        return logs[:, self.decision], embedded

    def gradients(self, reweight: Reweight | None = None) -> Float[np.ndarray, "1 W"] | None:
        """Return Σ_e x_e ∂ log p(label) / ∂x_e, summed over each word's tokens. Pooling weights are treated as constants."""
        # The gradient of log p orders the tokens as that of p does, but it does not vanish if the model is certain.
        return super().gradients(reweight or (lambda weights, mask: weights.detach()))

    @torch.inference_mode()
    def weights(self, sites: Collection[str]) -> dict[str, Float[np.ndarray, "*heads R S"]]:
        """Return the attention at some sites; the weights of the pooling get an axis for the label."""
        found = self.model(*pad([self.text.ids], self._device), record=tuple(sites)).attention
        arrays = {site: each.float().numpy(force=True)[0] for site, each in found.items()}
        return {site: each if site.startswith("encoder") else each[..., None, :] for site, each in arrays.items()}

    def to_words(self, tokens: Float[np.ndarray, "1 S"]) -> Float[np.ndarray, "1 W"]:
        """Return the sum of the tokens' values for each word."""
        return self.text.sum_words(tokens[0])[None]

    def to_tokens(self, words: Float[np.ndarray, "1 W"]) -> Float[np.ndarray, "1 S"]:
        """Return the values of words as values of their tokens, which share them equally."""
        word_of = self.text.word_of
        counts = np.bincount(word_of[word_of >= 0], minlength=self.text.num_words)
        return np.where(word_of >= 0, (words[0] / counts.clip(1))[word_of], 0)[None]

    def ordered(
        self, importance: Float[np.ndarray, "R 1 W"], generator: np.random.Generator
    ) -> dict[str, Float[np.ndarray, " R"]]:
        """Return the means of `comprehensiveness` and `sufficiency` over the shares of words; see `erase`."""
        label = int(self.decision)
        whole = float(self.keep(np.ones((1, self.text.num_words), bool))[0, 0, label])
        both = erase(self, [rank(each[0], generator) for each in importance], label, whole)
        return dict(zip(("comprehensiveness", "sufficiency"), both.mean(-1), strict=True))

    def removals(
        self, whole: Float[Tensor, "1 C"], without: Float[Tensor, "W 1 C"] | None, generator: np.random.Generator
    ) -> dict[str, Float[np.ndarray, "3 K"]]:
        """Return `comprehensiveness` and `sufficiency`; see `erase`. The best order is by leave-one-out, NaN without it."""
        label = int(whole[0].argmax())
        orders = [rank(self.attention[0], generator)]
        orders += [generator.permutation(self.text.num_words) for _ in range(_RANDOM_ORDERS)]
        if without is not None:
            orders.append(rank((whole[0, label] - without[:, 0, label]).numpy(force=True), generator))
        both = np.full((2, 3, len(SHARES)), np.nan)
        for result, erased in zip(both, erase(self, orders, label, float(whole[0, label])), strict=True):
            result[0], result[1] = erased[0], erased[1 : 1 + _RANDOM_ORDERS].mean(0)
            if without is not None:
                result[2] = erased[-1]
        return {"comprehensiveness": both[0], "sufficiency": both[1]}


def rank(importance: Float[np.ndarray, " W"], generator: np.random.Generator) -> Int[np.ndarray, " W"]:
    """Return the indices of the words, the most important first; words of equal importance are in random order."""
    return np.lexsort((generator.random(len(importance)), -importance))


def erase(probe: Probe, orders: Sequence[np.ndarray], label: int, probability: float) -> Float[np.ndarray, "2 R K"]:
    """Return the comprehensiveness and sufficiency of the first 1, 5, 10, 20 and 50% of the words in R given orders.

        comprehensiveness = m(x)_j − m(x \\ r)_j        sufficiency = m(x)_j − m(r)_j

    where m(x)_j is the `probability` of the `label` that the model predicts for the whole text x, and r are the first words of
    the order, at least one. A good order has a high comprehensiveness and a low sufficiency. The mean over the five shares is
    the AOPC (area over the perturbation curve).

    Differs from the paper: its eq. 3 divides by the number of shares plus one. The authors' program divides by the number of
    shares, as does this function.

    Reference:
        DeYoung et al. 2020, ERASER: A Benchmark to Evaluate Rationalized NLP Models, eq. 1 to 3.
    """
    places = np.argsort(np.stack(orders), axis=1)[:, None]  # (R,1,W): the place of each word in each order
    num_words = places.shape[-1]
    rationale = places < np.array([-(-num_words * share // 100) for share in SHARES])[:, None]  # (R,K,W)
    kept = np.stack([~rationale, rationale])
    found = probe.keep(kept.reshape(-1, num_words))[:, 0, label]
    return probability - found.numpy(force=True).reshape(kept.shape[:-1])
