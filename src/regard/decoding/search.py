"""Run the search that a configuration defines."""

from collections.abc import Collection

from jaxtyping import Bool, Int
from torch import Tensor

from regard.config import DecodingConfig
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.guidance import Guidance
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import check_beam
from regard.decoding.restrictions import Restrictions
from regard.models.seq2seq import Seq2Seq
from regard.reweight import ReweightBySite
from regard.text.symbols import UNKNOWN


def search(
    model: Seq2Seq,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    decoding: DecodingConfig,
    *,
    n_best: int = 1,
    guidance: Guidance | None = None,
    record: Collection[str] = (),
    reweight: ReweightBySite | None = None,
) -> list[list[Hypothesis]]:
    """Search for targets: with `greedy` for a beam of one, with `beam_search` for larger beams and for required phrases.

    Returns:
        For each sentence up to `n_best` hypotheses, the best first.

    Raises:
        RequestError: If a setting is out of range, or the model's scores are not finite.
    """
    check_beam(decoding.beam_size, n_best, decoding.length_penalty, decoding.length_reward)
    restrictions = restrictions_of(decoding)
    if decoding.beam_size == 1 and not (guidance is not None and guidance.constrains):
        found = greedy(
            model,
            source,
            source_mask,
            length_penalty=decoding.length_penalty,
            length_reward=decoding.length_reward,
            max_length=decoding.max_length,
            guidance=guidance,
            restrictions=restrictions,
            record=record,
            reweight=reweight,
        )
        return [[hypothesis] for hypothesis in found]
    return beam_search(
        model,
        source,
        source_mask,
        beam_size=decoding.beam_size,
        n_best=n_best,
        length_penalty=decoding.length_penalty,
        length_reward=decoding.length_reward,
        max_length=decoding.max_length,
        guidance=guidance,
        restrictions=restrictions,
        record=record,
        reweight=reweight,
    )


def restrictions_of(decoding: DecodingConfig) -> Restrictions:
    """Return the restrictions that a configuration defines."""
    return Restrictions(
        min_length=decoding.min_length,
        no_repeat_ngrams=decoding.no_repeat_ngrams,
        repetition_penalty=decoding.repetition_penalty,
        suppressed=(UNKNOWN,) if decoding.suppress_unknown else (),
        groups=decoding.groups if decoding.beam_size > 1 else 1,
        diversity=decoding.diversity,
    )
