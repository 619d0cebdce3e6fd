"""The contract between text classifiers and the code that trains, uses or examines them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.reweight import Reweight, ReweightBySite, check_reweight, without_steps

Example = tuple[Tensor, Tensor, Tensor]
"""A batch of training texts: tokens (B,S), mask (B,S), and labels, as numbers (B,) or as zeros and ones (B,C)."""


class Classified(NamedTuple):
    """Output of a classifier."""

    logits: Tensor
    """Scores (B,C) before the softmax, or before the sigmoid for texts with several labels."""
    attention: dict[str, Tensor]
    """Weights of the requested sites. `"pool"`, which every classifier has, contains the weights of the tokens: (B,S), or
    (B,H,S) with heads. They are zero at padding, and in a text with tokens they sum to one if the normalizer's weights
    do. Which other sites exist depends on the model.
    """


class TextClassifier(nn.Module, ABC):
    """A model of p(label | text)."""

    vocabulary: str = ""
    """Fingerprint of the vocabulary and labels that the model was trained with; empty before training."""
    sites: tuple[str, ...]
    """Names of the attention sites that `record` accepts; `"pool"` is the first."""

    @abstractmethod
    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the input embeddings of the tokens, before any dropout."""

    @abstractmethod
    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        *,
        embedded: Float[Tensor, "B S E"] | None = None,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        """Compute the scores of the labels of each text.

        Args:
            tokens: Ids of the tokens, padded at the end.
            mask: True at tokens; a row without tokens is an empty text, and gets finite scores.
            embedded: Embeddings to use instead of `embed(tokens)`, for gradients with respect to them.
            reweight: Function that replaces the pooling weights, or functions by site. The new weights are used and
                recorded.
            record: Sites whose attention is returned.
        """

    def reweighted(
        self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], reweight: Reweight, *, times: int
    ) -> Float[Tensor, "N C"]:
        """Return the logits of each text `times` times, each time with other pooling weights.

        Each text is embedded only once. A model that encodes texts before pooling can also encode each text only once.

        Args:
            tokens: As for `forward`.
            mask: As for `forward`.
            reweight: Function that replaces the pooling weights of all copies; the copies of a text are in adjacent rows.
            times: Number of copies of each text.
        """
        tokens, mask, embedded = (part.repeat_interleave(times, dim=0) for part in (tokens, mask, self.embed(tokens)))
        return self(tokens, mask, embedded=embedded, reweight=reweight).logits

    def by_site(self, reweight: Reweight | ReweightBySite | None) -> ReweightBySite:
        """Return `reweight` as functions by site; a single function is for the site `pool`.

        Raises:
            RequestError: If a site does not exist in the model, or its value is not a function.
        """
        if reweight is None:
            return {}
        if callable(reweight):
            reweight = {"pool": reweight}
        check_reweight(reweight, tuple(dict.fromkeys([*self.sites, *(site.partition(".")[0] for site in self.sites)])))
        return {site: each if site.startswith("encoder") else without_steps(each) for site, each in reweight.items()}

    def parts(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Sequence[Float[Tensor, "B C"]]:
        """Return one or more tensors of logits; training computes a loss for each of them.

        By default, these are the logits of `forward`; a combined model returns the logits of its trained members.
        """
        return [self(tokens, mask).logits]

    def read_for_training(
        self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], label: Tensor
    ) -> tuple[Sequence[Float[Tensor, "B C"]], Float[Tensor, ""] | None]:
        """Return `parts`, and a further loss of the model, summed over texts; None for none, which is the default."""
        return self.parts(tokens, mask), None

    def prime(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Initialise the model from the training texts, before training. By default, it does nothing.

        Args:
            examples: All training texts, in batches of any size and order.
            label_weight: Weight of each label's loss; None for equal weights.
        """

    def refine(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Update a trained model from new training texts, before it is trained further. By default, it does nothing.

        Args:
            examples: As for `prime`.
            label_weight: As for `prime`.
        """
