"""A translator's predictions of each token of a translation: with all source tokens, without some, with other weights."""

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.config import DecodingConfig
from regard.decoding import greedy
from regard.errors import RequestError
from regard.machine import exact_dtype
from regard.models.seq2seq import Seq2Seq
from regard.reweight import Reweight, rescaled
from regard.tasks.attribution import attention
from regard.tasks.faithfulness import MeasuredProbe
from regard.tasks.probe import embedded_between
from regard.text.symbols import END, START, UNKNOWN


class TranslationProbe(MeasuredProbe):
    """A translator's predictions of each token of a target: given tokens, or its greedy translation with the given settings."""

    main, has_steps = "cross", True
    ends = 1
    """Number of special symbols at the end of a source, which are never removed; nor is the start symbol of an encoder."""

    def __init__(self, model: Seq2Seq[Any], source: Tensor, target: Sequence[int] | DecodingConfig) -> None:
        if model.copies:
            raise RequestError(
                "the model copies source words (model.copy), for which there are neither attributions nor measures of "
                "faithfulness; inspect its attention and p_gen (`regard look`)"
            )
        self.model, self.sites, self.source = model, model.sites, source
        self.starts = int(source.ndim == 2 and source[0, 0].item() == START)
        self.num_words = source.shape[1] - self.starts - self.ends
        self.num_tokens = source.shape[1]
        if isinstance(target, DecodingConfig):
            [best] = greedy(self.model, source, _no_padding(source), target)
            target = best.written
        self.target_in = torch.tensor([[START, *target[:-1]]], device=source.device)
        self.decision = torch.tensor(target, device=source.device)
        self.attention = self.to_words(attention(self))

    @property
    def blank(self) -> Tensor:
        """The source with unknown words instead of its own."""
        return self.source.masked_fill((self.source != END) & (self.source != START), UNKNOWN)

    def logits(self, source: Tensor, reweight: Reweight | None = None) -> Float[Tensor, "B T V"]:
        """Return the scores of the next token at each step of the translation."""
        changes = None if reweight is None else {"cross": reweight}
        return self._logits(self.model.encode(source, _no_padding(source), reweight=changes), len(source), changes)

    def _logits(self, state: Any, copies: int, changes: dict[str, Reweight] | None) -> Float[Tensor, "B T V"]:
        features, _ = self.model.decode(self.target_in.expand(copies, -1), state, reweight=changes)
        return self.model.logits(features).to(exact_dtype(features.device))

    def probabilities(self, source: Tensor, reweight: Reweight | None = None) -> Float[Tensor, "B T V"]:
        """Return the distributions of the next token at each step of the translation."""
        return self.logits(source, reweight).softmax(-1)

    def scores(
        self, shares: Float[Tensor, " B"], reweight: Reweight | None = None
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B S E"] | None]:
        """Return the log probabilities of the translation's tokens, and the embeddings between `blank` and the source."""
        embedding = getattr(self.model, "source_embedding", None)
        found = isinstance(embedding, nn.Module) and embedded_between(embedding, self.blank, self.source, shares)
        copies, changes = _copies(self.source, len(shares)), None if reweight is None else {"cross": reweight}
        with found or nullcontext() as embedded:  # without the decoder, which may embed the target with the same module
            state = self.model.encode(copies, _no_padding(copies), reweight=changes)
        logits = self._logits(state, len(shares), changes)
        target = self.decision.expand(len(shares), -1).unsqueeze(-1)
        return logits.log_softmax(-1).gather(-1, target)[..., 0], embedded

    @torch.inference_mode()
    def weights(self, sites: Collection[str]) -> dict[str, Float[np.ndarray, "*heads R S"]]:
        state = self.model.encode(self.source, _no_padding(self.source), record=sites)
        _, found = self.model.decode(self.target_in, state, record=sites)
        return {site: each[0].float().numpy(force=True) for site, each in found.items()}

    def to_words(self, tokens: Float[np.ndarray, "T S"]) -> Float[np.ndarray, "T W"]:
        """Return the values of words, which are tokens, without those of special symbols."""
        return tokens[:, self.starts : self.starts + self.num_words]

    def to_tokens(self, words: Float[np.ndarray, "T W"]) -> Float[np.ndarray, "T S"]:
        """Return the values with 0 for special symbols, which are never removed."""
        return np.pad(words, ((0, 0), (self.starts, self.ends)))

    def keep(self, kept: Bool[np.ndarray, "B W"]) -> Float[Tensor, "B T V"]:
        """Return the predictions for the source with some tokens only, the same number in each row."""
        # All rows have the same length, so they need no padding. The special symbols stay.
        flags = torch.from_numpy(np.pad(kept, ((0, 0), (self.starts, self.ends)), constant_values=True)).to(self.source.device)
        return self.probabilities(self.source.expand(len(kept), -1)[flags].view(len(kept), -1))

    def reweight(self, reweight: Reweight, copies: int = 1) -> Float[Tensor, "B T V"]:
        """Return the predictions for copies of the source, with other attention to it."""
        return self.probabilities(_copies(self.source, copies), reweight)

    def removals(
        self, whole: Float[Tensor, "T V"], without: Float[Tensor, "W T V"] | None, generator: np.random.Generator
    ) -> dict[str, Float[np.ndarray, "3 1"]]:
        """Return the losses without the most attended token, a random one and the costliest, deleted or erased."""
        assert without is not None
        erased = self.reweight(self._erase_one_each, self.num_words)
        return {"deleted": self._lost(whole, without), "erased": self._lost(whole, erased)}

    def _lost(self, whole: Tensor, without: Tensor) -> Float[np.ndarray, "3 1"]:
        lost = self._losses(whole, without)
        return np.array([[_of_first(lost, self.attention)], [lost.mean()], [lost.max(-1).mean()]])

    def _losses(self, whole: Tensor, without: Tensor) -> Float[np.ndarray, "T W"]:
        """Return how much probability each step's token loses without each source token."""
        steps = torch.arange(len(self.decision), device=self.decision.device)
        return (whole[steps, self.decision] - without[:, steps, self.decision]).T.numpy(force=True)

    @torch.inference_mode()
    def ordered(
        self, importance: Float[np.ndarray, "R T W"], generator: np.random.Generator
    ) -> dict[str, Float[np.ndarray, " R"]]:
        """Return the losses without each step's most important token, deleted or erased."""
        [whole] = self.probabilities(self.source)
        without = {
            "deleted": self.keep(~np.eye(self.num_words, dtype=bool)),
            "erased": self.reweight(self._erase_one_each, self.num_words),
        }
        losses = {way: self._losses(whole, each) for way, each in without.items()}
        return {way: np.array([_of_first(each, one) for one in importance]) for way, each in losses.items()}

    def _erase_one_each(self, weights: Tensor, mask: Tensor) -> Tensor:
        """Erase the attention to word b in sequence b of the batch, and rescale the other weights."""
        rows = torch.arange(len(weights), device=weights.device)
        kept = weights.clone()
        kept[rows, ..., rows + self.starts] = 0
        return rescaled(kept, weights)


def _no_padding(source: Tensor) -> Bool[Tensor, "B S"]:
    return torch.ones(source.shape[:2], dtype=torch.bool, device=source.device)


def _copies(source: Tensor, copies: int) -> Tensor:
    return source.expand(copies, *source.shape[1:])


def _of_first(lost: Float[np.ndarray, "T W"], importance: Float[np.ndarray, "T W"]) -> float:
    """Return the mean loss without each step's most important token."""
    return float(np.take_along_axis(lost, importance.argmax(-1)[:, None], 1).mean())
