"""Test whether the source tokens that a translator attends to decide its next token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from regard.errors import RequestError
from regard.tasks.faithfulness import CERTAIN, VISIBLE, Removal, Report, measure_all, removal
from regard.tasks.requests import check_texts
from regard.tasks.translation.predict import Translator
from regard.tasks.translation.probe import TranslationProbe
from regard.tasks.translation.sources import as_source, count_starts
from regard.text.symbols import END


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
    unit = "source token"
    deleting: ClassVar = "Deleting"

    deleted: Removal
    """Loss when the token is deleted from the source."""
    erased: Removal
    """Loss when the token stays in the source, but attention to it is erased in all layers and steps."""

    @property
    def sentence(self) -> str:
        one = self.deleted
        margin = one.attention - one.random
        how = "no more" if one.p >= CERTAIN or abs(margin) < VISIBLE else "more" if margin > 0 else "less"
        return (
            f"The {self.unit} with the most attention matters {how} to the next token than a random one. {self.deleting} it "
            f"lowers the next token's probability by {one.attention:.2f}, {self.deleting.lower()} a random one by "
            f"{one.random:.2f}, and the one that costs most by {one.best:.2f}: attention goes {max(one.reached, 0):.0%} of the "
            f"way. With equal weights, {self.uniform_changed:.0%} of the next tokens change."
        )


def measure_translation_faithfulness(
    translator: Translator,
    sources: Sequence[str],
    *,
    max_texts: int = 200,
    permutations: int = 20,
    seed: int = 1,
    progress: bool = False,
    attributions: Sequence[str] = (),
) -> TranslationFaithfulness:
    """Measure whether the source tokens that a translator attends to decide what it writes next.

    The model translates each source greedily. At each step of that translation, the token with the most attention is compared
    with all others. Attention is that of the site `cross`, averaged over heads.

    Args:
        translator: The translator.
        sources: Sentences, preferably not from the training data. Sentences of fewer than two tokens are left out, and
            of longer ones, the first `data.max_tokens` tokens are read.
        max_texts: Maximum size of the random sample of sentences that is measured.
        permutations: Number of permutations of each sentence's weights.
        seed: Seed of the sample and of the permutations.
        progress: Whether to show a bar on standard error.
        attributions: Attributions to compare with attention: `rollout`, `gradients`, `integrated`, `values`, `leave_one_out`,
            or `all`; see `Translator.attribute`.

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
    texts = [as_source(encode(sources[number]).ids)[:-1][:limit] for number in chosen]
    texts = [ids for ids in texts if len(ids) - count_starts(ids) > 1]
    if not texts:
        raise RequestError("faithfulness: there is no source of two tokens or more, expected at least one")
    decoding = translator.config.decoding
    shared, values = measure_all(
        (
            TranslationProbe(translator.model, torch.tensor([[*ids.tolist(), END]], device=translator.device), decoding)
            for ids in texts
        ),
        len(texts),
        affordable=len(texts),
        permutations=permutations,
        seed=seed,
        progress=progress,
        attributions=attributions,
    )
    return TranslationFaithfulness(**shared, deleted=removal(values["deleted"]), erased=removal(values["erased"]))
