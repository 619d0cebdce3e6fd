"""The contract between models that label texts and whatever trains, uses or examines them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.reweight import Reweight, ReweightBySite, check_reweight, without_steps

Example = tuple[Tensor, Tensor, Tensor]
"""Training texts at once: tokens (B,S), mask (B,S), and the labels, (B,) numbers or (B,C) zeros and ones."""


class Classified(NamedTuple):
    """Output of a classifier."""

    logits: Tensor
    """(B,C), before the softmax, or before the sigmoid where texts have several labels."""
    attention: dict[str, Tensor]
    """Weights by site, of the sites that were asked for. `"pool"`, which every classifier has, is (B,S), with heads (B,H,S):
    how much each token counts. It sums to one where the normalizer does, and is zero at padding. Other sites are the model's
    own."""


class TextClassifier(nn.Module, ABC):
    """A model of p(label | text)."""

    vocabulary: str = ""
    """Fingerprint of the vocabulary and labels that the model was trained with; empty before training."""
    sites: tuple[str, ...]
    """Names of the attention sites that `record` may name, `"pool"` first."""

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
        """Score the labels of each text.

        Args:
            tokens: Padded at the end.
            mask: True at tokens; a row without any is a text without words, and gets finite scores.
            embedded: What to use in place of `embed(tokens)`: for gradients with respect to it.
            reweight: Maps weights to those that are used and recorded in their place: one function for the pooling weights, or
                functions by site.
            record: Sites whose attention is wanted.
        """

    def by_site(self, reweight: Reweight | ReweightBySite | None) -> ReweightBySite:
        """Return functions by site; one function alone is for the pooling.

        Raises:
            RequestError: If one is for a site that the model does not have.
        """
        if reweight is None:
            return {}
        if callable(reweight):
            reweight = {"pool": reweight}
        check_reweight(reweight, tuple(dict.fromkeys([*self.sites, *(site.partition(".")[0] for site in self.sites)])))
        return {site: each if site.startswith("encoder") else without_steps(each) for site, each in reweight.items()}

    def parts(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Sequence[Float[Tensor, "B C"]]:
        """Return the logits that training has a loss for each of.

        Those of `forward`, or those of the members that are trained.
        """
        return [self(tokens, mask).logits]

    def prime(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Look at the training texts once before training; not every model does.

        Args:
            examples: All of them, in any order and in batches of any size.
            label_weight: What each label's loss is multiplied by; None for all alike.
        """

    def refine(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Look at the training texts once before a trained model is trained further; not every model does.

        Args:
            examples: As for `prime`.
            label_weight: As for `prime`.
        """
