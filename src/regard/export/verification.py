"""Comparison of exported graphs with the original model, on inputs of several sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RequestError
from regard.export.runtime import OnnxClassifier, OnnxSeq2Seq
from regard.models.seq2seq import AttentionMaps, Seq2Seq
from regard.models.text_classifier import TextClassifier
from regard.text.symbols import PAD, START

TOLERANCE = 1e-4
"""Largest allowed difference of a log probability, score or weight."""
SIZES = ((1, 1, 1), (1, 6, 5), (2, 1, 3), (3, 9, 1), (5, 13, 4), (4, 30, 2))
"""Sizes of the inputs for a comparison: number of sentences, tokens in the longest sentence, hypotheses per sentence."""
_STEPS = 4
# First id that is not a special symbol.
_FIRST_WORD = 4


@dataclass
class Comparison:
    """Result of a comparison of graphs with their model."""

    largest: float = 0.0
    """The largest difference of a log probability, score or weight."""
    same: int = 0
    """Number of times that the model and the graphs give the highest score to the same word or label."""
    total: int = 0
    """Number of times that their best words or labels were compared."""

    def add(self, expected: Tensor, found: Tensor, maps: float) -> None:
        """Add the scores of the model and of the graphs (last axis: words or labels), and the difference of their attention."""
        same = expected.argmax(-1) == found.argmax(-1)
        self.same, self.total = self.same + int(same.sum()), self.total + same.numel()
        self.largest = max(self.largest, difference(expected, found), maps)


@torch.inference_mode()
def compare(model: Seq2Seq[Any] | TextClassifier, folder: Path, *, source_size: int, target_size: int) -> Comparison:
    """Compare graphs in a folder with their model, in evaluation mode, on random inputs of all `SIZES`."""
    made, exported = Comparison(), run_exported(model, folder)
    for number, sizes in enumerate(SIZES):
        source, mask = _draw_sources(sizes, source_size, seed=number)
        if isinstance(model, TextClassifier):
            expected, found = (one(source, mask, record=model.sites) for one in (model, exported))
            made.add(expected.logits, found.logits, _maps_difference(expected.attention, found.attention))
        else:
            _compare_sequences(model, exported, source, mask, _draw_steps(sizes, target_size, seed=number), made)
    return made


def verify(model: Seq2Seq[Any] | TextClassifier, folder: Path, **sizes: int) -> float:
    """Return the largest difference between graphs and their model, at most `TOLERANCE`; see `compare` for the arguments."""
    largest = compare(model, folder, **sizes).largest
    if not largest <= TOLERANCE:
        raise RequestError(
            f"the exported graphs differ from the model by {largest:.2g}; the limit is {TOLERANCE:g}, so no file was written"
        )
    return largest


def run_exported(model: nn.Module, folder: Path) -> Any:
    """Return a model that runs the graphs in a folder, with the same interface as the model they were exported from."""
    return OnnxClassifier(folder, sites=model.sites) if isinstance(model, TextClassifier) else OnnxSeq2Seq(folder)


def _compare_sequences(
    model: Seq2Seq[Any], exported: Any, source: Tensor, mask: Tensor, tokens: Tensor, made: Comparison
) -> None:
    """Compare some steps of decoding. Between them, hypotheses are reordered, and once, the first sentence is removed."""
    sites = [site for site in model.sites if site.partition(".")[0] in ("cross", "decoder")]
    ours, theirs = model.encode(source, mask), exported.encode(source, mask)
    beam = torch.zeros_like(tokens[0])
    for step in range(len(tokens)):
        words, ours, theirs = tokens[step], ours.select(beam), theirs.select(beam)
        logits, maps, ours = model.step(words, ours, record=sites)
        found, exported_maps, theirs = exported.step(words, theirs, record=exported.sites)
        made.add(logits.log_softmax(-1), found, _maps_difference(maps, by_layer(exported_maps)))
        # Reversing the hypotheses shows whether both states follow their parents.
        beam = torch.arange(words.shape[1]).flip(0).expand_as(words)
        if step == 1 and len(words) > 1:  # remove the first sentence
            kept = torch.arange(1, len(words))
            ours, theirs, tokens, beam = ours.keep(kept), theirs.keep(kept), tokens[:, 1:], beam[1:]


def by_layer(maps: AttentionMaps) -> AttentionMaps:
    """Return the weights of an exported step by the model's sites: `cross_heads` (B,N,L,H,S) becomes `cross.0` (B,H,N,S), …."""
    found = {}
    for name, weights in maps.items():
        if name.endswith("_heads"):
            for number, own in enumerate(weights.unbind(2)):
                found[f"{name.removesuffix('_heads')}.{number}"] = own.transpose(1, 2)
        else:
            found[name] = weights
    return found


def _maps_difference(expected: AttentionMaps, found: AttentionMaps) -> float:
    cross = expected.get("cross")
    if cross is not None and cross.ndim == 4:  # the heads of a recurrent model, whose mean is the exported `cross`
        expected = {**expected, "cross": cross.mean(1), "cross.0": cross}
    shared = [(weights, found[site]) for site, weights in expected.items() if site in found]
    return max((difference(ours, theirs.reshape(ours.shape)) for ours, theirs in shared), default=0.0)


def difference(expected: Tensor, found: Tensor) -> float:
    """Return the largest absolute difference; ∞ if only one of two values is finite."""
    both = expected.isfinite() & found.isfinite()
    if bool((expected.isfinite() != found.isfinite()).any()):
        return float("inf")
    return float((expected - found)[both].abs().max()) if bool(both.any()) else 0.0


def _draw_sources(sizes: Sequence[int], vocabulary_size: int, *, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    batch, length, _ = sizes
    lengths = torch.randint(1, length + 1, (batch, 1), generator=draw)
    lengths[0] = length
    mask = torch.arange(length) < lengths
    source = torch.randint(min(_FIRST_WORD, vocabulary_size - 1), vocabulary_size, (batch, length), generator=draw)
    return source.masked_fill(~mask, PAD), mask


def _draw_steps(sizes: Sequence[int], vocabulary_size: int, *, seed: int) -> Tensor:
    """Draw random tokens to feed to the decoder, (steps, B, N); the first step feeds the start symbol."""
    draw = torch.Generator().manual_seed(100 + seed)
    batch, _, hypotheses = sizes
    low = min(_FIRST_WORD, vocabulary_size - 1)
    tokens = torch.randint(low, vocabulary_size, (_STEPS, batch, hypotheses), generator=draw)
    tokens[0] = START
    return tokens
