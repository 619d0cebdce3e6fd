"""Test whether the source tokens that a translator attends to decide its next token."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.decoding import greedy
from regard.errors import RequestError
from regard.reweight import Reweight, flatten, rescaled
from regard.tasks.faithfulness import CERTAIN, VISIBLE, Removal, Report, Spread, kendall_tau, removal, spread
from regard.tasks.requests import check_texts, counting_bar
from regard.tasks.translation.predict import Translator
from regard.text.symbols import END, START


@dataclass(frozen=True)
class TranslationFaithfulness(Report):
    """Measures of whether the source tokens that a translator attends to decide its next token.

    A loss is that of the next token's probability when one source token is removed; the mean over steps, then over sentences.
    """

    noun = "sentence"
    meaning = (
        "Bars: how much the probability of the model's own next token falls if one source token is removed: the most "
        "attended, a random, or the most important one; mean over steps and sentences. This does not prove the same for other "
        "sentences."
    )
    ways = {  # noqa: RUF012
        "deleted": "token deleted from the source",
        "erased": "attention to the token erased",
    }

    texts: int
    deleted: Removal
    """Loss when the token is deleted from the source."""
    erased: Removal
    """Loss when the token stays in the source, but attention to it is erased in all layers and steps."""
    leave_one_out: Spread
    """Kendall τ, over the source tokens of a step, of attention and the change of the prediction when the token is deleted;
    the mean over steps."""
    gradient: Spread
    """Kendall τ, over the source tokens of a step, of attention and |gradient × input|; the mean over steps. No sentence has a
    value if the model has no `source_embedding`."""
    uniform: Spread
    """Total variation distance between the predictions of the next token with the model's own and with equal weights."""
    uniform_changed: float
    """Share of steps whose most probable token changes under equal weights."""
    permuted: Spread
    """Total variation distance under permuted weights: median over permutations, then mean over steps."""

    @property
    def sentence(self) -> str:
        """Return sentences that explain what the measures mean for this model."""
        one = self.deleted
        margin = one.attention - one.random
        how = "no more" if one.p >= CERTAIN or abs(margin) < VISIBLE else "more" if margin > 0 else "less"
        return (
            f"The source token with the most attention matters {how} to the next token than a random one. Deleting it lowers "
            f"the next token's probability by {one.attention:.2f}, deleting a random one by {one.random:.2f}, and the one that "
            f"costs most by {one.best:.2f}. With equal weights, {self.uniform_changed:.0%} of the next tokens change."
        )

    def measures(self) -> list[tuple[str, Spread | str]]:
        """Return the measures under equal weights."""
        return [
            ("total variation distance under equal weights", self.uniform),
            ("next tokens that change under equal weights", f"{self.uniform_changed:.1%}"),
        ]


def measure_translation_faithfulness(
    translator: Translator,
    sources: Sequence[str],
    *,
    max_texts: int = 200,
    permutations: int = 20,
    seed: int = 1,
    progress: bool = False,
) -> TranslationFaithfulness:
    """Measure whether the source tokens that a translator attends to decide what it writes next.

    The model translates each source greedily. At each step of that translation, the token with the most attention is compared
    with all others. Attention is that of the site `cross`, averaged over heads.

    Args:
        translator: The translator.
        sources: Sentences, preferably not from the training data. Sentences of fewer than two tokens are left out.
        max_texts: Maximum size of the random sample of sentences that is measured.
        permutations: Number of permutations of each sentence's weights.
        seed: Seed of the sample and of the permutations.
        progress: Whether to show a bar on standard error.

    Raises:
        RequestError: If there is no source of two tokens or more, or the model does not attend to its source.

    Reference:
        Jain and Wallace 2019, sections 4.1 and 4.2.1; Wiegreffe and Pinter 2019, section 3.2.
    """
    if "cross" not in translator.model.sites:
        raise RequestError("faithfulness: this model has no site 'cross', so it does not attend to its source")
    sources = check_texts("faithfulness", sources)
    chosen = np.random.default_rng(seed).permutation(len(sources))[:max_texts].tolist()
    encode, limit = translator.tokenizers.source.encode, translator.config.data.max_tokens
    texts = [encode(sources[number]).ids[:limit] for number in chosen]
    texts = [ids for ids in texts if len(ids) > 1]
    if not texts:
        raise RequestError("faithfulness: there is no source of two tokens or more, expected at least one")
    generator, measures = torch.Generator().manual_seed(seed), []
    with counting_bar("measuring", len(texts), shown=progress) as advance:
        for ids in texts:
            probe = _Probe(translator, torch.tensor([[*ids, END]], device=translator.device))
            measures.append(probe.measure(permutations, generator))
            advance(1)
    columns = {name: np.array([one[name] for one in measures]) for name in measures[0]}
    return TranslationFaithfulness(
        texts=len(measures),
        deleted=_removal(*columns["deleted"].T),
        erased=_removal(*columns["erased"].T),
        uniform_changed=float(columns["uniform_changed"].mean()),
        **{name: spread(columns[name]) for name in ("leave_one_out", "gradient", "uniform", "permuted")},
    )


def _removal(attention: np.ndarray, random: np.ndarray, best: np.ndarray) -> Removal:
    return removal(attention, random, float(best.mean()), margins=tuple((attention - random).tolist()))


class _Probe:
    """One source and its greedy translation."""

    def __init__(self, translator: Translator, source: Tensor) -> None:
        self.model, self.source, self.words = translator.model, source, source.shape[1] - 1
        [best] = greedy(self.model, source, torch.ones_like(source, dtype=torch.bool), record=("cross",))
        written = [*best.tokens, END] if best.finished else best.tokens
        self.target_in = torch.tensor([[START, *written[:-1]]], device=source.device)
        self.target = torch.tensor(written, device=source.device)
        attention = best.attention["cross"]
        self.attention = (attention if attention.ndim == 2 else attention.mean(0))[:, : self.words]

    def probabilities(self, source: Tensor, reweight: Reweight | None = None) -> Tensor:
        """Return the distributions (B,T,V) of the next token at each step of the translation."""
        changes = None if reweight is None else {"cross": reweight}
        state = self.model.encode(source, torch.ones_like(source, dtype=torch.bool), reweight=changes)
        features, _ = self.model.decode(self.target_in.expand(len(source), -1), state, reweight=changes)
        return self.model.logits(features).double().softmax(-1)

    def measure(self, permutations: int, generator: torch.Generator) -> dict[str, Any]:
        """Return the measures of this sentence."""
        with torch.inference_mode():
            unchanged = self.probabilities(self.source)
            # Row b of a batch lacks token b. All rows have the same length, so they need no padding.
            shorter = torch.stack([torch.cat([self.source[0, :at], self.source[0, at + 1 :]]) for at in range(self.words)])
            deleted = self.probabilities(shorter)
            erased = self.probabilities(self.source.expand(self.words, -1), _erase_one_each)
            even = self.probabilities(self.source, flatten)
            orders = torch.stack([torch.randperm(self.words + 1, generator=generator) for _ in range(permutations)])
            permuted = self.probabilities(self.source.expand(permutations, -1), _permute(orders.to(self.source.device)))
        moved = _distance(deleted, unchanged).T.numpy(force=True)
        return {
            "deleted": self._lost(unchanged, deleted),
            "erased": self._lost(unchanged, erased),
            "leave_one_out": self._alike(moved),
            "gradient": self._alike(self._gradients()),
            "uniform": float(_distance(even, unchanged).mean()),
            "uniform_changed": float((even.argmax(-1) != unchanged.argmax(-1)).double().mean()),
            "permuted": float(_distance(permuted, unchanged).median(0).values.mean()),
        }

    def _lost(self, unchanged: Tensor, without: Tensor) -> tuple[float, float, float]:
        """Return how much the next token's probability falls without the most attended token, a random one, the costliest."""
        places = torch.arange(len(self.target), device=self.target.device)
        lost = (unchanged[:, places, self.target] - without[:, places, self.target]).T.numpy(force=True)  # (T,W)
        attended = np.take_along_axis(lost, self.attention.argmax(-1)[:, None], 1)
        return float(attended.mean()), float(lost.mean()), float(lost.max(-1).mean())

    def _alike(self, importance: np.ndarray | None) -> float:
        """Return the mean Kendall τ of attention and an importance (T,W); NaN if there is no importance."""
        pairs = [] if importance is None else zip(self.attention, importance, strict=True)
        return spread([kendall_tau(*pair) for pair in pairs]).mean

    def _gradients(self) -> np.ndarray | None:
        """Return |gradient × input| of each step's log probability, (T,W); None if the model has no source embedding."""
        embedding = getattr(self.model, "source_embedding", None)
        if not isinstance(embedding, nn.Module):
            return None
        with torch.inference_mode(mode=False), torch.enable_grad(), _leaf_of(embedding) as leaves:
            scores = self.probabilities(self.source.clone())[0].log()
            rows = []
            for step, token in enumerate(self.target.tolist()):
                [gradient] = torch.autograd.grad(scores[step, token], leaves[0], retain_graph=True)
                rows.append((gradient * leaves[0]).sum(-1).abs()[0, : self.words].numpy(force=True))
        return np.stack(rows)


@contextmanager
def _leaf_of(embedding: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the outputs of a module as leaves of the autograd graph, for gradients, while the context is open."""
    leaves: list[Tensor] = []

    def cut(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    handle = embedding.register_forward_hook(cut)
    try:
        yield leaves
    finally:
        handle.remove()


def _erase_one_each(weights: Tensor, mask: Tensor) -> Tensor:
    """Erase the attention to token b in sequence b of the batch, and rescale the other weights."""
    rows = torch.arange(len(weights), device=weights.device)
    kept = weights.clone()
    kept[rows, ..., rows] = 0
    return rescaled(kept, weights)


def _permute(orders: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that permutes the weights of sequence b of the batch by order b, the same in all heads and steps."""

    def change(weights: Tensor, mask: Tensor) -> Tensor:
        shape = (len(orders), *[1] * (weights.ndim - 2), orders.shape[1])
        return weights.gather(-1, orders.view(shape).expand(weights.shape))

    return change


def _distance(one: Tensor, other: Tensor) -> Tensor:
    """Return the total variation distances (B,T) of two distributions (B,T,V), at each step."""
    return (one - other).abs().sum(-1) / 2
