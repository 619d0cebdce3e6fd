"""An ensemble: several models used as one."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import ConfigError, RequestError
from regard.models.seq2seq import AttentionMaps, DecoderState, Seq2Seq, Source


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members."""

    members: tuple[DecoderState, ...]

    def select(self, beam: Int[Tensor, "B N"]) -> "EnsembleState":
        """Select the same hypotheses in every member."""
        return EnsembleState(tuple(state.select(beam) for state in self.members))

    def keep(self, rows: Int[Tensor, " M"]) -> "EnsembleState":
        """Keep the same sentences in every member."""
        return EnsembleState(tuple(state.keep(rows) for state in self.members))


class Ensemble(Seq2Seq[EnsembleState]):
    """p(word) = (1/M) Σ_m p_m(word), the mean of the probabilities of M members at each step.

    The scores of words are log p. Attention is the mean over the members, at the sites that all members have; if their numbers
    of heads differ, the heads are averaged first. An ensemble can be used for search and scoring like any model, but it cannot
    be trained. Its members, one or more, have the same vocabularies on both sides; a model may occur several times.
    """

    def __init__(self, members: Sequence[Seq2Seq[Any]]) -> None:
        super().__init__()
        if not members:
            raise ConfigError("Ensemble got no members; expected one model or more")
        self.members = nn.ModuleList(members)
        self.sites = tuple(site for site in members[0].sites if all(site in member.sites for member in members))
        self.derived = tuple({site for member in members for site in member.derived if site in self.sites})
        self.feeds_back = any(member.feeds_back for member in members)
        if len({member.policy for member in members}) == 1:
            self.policy = members[0].policy
        if len({member.copies for member in members}) > 1:
            raise RequestError(
                "an ensemble got models with and without model.copy, whose next words differ: use models that all copy source "
                "words, or none that does"
            )
        self.copies, self.measures, self.source_axes = members[0].copies, members[0].measures, members[0].source_axes
        if len({member.alignment_step for member in members}) == 1:
            self.alignment_step = members[0].alignment_step

    def encode(self, source: Source, source_mask: Bool[Tensor, "B S"], **options: Any) -> EnsembleState:
        self.check_reweight(options.get("reweight"))  # here too, because members may have sites that the ensemble lacks
        return EnsembleState(tuple(member.encode(source, source_mask, **options) for member in self._each()))

    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        state: EnsembleState,
        *,
        use_gold: Bool[Tensor, "B T"] | None = None,
        **options: Any,
    ) -> tuple[Float[Tensor, "B T D"], AttentionMaps]:
        self.check_reweight(options.get("reweight"))
        if use_gold is not None:  # where gold is not used, the best word of the ensemble is fed
            target_in = self.draft(target_in, state, use_gold, options.get("reweight"))
        pairs = zip(self._each(), state.members, strict=True)
        found = [member.decode(target_in, own, **options) for member, own in pairs]
        return torch.cat([features for features, _ in found], -1), _mean([maps for _, maps in found])

    def logits(self, features: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        """Return log p of the words, from the concatenated features of the members."""
        widths = [member.output_weight()[0].shape[1] for member in self._each()]
        more = (features.shape[-1] - sum(widths)) // len(widths)  # what models that copy add, the same in all members
        parts = features.split([width + more for width in widths], -1)
        return _pooled(member.logits(part) for member, part in zip(self._each(), parts, strict=True))

    def output_weight(self) -> tuple[Float[Tensor, "V D"], Float[Tensor, " V"] | None]:
        """Raise an error, because a mean of softmaxes is not the softmax of a linear map, so there is no output weight."""
        raise RequestError("an ensemble has no output layer and cannot be trained: train its members separately")

    def step(
        self, tokens: Int[Tensor, "B N"], state: EnsembleState, **options: Any
    ) -> tuple[Float[Tensor, "B N V"], AttentionMaps, EnsembleState]:
        self.check_reweight(options.get("reweight"))
        found = [member.step(tokens, own, **options) for member, own in zip(self._each(), state.members, strict=True)]
        after = EnsembleState(tuple(own for _, _, own in found))
        return _pooled(logits for logits, _, _ in found), _mean([maps for _, maps, _ in found]), after

    def _each(self) -> list[Seq2Seq[Any]]:
        return [cast(Seq2Seq[Any], member) for member in self.members]


def _pooled(logits: Iterable[Tensor]) -> Tensor:
    """Return the logarithm of the mean softmax, computed member by member to save memory."""
    count, pooled = 0, None
    for one in logits:
        # In half precision, the logarithm of a small probability would be inaccurate.
        each = one.log_softmax(-1, dtype=torch.promote_types(one.dtype, torch.float32))
        pooled = each if pooled is None else torch.logaddexp(pooled, each)
        count += 1
    assert pooled is not None, "an ensemble has members"
    return pooled - math.log(count)


def _mean(maps: Sequence[AttentionMaps]) -> AttentionMaps:
    """Return the mean of the members' weights at each site."""
    found = {}
    for site in maps[0]:
        weights = [one[site] for one in maps]
        if len({one.shape for one in weights}) > 1:
            weights = [one if one.ndim == 3 else one.mean(1) for one in weights]
        found[site] = torch.stack(weights).mean(0)
    return found
