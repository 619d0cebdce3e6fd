"""Compute the score and the attention of given targets."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.config import DecodingConfig
from regard.config.settings import override
from regard.decoding.hypothesis import Hypothesis, score_of
from regard.decoding.search import DEFAULT_DECODING, check_request
from regard.decoding.trace import source_sizes
from regard.errors import RequestError
from regard.models.seq2seq import Seq2Seq, Source
from regard.records.views import sides
from regard.reweight import ReweightBySite
from regard.text.symbols import PAD

# Number of positions whose scores over the vocabulary are in memory at once.
_BLOCK_ROWS = 256


@torch.inference_mode()
def force(
    model: Seq2Seq,
    source: Source,
    source_mask: Bool[Tensor, "B S"],
    target_in: Int[Tensor, "B T"],
    target_out: Int[Tensor, "B T"],
    decoding: DecodingConfig = DEFAULT_DECODING,
    *,
    record: Collection[str] = (),
    reweight: ReweightBySite | None = None,
    **settings: Any,
) -> list[Hypothesis]:
    """Compute the score of given targets, Σ_t log p(y_t | y_<t, x), and record the attention.

    A row of `target_in` is the start symbol, words and padding; a row of `target_out` is words, the end symbol and padding. The
    other arguments are those of `beam_search`; of the settings, only the length penalty and the length reward have an effect.
    """
    decoding = override(decoding, settings, "force")
    check_request(model, decoding, 1, record, reweight)
    lengths: list[int] = (target_out != PAD).sum(1).tolist()
    if not all(lengths):
        raise RequestError(f"force: target {lengths.index(0) + 1} has no symbols; a target needs at least its end symbol")
    state = model.encode(source, source_mask, record=record, reweight=reweight)
    features, attention = model.decode(target_in, state, record=record, reweight=reweight)
    # Scores over the vocabulary for all positions at once would need far more memory than the features.
    parts = zip(features.flatten(0, 1).split(_BLOCK_ROWS), target_out.flatten().split(_BLOCK_ROWS), strict=True)
    scored = [model.logits(part).float().log_softmax(-1).gather(-1, words[:, None])[:, 0] for part, words in parts]
    each = torch.cat(scored).view(target_out.shape)
    if bool(each[target_out != PAD].isnan().any()):
        raise RequestError("force: the model gave NaN for a given target: its weights are damaged, or its training diverged")
    values, words = each.numpy(force=True), target_out.tolist()
    maps = {site: weights.float().numpy(force=True) for site, weights in attention.items()}
    found = []
    for row, (length, size) in enumerate(zip(lengths, source_sizes(source_mask), strict=True)):
        total = float(values[row, :length].sum(dtype=np.float64))  # damaged weights could make a float32 sum overflow
        found.append(
            Hypothesis(
                tokens=words[row][: length - 1],
                log_probability=total,
                score=score_of(total, float(length), decoding.length_penalty, decoding.length_reward),
                finished=True,
                token_log_probabilities=values[row, :length],
                attention={site: _cut(site, weights[row], length, size) for site, weights in maps.items()},
            )
        )
    return found


def _cut(site: str, weights: np.ndarray, length: int, size: int) -> np.ndarray:
    """Return the weights of a site without padding."""
    rows, columns = ({"source": size, "target": length}[side] for side in sides(site))
    return weights[..., :rows, :columns]
