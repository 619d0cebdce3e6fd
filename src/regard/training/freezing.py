"""Parts of a model that training does not change, by their names (`model.freeze`)."""

from collections.abc import Iterable, Sequence

from torch import nn

from regard.errors import ConfigError, nearest
from regard.layers.positions import LearnedPositions

EMBEDDINGS = "embeddings"
"""Name that stands for all embedding tables in `model.freeze`: those of tokens, n-grams and positions."""
_TABLES = (nn.Embedding, nn.EmbeddingBag, LearnedPositions)
_SHOWN = 12


def freeze(model: nn.Module, names: Sequence[str]) -> list[nn.Parameter]:
    """Freeze parts of a model, so that training does not change them, and return the parameters that this call froze.

    Names are `embeddings`, names of modules (`encoder.layers.0`), or names of parameters as in `named_parameters()`. A weight
    that two parts share is frozen in both.

    Raises:
        ConfigError: If a name is unknown, or nothing would be left to train.
    """
    chosen = {id(weight): weight for name in names for weight in _named(model, name)}
    frozen = [weight for weight in chosen.values() if weight.requires_grad]
    for weight in frozen:
        weight.requires_grad_(False)
    if names and not any(weight.requires_grad for weight in model.parameters()):
        unfreeze(frozen)
        raise ConfigError(
            f"model.freeze is '{','.join(names)}', which is the whole model, so nothing is left to train; leave out at least "
            "one part"
        )
    return frozen


def unfreeze(weights: Iterable[nn.Parameter]) -> None:
    """Make parameters trainable again."""
    for weight in weights:
        weight.requires_grad_(True)


def describe_frozen(model: nn.Module, frozen: Sequence[nn.Parameter]) -> str:
    """Describe how much of a model is frozen."""
    fixed, total = (sum(weight.numel() for weight in some) for some in (frozen, model.parameters()))
    return f"frozen (model.freeze): {fixed:,} of {total:,} weights; the other {total - fixed:,} are trained"


def _named(model: nn.Module, name: str) -> list[nn.Parameter]:
    # With duplicates: a shared weight has several names.
    weights = dict(model.named_parameters(remove_duplicate=False))
    if name == EMBEDDINGS:
        tables = [part for part in model.modules() if isinstance(part, _TABLES)]
        named = [weight for table in tables for weight in table.parameters(recurse=False)]
    else:
        named = [weight for full, weight in weights.items() if full == name or full.startswith(f"{name}.")]
    if named:
        return named
    parts = [EMBEDDINGS, *(part for part, module in model.named_children() if next(module.parameters(), None) is not None)]
    known = [*parts, *(full for full, _ in model.named_modules() if full), *weights]
    raise ConfigError(
        f"model.freeze names '{name:.60}', which this model does not have{nearest(name, known)}; its parts are: "
        f"{', '.join(parts[:_SHOWN])}, and parts of these, such as {min(weights, default='')}"
    )
