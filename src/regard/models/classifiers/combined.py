"""A linear classifier of counts and recurrent classifiers, each trained with its own loss, whose scores are averaged."""

from collections.abc import Collection, Iterable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.config import CombinedClassifierConfig
from regard.models.classifiers.counted import CountedClassifier
from regard.models.classifiers.recurrent import RecurrentClassifier
from regard.models.text_classifier import Classified, Example, TextClassifier
from regard.reweight import Reweight, ReweightBySite

# Total share of the recurrent members; small, because they make more errors with few texts.
RECURRENT_SHARE = 0.25


class CombinedClassifier(TextClassifier):
    """logits = Σ_m share_m logits_m: a weighted geometric mean of members' probabilities (Hinton 2002, products of experts).

    Members with different errors are more accurate together. Each has its own loss (`parts`), so that a member that learns fast
    does not keep the others from learning. The attention is the mean of the members' attention, with the same shares.
    """

    def __init__(
        self, config: CombinedClassifierConfig, *, vocabulary_size: int, num_labels: int, embedding_size: int = 0
    ) -> None:
        super().__init__()
        sizes, count = {"vocabulary_size": vocabulary_size, "num_labels": num_labels}, config.num_recurrent
        recurrent = [RecurrentClassifier(config.recurrent, **sizes, embedding_size=embedding_size) for _ in range(count)]
        self.members = nn.ModuleList([CountedClassifier(config.counted, **sizes), *recurrent])
        self.widths = [num_labels, *[embedding_size or config.recurrent.embedding_size] * count]
        self.shares = [1 - RECURRENT_SHARE, *[RECURRENT_SHARE / count] * count]
        self.sites = ("pool", "counted", *(f"recurrent.{number}" for number in range(count)))

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the concatenated embeddings of the members."""
        return torch.cat([member.embed(tokens) for member in self._members()], dim=-1)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        *,
        embedded: Float[Tensor, "B S E"] | None = None,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        inputs = [None] * len(self.widths) if embedded is None else embedded.split(self.widths, dim=-1)
        changes, recorded = self.by_site(reweight), ("pool",) if record else ()
        found = [
            member(tokens, mask, embedded=own, reweight=changes.get(site, changes.get("pool")), record=recorded)
            for member, own, site in zip(self._members(), inputs, self.sites[1:], strict=True)
        ]
        logits = self._mean([one.logits for one in found])
        if not record:
            return Classified(logits, {})
        weights = [one.attention["pool"] for one in found]
        weights = [own if own.ndim == 2 else own.mean(dim=1) for own in weights]
        attention = dict(zip(self.sites, (self._mean(weights), *weights), strict=True))
        return Classified(logits, {name: attention[name] for name in record})

    def reweighted(
        self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], reweight: Reweight, *, times: int
    ) -> Float[Tensor, "N C"]:
        """Return the mean of the members' logits with several pooling weights; see `TextClassifier.reweighted`."""
        return self._mean([member.reweighted(tokens, mask, reweight, times=times) for member in self._members()])

    def _mean(self, found: Sequence[Tensor]) -> Tensor:
        return torch.stack([share * one for share, one in zip(self.shares, found, strict=True)]).sum(dim=0)

    def parts(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Sequence[Float[Tensor, "B C"]]:
        """Return the logits of each member that has parameters; only `prime` and `refine` fit the others."""
        return [member(tokens, mask).logits for member in self._members() if any(True for _ in member.parameters())]

    def prime(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Prime the member that counts; the recurrent ones need no priming."""
        self._members()[0].prime(examples, label_weight=label_weight)

    def refine(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Refine the member that counts."""
        self._members()[0].refine(examples, label_weight=label_weight)

    def _members(self) -> list[TextClassifier]:
        return list(self.members)  # type: ignore[arg-type]
