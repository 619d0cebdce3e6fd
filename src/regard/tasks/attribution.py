"""Attribution: which tokens a prediction depends on, by the model's gradients and by changes of its input.

A method takes the probe of a text and returns a value for each step and token. Gradients and changes refer to the log
probability of what the model decided: its label, or the token that it writes at a step.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import RequestError, nearest
from regard.records import AttentionRecord
from regard.records.through_layers import rollout_of
from regard.tasks.probe import Probe

# Numbers of points on the path of integrated gradients, tried in order until the values are complete.
_STEPS = (16, 64, 256)
_TOGETHER = 16
# Accepted error of the sum of integrated gradients: a share of the difference of the scores, or nats if that is below 1.
_INCOMPLETE = 0.02


class UnavailableError(RequestError):
    """A model, or one text, for which a method has no values."""


def attention(probe: Probe) -> Float[np.ndarray, "T S"]:
    """Return the attention of the main site, the mean of its heads."""
    weights = probe.weights([probe.main])[probe.main].astype(np.float64)
    return weights.mean(0) if weights.ndim == 3 else weights


def rollout(probe: Probe) -> Float[np.ndarray, "T S"]:
    """Return the attention through all layers (`regard.rollout`); a classifier's pooling is multiplied by its encoder's."""
    families = ("encoder", "decoder", "cross") if probe.has_steps else ("encoder",)
    layers = [site for site in probe.sites if site.partition(".")[0] in families and site not in families]
    if not any(site.startswith("decoder" if probe.has_steps else "encoder") for site in layers):
        raise UnavailableError("rollout: this model has no layers of self-attention that could be followed")
    weights = probe.weights(layers)
    return rollout_of(weights, probe.family) if probe.has_steps else attention(probe) @ rollout_of(weights, "encoder")


def gradients(probe: Probe) -> Float[np.ndarray, "T S"]:
    """Return gradient × attention, mean over heads and over the layers that attend to the input:

        a_ts = mean_l mean_h max(0, A_lhts ∂ log p_t / ∂A_lhts)

    In a language model, query t is that of the token that is read at step t. A classifier without attention pooling has layers
    with a query q for each token: a_s = mean_l mean_h Σ_q max(0, A_lhqs ∂ log p / ∂A_lhqs).

    Raises:
        UnavailableError: If the weights of the model's attention are not one for each token.

    Reference:
        Chefer et al. 2021, Generic Attention-model Explainability, eq. 5.
        Differs from the paper: only attention to the input is used, not the product over all layers (eqs. 6 to 11).
    """
    kept: list[Tensor] = []

    def keep(weights: Tensor, mask: Tensor) -> Tensor:
        kept.append(weights if weights.requires_grad else weights.detach().requires_grad_())
        return kept[-1]

    scores, _ = probe.scores(torch.ones(1), keep)
    num_steps, rows = scores.shape[1], [weights.shape[-2] if probe.has_steps else 1 for weights in kept]
    # A loop over the steps of one layer calls `keep` once a step; otherwise, it is called with all steps, once a layer.
    in_loop = num_steps > 1 and rows == [1] * num_steps
    if not kept or {(len(weights), weights.shape[-1]) for weights in kept} != {(1, probe.num_tokens)}:
        raise UnavailableError("gradients: this model's attention has not one weight for each token")
    if not in_loop and set(rows) != {num_steps}:
        raise UnavailableError("gradients: the attention of this model's layers cannot be told apart")
    found = []
    for step in range(num_steps):
        used = kept[step : step + 1] if in_loop else kept
        slopes = torch.autograd.grad(scores[0, step], used, retain_graph=True, materialize_grads=True)
        layers = []
        for weights, slope in zip(used, slopes, strict=True):
            product = (weights * slope).detach().double().clamp(min=0)[0]
            row = product[..., 0 if in_loop else step, :] if probe.has_steps else product
            row = row.sum(-2) if row.ndim == 3 else row
            layers.append(row.mean(0) if row.ndim == 2 else row)
        found.append(torch.stack(layers).mean(0))
    return torch.stack(found).numpy(force=True)


def integrated(probe: Probe) -> Float[np.ndarray, "T S"]:
    """Return integrated gradients over the input embeddings x, along the straight path from those of unknown words, u:

        a_ts = Σ_e (x_se − u_se) ∫₀¹ ∂ log p_t(x') / ∂x'_se dα,  x' = u + α (x − u),        Σ_s a_ts = log p_t(x) − log p_t(u)

    Zero vectors are no baseline for every model: after a layer norm, α x is the same for all α > 0, so the integral does not
    exist. Special tokens stay as they are. The integral is computed by Gauss–Legendre quadrature with 16 points, or with 64 or
    256, until the sums are complete.

    Raises:
        UnavailableError: If the input has no embedding, or the sums are incomplete even with 256 points.

    Reference:
        Sundararajan et al. 2017, Axiomatic Attribution for Deep Networks, eqs. 1 and 3, proposition 1.
    """
    ends, embedded = probe.scores(torch.tensor([0.0, 1.0]))
    if embedded is None:
        raise UnavailableError("integrated: the input of this model has no embedding")
    difference, whole = (each.detach().double().diff(dim=0)[0] for each in (ends, embedded))
    error = 0.0
    for points in _STEPS:
        slopes = torch.zeros(ends.shape[1], *whole.shape, dtype=torch.float64, device=whole.device)
        nodes, factors = (torch.from_numpy(each) / 2 for each in np.polynomial.legendre.leggauss(points))
        for shares, share in zip((nodes + 0.5).split(_TOGETHER), factors.to(ends).split(_TOGETHER), strict=True):
            scores, embedded = probe.scores(shares)
            for step, sums in enumerate(share @ scores):
                slopes[step] += torch.autograd.grad(sums, embedded, retain_graph=True)[0].double().sum(0)  # type: ignore[arg-type]
        values = (slopes * whole).sum(-1)
        error = float(((values.sum(-1) - difference).abs() / difference.abs().clamp(min=1)).max())
        if error <= _INCOMPLETE:
            return values.numpy(force=True)
    raise UnavailableError(
        f"integrated: with {_STEPS[-1]} points, the values miss the difference of the scores by {error:.0%}, expected at most "
        f"{_INCOMPLETE:.0%}; choose another attribution"
    )


def values(probe: Probe) -> Float[np.ndarray, "T S"]:
    """Return the loss of log probability if the value of a token is zero wherever the input is attended to.

    Reference:
        Mohebbi et al. 2023, Quantifying Context Mixing in Transformers, section 3.
        Differs from the paper: the prediction is compared, not a layer's output, and all layers are changed at once.
    """

    def lost(places: Tensor) -> Float[np.ndarray, "T B"]:
        def zero_one_each(weights: Tensor, mask: Tensor) -> Tensor:
            if (len(weights), weights.shape[-1]) != (len(places), probe.num_tokens):
                raise UnavailableError("values: this model's attention has not one weight for each token")
            changed = weights.clone()  # other weights stay as they are: only this token's value is missing from the sum
            changed[torch.arange(len(places)), ..., places] = 0
            return changed

        return probe.lost(probe.reweight(zero_one_each, len(places)))

    return np.concatenate([lost(places) for places in torch.arange(probe.num_tokens).split(_TOGETHER)], axis=1)


def leave_one_out(probe: Probe) -> Float[np.ndarray, "T S"]:
    """Return the loss of log probability without a word; the tokens of a word share it equally."""
    return probe.to_tokens(probe.lost(probe.keep(~np.eye(probe.num_words, dtype=bool))))


METHODS: dict[str, Callable[[Probe], np.ndarray]] = {
    method.__name__: method for method in (attention, rollout, gradients, integrated, values, leave_one_out)
}


def attribute(probe: Probe, name: str) -> Float[np.ndarray, "T S"]:
    """Return the values of a method for one text.

    Raises:
        UnavailableError: If the method has no values for this model or text.
    """
    # cuDNN computes gradients of recurrent layers in training mode only, so it is not used.
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        return METHODS[name](probe)


def with_attributions(record: AttentionRecord, probe: Probe, names: Sequence[str]) -> AttentionRecord:
    """Return a record with attributions as further sites; `all` adds those that the model has.

    Raises:
        RequestError: If there is no such attribution, or the model does not have one that is named.
    """
    found = dict(record.weights)
    for name in check_names("attribute", names):
        try:
            array = attribute(probe, name).astype(np.float32)
            # Later tokens have no influence. Their values are set to 0, because results differ by rounding between batch sizes.
            found.setdefault(_site_of(name, probe), np.tril(array) if probe.family == "decoder" else array)
        except UnavailableError:
            if "all" not in _split(names):
                raise
    return replace(record, weights=found)


def _site_of(name: str, probe: Probe) -> str:
    """Return the site of an attribution in a record. Rows and columns of `decoder` sites are the tokens that are read."""
    is_within = probe.family == "decoder"
    return probe.main if name == "attention" else f"{probe.family}.{name}" if is_within or name == "rollout" else name


def _split(names: Sequence[str]) -> list[str]:
    """Return the names in a text or in several, in which commas separate them."""
    return [name.strip() for each in ([names] if isinstance(names, str) else names) for name in each.split(",")]


def check_names(caller: str, names: Sequence[str]) -> list[str]:
    """Return the names of methods, each once; `all` stands for all of them, and commas separate several.

    Raises:
        RequestError: If there is no such method.
    """
    chosen = [one for name in _split(names) for one in (METHODS if name == "all" else [name])]
    for name in chosen:
        if name not in METHODS:
            known = ", ".join(METHODS)
            raise RequestError(
                f"{caller}: there is no attribution {name!r:.60}, expected {known}, or all{nearest(name, METHODS)}"
            )
    return list(dict.fromkeys(chosen))
