"""Predictions, attention and gradients of a classifier for one text: with all words, without some, with other weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.machine import exact_dtype
from regard.models.text_classifier import Reweight, TextClassifier
from regard.tasks.faithfulness import SHARES, Probe
from regard.tasks.requests import pad, padded_batches
from regard.text.symbols import UNKNOWN

_RANDOM_ORDERS = 3


@dataclass(frozen=True)
class WordedText:
    """Token ids of a text, and the word that each token belongs to."""

    ids: np.ndarray
    """Token ids (S,)."""
    word_of: np.ndarray
    """Index (S,) of the word of each token, from 0; −1 for tokens that belong to no word, which are never deleted."""

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


class TextProbe(Probe):
    """A classifier's predictions for one text. Scores are divided by `temperature`."""

    def __init__(self, model: TextClassifier, text: WordedText, *, several: bool = False, temperature: float = 1.0) -> None:
        self.model, self.text, self.several, self.temperature = model, text, several, temperature
        self._device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        with torch.inference_mode():
            weights = model(*pad([text.ids], self._device), record=("pool",)).attention["pool"].to(exact_dtype(self._device))[0]
        weights = weights.mean(0) if weights.ndim == 2 else weights
        self.attention = text.sum_words(weights.numpy(force=True))[None]

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

    def gradients(self) -> Float[np.ndarray, "1 W"]:
        """Return Σ_e x_e ∂ log p(label) / ∂x_e, summed over each word's tokens. Pooling weights are treated as constants."""
        # The gradient of log p orders the tokens as that of p does, but it does not vanish if the model is certain.
        tokens, mask = pad([self.text.ids], self._device)
        embedded = self.model.embed(tokens).detach().requires_grad_(True)
        scores = self.model(tokens, mask, embedded=embedded, reweight=lambda weights, mask: weights.detach()).logits[0]
        scores = scores / self.temperature
        logs = torch.nn.functional.logsigmoid(scores) if self.several else scores.log_softmax(-1)
        [gradient] = torch.autograd.grad(logs[scores.argmax()], embedded)
        tokens_of_text = (gradient * embedded).sum(-1)[0].detach().cpu().double().numpy()
        return self.text.sum_words(tokens_of_text)[None]

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
