"""The contract of probes: a model's predictions for one text, with changes of its words, weights or embeddings."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.reweight import Reweight


class Probe(ABC):
    """A model's predictions for one text: with all of its words (or tokens), without some of them, with other weights.

    A classifier predicts its label in one step, a translator a token in each of T steps. Predictions are probabilities (B,T,C).
    """

    sites: Collection[str]
    """Sites of the model's attention."""
    main: str
    """Main site of the model's attention."""
    has_steps: bool
    """Whether there are several steps, and weights have an axis for them."""
    num_words: int
    """Number W of words that can be left out."""
    num_tokens: int
    """Number S of the tokens that the model reads, special tokens included."""
    decision: Int[Tensor, " T"]
    """The class that is explained at each step: the one that the model chose, or that the caller gave."""

    @property
    def family(self) -> str:
        """First part of the name of the main site: `cross`, `pool` or `decoder`."""
        return self.main.partition(".")[0]

    @abstractmethod
    def keep(self, kept: Bool[np.ndarray, "B W"]) -> Float[Tensor, "B T C"]:
        """Return the predictions for the text with some words only."""

    @abstractmethod
    def reweight(self, reweight: Reweight, copies: int = 1) -> Float[Tensor, "B T C"]:
        """Return the predictions for copies of the text whose weights `reweight` replaces."""

    @abstractmethod
    def scores(
        self, shares: Float[Tensor, " B"], reweight: Reweight | None = None
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B S E"] | None]:
        """Return the log probabilities of `decision` for copies of the text between unknown words, at share 0, and its own.

        A share multiplies the difference of their embeddings. These, None if the model's input has none, and the weights given
        to `reweight` can be differentiated.
        """

    @abstractmethod
    def weights(self, sites: Collection[str]) -> dict[str, Float[np.ndarray, "*heads R S"]]:
        """Return the attention at some sites."""

    def to_words(self, tokens: Float[np.ndarray, "T S"]) -> Float[np.ndarray, "T W"]:
        """Return the sum of the tokens' values for each word. By default, words are tokens."""
        return tokens

    def to_tokens(self, words: Float[np.ndarray, "T W"]) -> Float[np.ndarray, "T S"]:
        """Return the values of words as values of their tokens, which share them equally."""
        return words

    def gradients(self, reweight: Reweight | None = None) -> Float[np.ndarray, "T W"] | None:
        """Return gradient × input of each step's log probability; None if the model's input has no embedding."""
        scores, embedded = self.scores(torch.ones(1), reweight)
        if embedded is None:
            return None
        found = [torch.autograd.grad(score, embedded, retain_graph=True)[0] for score in scores[0]]
        return self.to_words((torch.stack(found) * embedded).sum(-1)[:, 0].detach().double().numpy(force=True))

    @torch.inference_mode()
    def lost(self, predictions: Float[Tensor, "B T C"]) -> Float[np.ndarray, "T B"]:
        """Return how much lower the log probability of each step's decision is than with the whole text."""
        whole = self.keep(np.ones((1, self.num_words), bool))
        steps = torch.arange(len(self.decision), device=self.decision.device)
        least = torch.finfo(whole.dtype).tiny
        both = (each[:, steps, self.decision].clamp(min=least).log() for each in (whole, predictions))
        before, after = both
        return (before - after).T.double().numpy(force=True)


def between(first: Float[Tensor, "1 S E"], last: Float[Tensor, "1 S E"], shares: Float[Tensor, " B"]) -> Float[Tensor, "B S E"]:
    """Return points on the straight line between two embeddings: the first at share 0, the last at share 1."""
    # `lerp` is exact at both ends.
    return torch.lerp(first, last, shares.to(last)[:, None, None])


@contextmanager
def embedded_between(embedding: nn.Module, blank: Tensor, source: Tensor, shares: Float[Tensor, " B"]) -> Iterator[Tensor]:
    """Let `embedding` return points between the embeddings of two inputs; yield these points (B,S,E), a leaf for gradients."""
    leaf = between(embedding(blank).detach(), embedding(source).detach(), shares).requires_grad_()
    # A copy, because some models change it in place.
    hook = embedding.register_forward_hook(lambda _module, _inputs, _output: leaf.clone())
    try:
        yield leaf
    finally:
        hook.remove()
