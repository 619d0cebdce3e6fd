"""Test whether the source tokens that a translator attends to decide its next token."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.decoding import greedy
from regard.errors import RequestError
from regard.machine import exact_dtype
from regard.reweight import Reweight, rescaled
from regard.tasks.faithfulness import CERTAIN, VISIBLE, Probe, Removal, Report, measure_all, removal
from regard.tasks.requests import check_texts
from regard.tasks.translation.predict import Translator
from regard.text.symbols import END, START


@dataclass(frozen=True, kw_only=True)
class TranslationFaithfulness(Report):
    """Measures of whether the source tokens that a translator attends to decide its next token.

    The words are source tokens, and a prediction is that of the next token. A loss is that of the next token's probability when
    one source token is removed. All measures are means over the steps of a sentence, then over sentences.
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

    deleted: Removal
    """Loss when the token is deleted from the source."""
    erased: Removal
    """Loss when the token stays in the source, but attention to it is erased in all layers and steps."""

    @property
    def sentence(self) -> str:
        """Return sentences that explain what the measures mean for this model."""
        one = self.deleted
        margin = one.attention - one.random
        how = "no more" if one.p >= CERTAIN or abs(margin) < VISIBLE else "more" if margin > 0 else "less"
        return (
            f"The source token with the most attention matters {how} to the next token than a random one. Deleting it lowers "
            f"the next token's probability by {one.attention:.2f}, deleting a random one by {one.random:.2f}, and the one that "
            f"costs most by {one.best:.2f}: attention goes {max(one.reached, 0):.0%} of the way. "
            f"With equal weights, {self.uniform_changed:.0%} of the next tokens change."
        )


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
    shared, values = measure_all(
        (TranslationProbe(translator, torch.tensor([[*ids, END]], device=translator.device)) for ids in texts),
        len(texts),
        affordable=len(texts),
        permutations=permutations,
        seed=seed,
        progress=progress,
    )
    return TranslationFaithfulness(**shared, deleted=removal(values["deleted"]), erased=removal(values["erased"]))


class TranslationProbe(Probe):
    """A translator's predictions of each token of its greedy translation of one source."""

    def __init__(self, translator: Translator, source: Tensor) -> None:
        self.model, self.source, self.words = translator.model, source, source.shape[1] - 1
        [best] = greedy(self.model, source, torch.ones_like(source, dtype=torch.bool), record=("cross",))
        written = [*best.tokens, END] if best.finished else best.tokens
        self.target_in = torch.tensor([[START, *written[:-1]]], device=source.device)
        self.target = torch.tensor(written, device=source.device)
        attention = best.attention["cross"]
        self.attention = (attention if attention.ndim == 2 else attention.mean(0))[:, : self.words]

    def probabilities(self, source: Tensor, reweight: Reweight | None = None) -> Float[Tensor, "B T V"]:
        """Return the distributions of the next token at each step of the translation."""
        changes = None if reweight is None else {"cross": reweight}
        state = self.model.encode(source, torch.ones_like(source, dtype=torch.bool), reweight=changes)
        features, _ = self.model.decode(self.target_in.expand(len(source), -1), state, reweight=changes)
        return self.model.logits(features).to(exact_dtype(features.device)).softmax(-1)

    def keep(self, kept: Bool[np.ndarray, "B W"]) -> Float[Tensor, "B T V"]:
        """Return the predictions for the source with some tokens only, the same number in each row."""
        # All rows have the same length, so they need no padding. The end symbol stays.
        flags = torch.from_numpy(np.pad(kept, ((0, 0), (0, 1)), constant_values=True)).to(self.source.device)
        return self.probabilities(self.source.expand(len(kept), -1)[flags].view(len(kept), -1))

    def reweight(self, reweight: Reweight, copies: int = 1) -> Float[Tensor, "B T V"]:
        """Return the predictions for copies of the source, with other attention to it."""
        return self.probabilities(self.source.expand(copies, -1), reweight)

    def removals(
        self, whole: Float[Tensor, "T V"], without: Float[Tensor, "W T V"] | None, generator: np.random.Generator
    ) -> dict[str, Float[np.ndarray, "3 1"]]:
        """Return the losses without the most attended token, a random one and the costliest, deleted or erased."""
        assert without is not None
        erased = self.reweight(_erase_one_each, self.words)
        return {"deleted": self._lost(whole, without), "erased": self._lost(whole, erased)}

    def _lost(self, whole: Tensor, without: Tensor) -> Float[np.ndarray, "3 1"]:
        steps = torch.arange(len(self.target), device=self.target.device)
        lost = (whole[steps, self.target] - without[:, steps, self.target]).T.numpy(force=True)  # (T,W)
        attended = np.take_along_axis(lost, self.attention.argmax(-1)[:, None], 1)
        return np.array([[attended.mean()], [lost.mean()], [lost.max(-1).mean()]])

    def gradients(self) -> Float[np.ndarray, "T W"] | None:
        """Return gradient × input of each step's log probability; None if the model has no source embedding."""
        embedding = getattr(self.model, "source_embedding", None)
        if not isinstance(embedding, nn.Module):
            return None
        rows = []
        with _leaf_of(embedding) as leaves:
            scores = self.probabilities(self.source)[0].log()
            for step, token in enumerate(self.target.tolist()):
                [gradient] = torch.autograd.grad(scores[step, token], leaves[0], retain_graph=True)
                rows.append((gradient * leaves[0]).sum(-1)[0, : self.words].numpy(force=True))
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
