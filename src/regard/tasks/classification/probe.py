"""Probabilities, attention and gradients of a classifier for many texts: with all words, without some, with other weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.text_classifier import Reweight, TextClassifier
from regard.tasks.faithfulness import SHARES
from regard.tasks.requests import padded_batches
from regard.text.symbols import UNKNOWN

_BATCH_TOKENS = 8192


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


class Probe:
    """A classifier that is run over many texts in batches of similar length.

    If texts can have several labels, each label has its own probability. Scores are divided by `temperature`.
    """

    doing = "measuring"
    """Description of the current step, for the bar."""

    def __init__(
        self, model: TextClassifier, *, several: bool = False, temperature: float = 1.0, progress: bool = False
    ) -> None:
        self.model, self.progress = model.eval(), progress
        self.several, self.temperature = several, temperature
        self._device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[np.ndarray], *, reweight: Reweight | None = None) -> Float[np.ndarray, "N C"]:
        """Return p(label | text) of each text, given by its ids; `reweight` replaces the pooling weights."""
        return self._probabilities(texts, lambda tokens, mask: self.model(tokens, mask, reweight=reweight).logits)

    @torch.inference_mode()
    def reweighted(self, texts: Sequence[np.ndarray], reweight: Reweight, *, times: int) -> Float[np.ndarray, "N times C"]:
        """Return p(label | text) of `times` copies of each text, for which `reweight` draws different pooling weights."""

        def score(tokens: Tensor, mask: Tensor) -> Tensor:
            return self.model.reweighted(tokens, mask, reweight, times=times).unflatten(0, (-1, times))

        return self._probabilities(texts, score, copies=times)

    def _probabilities(
        self, texts: Sequence[np.ndarray], score: Callable[[Tensor, Tensor], Tensor], *, copies: int = 1
    ) -> np.ndarray:
        """Return the probabilities of each text, from the logits (B,…,C) that `score` gives for each batch."""

        def compute(tokens: Tensor, mask: Tensor, numbers: np.ndarray) -> Tensor:
            scores = score(tokens, mask).double() / self.temperature
            return scores.sigmoid() if self.several else scores.softmax(-1)

        return np.stack(self._collect(texts, compute, copies))

    @torch.inference_mode()
    def attention(self, texts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the pooling weights of each text's tokens, (S,), averaged over heads."""

        def compute(tokens: Tensor, mask: Tensor, numbers: np.ndarray) -> Tensor:
            weights = self.model(tokens, mask, record=("pool",)).attention["pool"].double()
            return weights.mean(1) if weights.ndim == 3 else weights

        return [row[: len(ids)] for ids, row in zip(texts, self._collect(texts, compute), strict=True)]

    def gradients(self, texts: Sequence[np.ndarray], labels: Int[np.ndarray, " N"]) -> list[np.ndarray]:
        """Return Σ_e x_e ∂ log p(label) / ∂x_e for each token's embedding x, (S,). Pooling weights are treated as constants."""

        def compute(tokens: Tensor, mask: Tensor, numbers: np.ndarray) -> Tensor:
            # The gradient of log p orders the tokens as that of p does, but it does not vanish if the model is certain.
            # cuDNN computes gradients of recurrent layers in training mode only, so it is not used.
            with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
                embedded = self.model.embed(tokens).detach().requires_grad_(True)
                constant = {"embedded": embedded, "reweight": lambda weights, mask: weights.detach()}
                scores = self.model(tokens, mask, **constant).logits / self.temperature
                logs = torch.nn.functional.logsigmoid(scores) if self.several else scores.log_softmax(-1)
                chosen = logs.gather(1, torch.from_numpy(labels[numbers])[:, None].to(logs.device))
                [gradient] = torch.autograd.grad(chosen.sum(), embedded)
            return (gradient * embedded).sum(-1).detach().double()

        return [row[: len(ids)] for ids, row in zip(texts, self._collect(texts, compute), strict=True)]

    def decide(self, probabilities: Float[np.ndarray, "N C"]) -> np.ndarray:
        """Return the index of the most probable label (N,), or, for several labels, which probabilities exceed ½ (N,C)."""
        return probabilities > 0.5 if self.several else probabilities.argmax(-1)

    def distance(self, first: Float[np.ndarray, "*#N C"], second: Float[np.ndarray, "*#N C"]) -> Float[np.ndarray, "*#N"]:
        """Return the total variation distance of two predictions, ½ Σ |p − q|; for several labels, the mean of |p − q|."""
        gaps = abs(first - second)
        return gaps.mean(-1) if self.several else gaps.sum(-1) / 2

    def _collect(
        self, texts: Sequence[np.ndarray], compute: Callable[[Tensor, Tensor, np.ndarray], Tensor], copies: int = 1
    ) -> list[np.ndarray]:
        """Return a row for each text; `compute` returns those of a batch, from its tokens, its mask and the texts' numbers."""
        result = [np.zeros(0)] * len(texts)
        padded = padded_batches(self.doing, texts, _BATCH_TOKENS, self._device, shown=self.progress, copies=copies)
        with padded as batches:
            for numbers, tokens, mask in batches:
                for number, row in zip(numbers.tolist(), compute(tokens, mask, numbers).cpu().numpy(), strict=True):
                    result[number] = row
        return result


class _Deletions:
    """Texts with deleted words. Equal texts are stored once, and the model runs on all texts together."""

    def __init__(self, texts: Sequence[WordedText]) -> None:
        self._texts = texts
        self._rows: dict[tuple[int, bytes], int] = {}
        self.variants: list[np.ndarray] = []
        self.whole = [self.add(number, np.ones(text.num_words, bool)) for number, text in enumerate(texts)]

    def add(self, number: int, kept: np.ndarray) -> int:
        """Add text `number` with only the words marked by `kept` (W,), and return its row among `variants`."""
        row = self._rows.setdefault((number, kept.tobytes()), len(self.variants))
        if row == len(self.variants):
            self.variants.append(self._texts[number].keep(kept))
        return row


def rank(importance: Float[np.ndarray, " W"], generator: np.random.Generator) -> Int[np.ndarray, " W"]:
    """Return the indices of the words, the most important first; words of equal importance are in random order."""
    return np.lexsort((generator.random(len(importance)), -importance))


def erase(
    probe: Probe, texts: Sequence[WordedText], orders: Sequence[Sequence[np.ndarray]]
) -> tuple[Float[np.ndarray, "R N K"], Float[np.ndarray, "R N K"]]:
    """Return the comprehensiveness and sufficiency of the first 1, 5, 10, 20 and 50% of the words in given orders.

        comprehensiveness = m(x)_j − m(x \\ r)_j        sufficiency = m(x)_j − m(r)_j

    where m(x)_j is the probability of the label that the model predicts for the whole text x, and r are the first words of the
    order, at least one. Words are deleted, not masked. A good order has a high comprehensiveness and a low sufficiency. The
    mean over the five shares is the AOPC (area over the perturbation curve).

    Differs from the paper: its eq. 3 divides by the number of shares plus one. The authors' program divides by the number of
    shares, as does this function. `orders` has R lists, each with one order for each of N texts. The results are (R,N,K) for
    the K shares, from −1 to 1.

    Reference:
        DeYoung et al. 2020, ERASER: A Benchmark to Evaluate Rationalized NLP Models, eq. 1 to 3.
    """
    deletions = _Deletions(texts)
    rows = np.zeros((2, len(orders), len(texts), len(SHARES)), np.int64)
    for way, per_text in enumerate(orders):
        for number, (text, order) in enumerate(zip(texts, per_text, strict=True)):
            for place, share in enumerate(SHARES):
                rationale = np.zeros(text.num_words, bool)
                rationale[order[: -(-text.num_words * share // 100)]] = True
                rows[0, way, number, place] = deletions.add(number, ~rationale)
                rows[1, way, number, place] = deletions.add(number, rationale)
    probabilities = probe.probabilities(deletions.variants)
    label = probabilities[deletions.whole].argmax(-1)
    whole_text = np.take_along_axis(probabilities[deletions.whole], label[:, None], 1)  # (N,1)
    comprehensiveness, sufficiency = whole_text - probabilities[rows, label[:, None]]
    return comprehensiveness, sufficiency


def leave_one_out(
    probe: Probe, texts: Sequence[WordedText]
) -> tuple[list[Float[np.ndarray, " W"]], list[Float[np.ndarray, " W"]]]:
    """Return the effects of leaving out each word on the prediction, as two lists with an array (W,) for each text.

    The first effect is the total variation distance between the predictions without the word and for the whole text (Jain and
    Wallace 2019, algorithm 1), the second how much the predicted label's probability falls.
    """
    deletions = _Deletions(texts)
    rows = [
        [deletions.add(number, np.arange(text.num_words) != word) for word in range(text.num_words)]
        for number, text in enumerate(texts)
    ]
    probabilities = probe.probabilities(deletions.variants)
    moved, lost = [], []
    for whole_text, without in zip(probabilities[deletions.whole], rows, strict=True):
        moved.append(probe.distance(probabilities[without], whole_text[None]))
        lost.append(whole_text.max() - probabilities[without, whole_text.argmax()])
    return moved, lost


def build_permutation(seed: int) -> Reweight:
    """Return a `Reweight` that permutes the pooling weights of each text among its tokens, in the same way in all heads."""
    generator = torch.Generator().manual_seed(seed)

    def permute(weights: Tensor, mask: Tensor) -> Tensor:
        noise = torch.rand(mask.shape, generator=generator).to(weights.device)
        # Padding comes last in both orders, so that no weight moves between tokens and padding.
        drawn = noise.masked_fill(~mask, 2.0).argsort(-1).expand(weights.shape)
        places = (~mask).to(torch.int8).argsort(stable=True, dim=-1).expand(weights.shape)
        return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, drawn)) * mask

    return permute


def permuted_distance(
    probe: Probe, texts: Sequence[np.ndarray], *, permutations: int = 100, seed: int = 1
) -> Float[np.ndarray, " N"]:
    """Return for each text the median change (total variation distance) of the prediction when its weights are permuted.

    Reference:
        Jain and Wallace 2019, Attention is not Explanation, algorithm 2.
    """
    unchanged = probe.probabilities(texts)
    moved = probe.reweighted(texts, build_permutation(seed), times=permutations)
    return np.median(probe.distance(moved, unchanged[:, None]), axis=1)
