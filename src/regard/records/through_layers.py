"""Attention rollout: combine the weights of all layers into the share of each input in the states of the last layer."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from regard.errors import RequestError, ShapeError

FAMILIES = ("encoder", "decoder", "cross")


def rollout(
    weights: Sequence[Float[np.ndarray, "*heads S S"]] | Float[np.ndarray, "L *heads S S"],
) -> Float[np.ndarray, "S S"]:
    """Return the combined self-attention of all layers, including the residual stream that bypasses each layer:

        R = Â_L ⋯ Â_2 Â_1,    Â_l = ½ A_l + ½ I, with rows divided by their sums,    A_l = mean of the layer's heads

    Args:
        weights: A_1 … A_L, each (S,S), or (H,S,S) with heads; an array (L,S,S) or (L,H,S,S) is accepted too.

    Returns:
        A float64 matrix whose rows sum to one: row s contains the share of each input in state s of the last layer.

    Raises:
        ShapeError: If there is no layer, or the layers are not square or differ in size.

    Reference:
        Abnar and Zuidema 2020, Quantifying Attention Flow in Transformers, section 3.
    """
    steps = [_with_residual(layer) for layer in _square(weights, "rollout")]
    result = steps[0]
    for step in steps[1:]:
        result = step @ result
    return result


def rollout_across(
    encoder: Float[np.ndarray, "S S"],
    within: Sequence[Float[np.ndarray, "*heads T T"]] | Float[np.ndarray, "L *heads T T"],
    across: Sequence[Float[np.ndarray, "*heads T S"]] | Float[np.ndarray, "L *heads T S"],
) -> Float[np.ndarray, "T S"]:
    """Combine the attention of a decoder's layers with the encoder's rollout E into shares of the source words.

    Each state of the decoder consists of shares of source words (a row of R) and of target words (a row of Q). At the
    beginning, R = 0 and Q = I. Layer l, with the self-attention D_l and the attention C_l to the encoder's states, changes them
    to

        R ← D̂_l R,  Q ← D̂_l Q      and then      R ← ½ C_l E + ½ R,  Q ← ½ Q

    where D̂_l is ½ D_l + ½ I with rows divided by their sums. At the end, only the shares of source words are kept, and each
    row of R is divided by its sum: Abnar and Zuidema 2020, with attention to the source in the same proportion.
    """
    if len(within) != len(across):
        raise ShapeError(
            f"rollout_across: got {len(within)} layers of self-attention and {len(across)} of cross-attention, expected the "
            "same number"
        )
    source: np.ndarray | None = None
    for step, cross in zip(_square(within, "rollout_across"), across, strict=True):
        read = 0.5 * (_mean(cross) @ encoder)
        source = read if source is None else read + 0.5 * (_with_residual(step) @ source)
    assert source is not None
    return _normalised(source)


def rollout_of(weights: Mapping[str, np.ndarray], family: str) -> Float[np.ndarray, "rows columns"]:
    """Return the rollout of a record's weights, from the sites `family.0`, `family.1`, …"""
    # The family `cross` needs `decoder.i` and `cross.i` of every layer i. If there is no `encoder.i`, it treats the encoder's
    # states as the source words themselves.
    if family not in FAMILIES:
        raise RequestError(f"rollout: there is no family {family!r}, expected one of {', '.join(FAMILIES)}")
    if family != "cross":
        return rollout(_layers(weights, family))
    within, across = _layers(weights, "decoder"), _layers(weights, "cross")
    has_encoder = any(site.startswith("encoder.") for site in weights)
    source = rollout(_layers(weights, "encoder")) if has_encoder else np.eye(across[0].shape[-1])
    return rollout_across(source, within, across)


def _layers(weights: Mapping[str, np.ndarray], family: str) -> list[np.ndarray]:
    """Return the weights of all layers of a family, and raise an error if one is missing."""
    numbers = sorted(
        int(rest) for head, _, rest in (site.partition(".") for site in weights) if head == family and rest.isdecimal()
    )
    if not numbers or numbers != list(range(len(numbers))):
        recorded = ", ".join(f"{family}.{number}" for number in numbers) or f"no site {family}.0"
        raise RequestError(
            f"rollout: expected the attention of every layer of the {family} family from {family}.0 on, but the record has "
            f"{recorded}; record all layers"
        )
    return [weights[f"{family}.{number}"] for number in numbers]


def _mean(layer: np.ndarray) -> np.ndarray:
    array = np.asarray(layer, np.float64)
    return array.mean(0) if array.ndim == 3 else array


def _square(weights: Iterable[np.ndarray], caller: str) -> list[np.ndarray]:
    means = [_mean(layer) for layer in weights]
    shapes = {mean.shape for mean in means}
    if len(shapes) != 1 or any(len(shape) != 2 or shape[0] != shape[1] for shape in shapes):
        got = ", ".join(str(mean.shape) for mean in means) or "none"
        raise ShapeError(
            f"{caller}: got layers of shapes {got}, expected one or more, all (S, S), or with heads in front (H, S, S)"
        )
    return means


def _with_residual(layer: np.ndarray) -> np.ndarray:
    return _normalised(0.5 * layer + 0.5 * np.eye(len(layer)))


def _normalised(rows: np.ndarray) -> np.ndarray:
    total = rows.sum(-1, keepdims=True)
    return np.divide(rows, total, out=np.zeros_like(rows), where=total > 0)
