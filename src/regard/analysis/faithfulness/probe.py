"""Probabilities, attention and gradients of a model for many texts, with all words or without some."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.models.text_classifier import Reweight, TextClassifier
from regard.tasks.requests import counting_bar
from regard.tasks.translation.sources import pad
from regard.text.batching import length_batches
from regard.text.symbols import UNKNOWN

_BATCH_TOKENS = 8192


@dataclass(frozen=True)
class WordedText:
    """Token ids of a text, and the word that each token belongs to."""

    ids: np.ndarray
    """Token ids (S,)."""
    word_of: np.ndarray
    """Index (S,) of the word of each token, from 0; −1 for tokens that belong to no word, which are never deleted."""

    def __post_init__(self) -> None:
        if self.ids.shape != self.word_of.shape or self.ids.ndim != 1:
            raise ShapeError(f"WordedText: ids are {self.ids.shape}, word_of {self.word_of.shape}, expected (S,) for both")

    @property
    def num_words(self) -> int:
        """Return the number of words."""
        return int(self.word_of.max(initial=-1)) + 1

    def keep(self, words: Bool[np.ndarray, " W"]) -> Int[np.ndarray, " S"]:
        """Return the ids of the tokens that belong to a word marked True or to no word; if none are left, an unknown token."""
        kept = self.ids[(self.word_of < 0) | words[self.word_of]]
        return kept if len(kept) else np.array([UNKNOWN], self.ids.dtype)

    def sum_words(self, tokens: Float[np.ndarray, " S"]) -> Float[np.ndarray, " W"]:
        """Return the sum of the tokens' values for each word."""
        owned = self.word_of >= 0
        return np.bincount(self.word_of[owned], weights=tokens[owned], minlength=self.num_words)


class Probe:
    """A classifier that is run over many texts in batches of similar length.

    Args:
        model: The model, in evaluation mode.
        several: Whether a text can have several labels. Then each label has its own probability.
        temperature: Divisor of the scores before the softmax or sigmoid.
        progress: Whether to show a bar on standard error.
    """

    doing = "measuring"
    """Description of the current step, for the bar."""

    def __init__(
        self, model: TextClassifier, *, several: bool = False, temperature: float = 1.0, progress: bool = False
    ) -> None:
        self.model, self.progress = model.eval(), progress
        self.several = several
        self.temperature = temperature
        self._device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[np.ndarray], *, reweight: Reweight | None = None) -> Float[np.ndarray, "N C"]:
        """Return p(label | text) of each text.

        Args:
            texts: Token ids of each text.
            reweight: Function that replaces the pooling weights; see `TextClassifier`.
        """
        return self._collect(texts, lambda tokens, mask: self.model(tokens, mask, reweight=reweight).logits)

    @torch.inference_mode()
    def reweighted(self, texts: Sequence[np.ndarray], reweight: Reweight, *, times: int) -> Float[np.ndarray, "N times C"]:
        """Return p(label | text) of each text `times` times, with other pooling weights each time.

        Args:
            texts: Token ids of each text.
            reweight: Function that replaces the pooling weights of all copies of a text; see `TextClassifier.reweighted`.
            times: Number of copies of each text.
        """

        def score(tokens: Tensor, mask: Tensor) -> Tensor:
            return self.model.reweighted(tokens, mask, reweight, times=times).unflatten(0, (-1, times))

        return self._collect(texts, score, copies=times)

    def _collect(
        self, texts: Sequence[np.ndarray], score: Callable[[Tensor, Tensor], Tensor], *, copies: int = 1
    ) -> np.ndarray:
        """Return probabilities in the order of the texts, from the logits (B,…,C) that `score` gives for each batch."""
        parts, order = [], []
        for numbers, tokens, mask in self._batches(texts, copies):
            scores = score(tokens, mask).double() / self.temperature
            parts.append((scores.sigmoid() if self.several else scores.softmax(-1)).cpu().numpy())
            order.append(numbers)
        result = np.concatenate(parts)
        result[np.concatenate(order)] = result.copy()
        return result

    @torch.inference_mode()
    def attention(self, texts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the pooling weights of each text's tokens, (S,), averaged over heads."""
        result: list[np.ndarray] = [np.zeros(0)] * len(texts)
        for numbers, tokens, mask in self._batches(texts):
            weights = self.model(tokens, mask, record=("pool",)).attention["pool"].double()
            weights = weights.mean(1) if weights.ndim == 3 else weights
            for number, row in zip(numbers.tolist(), weights.cpu().numpy(), strict=True):
                result[number] = row[: len(texts[number])]
        return result

    def gradients(self, texts: Sequence[np.ndarray], labels: Int[np.ndarray, " N"]) -> list[np.ndarray]:
        """Return Σ_e x_e ∂ log p(label) / ∂x_e for each token's embedding x, (S,). Pooling weights are treated as constants.

        The gradient of log p orders the tokens as that of p does, but it does not vanish if the model is certain.
        """
        result: list[np.ndarray] = [np.zeros(0)] * len(texts)
        for numbers, tokens, mask in self._batches(texts):
            # cuDNN computes gradients of recurrent layers in training mode only, so it is not used.
            with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
                embedded = self.model.embed(tokens).detach().requires_grad_(True)
                constant = {"embedded": embedded, "reweight": lambda weights, mask: weights.detach()}
                scores = self.model(tokens, mask, **constant).logits / self.temperature
                logs = torch.nn.functional.logsigmoid(scores) if self.several else scores.log_softmax(-1)
                chosen = logs.gather(1, torch.from_numpy(labels[numbers])[:, None].to(logs.device))
                [gradient] = torch.autograd.grad(chosen.sum(), embedded)
            rows = (gradient * embedded).sum(-1).detach().double().cpu().numpy()
            for number, row in zip(numbers.tolist(), rows, strict=True):
                result[number] = row[: len(texts[number])]
        return result

    def decide(self, probabilities: Float[np.ndarray, "N C"]) -> np.ndarray:
        """Return the index of the most probable label (N,), or, for several labels, which probabilities exceed ½ (N,C)."""
        return probabilities > 0.5 if self.several else probabilities.argmax(-1)

    def distance(self, first: Float[np.ndarray, "*#N C"], second: Float[np.ndarray, "*#N C"]) -> Float[np.ndarray, "*#N"]:
        """Return the total variation distance of two predictions, ½ Σ |p − q|.

        For texts with several labels, the distance is the mean of |p − q| over labels.
        """
        gaps = abs(first - second)
        return gaps.mean(-1) if self.several else gaps.sum(-1) / 2

    def _batches(self, texts: Sequence[np.ndarray], copies: int = 1) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
        lengths = np.array([len(ids) * copies for ids in texts], dtype=np.int64)
        with counting_bar(self.doing, len(texts), shown=self.progress) as advance:
            for numbers in length_batches(lengths, _BATCH_TOKENS):
                yield (numbers, *pad([texts[number] for number in numbers], self._device))
                advance(len(numbers))
