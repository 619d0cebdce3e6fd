"""Ensembles of translators."""

from collections.abc import Sequence
from dataclasses import replace

from regard.errors import RequestError
from regard.models.ensemble import Ensemble
from regard.tasks.translation.predict import Translator


def ensemble(translators: Sequence[Translator]) -> Translator:
    """Return an ensemble of translators, which averages their probabilities at each step.

    The ensemble has the settings of the first translator.

    Args:
        translators: One or more translators with the same vocabularies. Their models are moved to the device of the first.

    Raises:
        RequestError: If vocabularies differ.
    """
    first, *others = translators
    for number, other in enumerate(others, 2):
        for side in ("source", "target"):
            expected, got = getattr(first.tokenizers, side), getattr(other.tokenizers, side)
            if (expected.kind, expected.lowercase, expected.symbols) != (got.kind, got.lowercase, got.symbols):
                raise RequestError(
                    f"ensemble: the {side} vocabulary of model {number} ({got}) differs from that of model 1 ({expected}): "
                    "members must share their vocabularies, so train them on the same data with the same tokenizers"
                )
    members = Ensemble([translator.model for translator in translators])
    return Translator(replace(first.bundle, model=members.to(first.device)))
