"""Convert a Transformer translator to CTranslate2's format.

CTranslate2 can have norms before or after each part of a layer (attention, feed-forward), but no scales of the residual stream.
DeepNet's scales are therefore moved into the linear maps whose results are added to the residual stream. CTranslate2 rotates
the queries and keys of self-attention as `regard.attention.Rotary` does, in both layouts (`rotary_interleave`) but without
scaling. For models with rotary positions, the linear maps of attention are copied unchanged, and no positions are added to
embeddings. In a gated feed-forward layer, `linear_0` is the map whose result goes through the activation.
"""

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import MultiHead, Rotary, Softmax
from regard.attention.capabilities import is_exactly, is_plain
from regard.config import TransformerConfig
from regard.errors import RequestError
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions, sinusoids
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.models.transformer.translator import TransformerTranslator
from regard.text.symbols import END_TOKEN, START_TOKEN, UNKNOWN_TOKEN

# Number of positions of a converted model with sinusoidal positions.
LONGEST = 512

# Settings that CTranslate2 supports.
SUPPORTED = {
    "norm": ("layer", "rms"),
    "norm_order": ("pre", "post", "deep"),
    "feed_forward": ("relu", "gelu", "swiglu"),
    "positions": ("sinusoidal", "rotary"),
}

_SETTINGS: dict[type, str] = {nn.LayerNorm: "layer", nn.RMSNorm: "rms", PreNorm: "pre", PostNorm: "post"}
_SETTINGS |= {nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "silu"}
_SETTINGS |= {SinusoidalPositions: "sinusoidal", NoPositions: "rotary", LearnedPositions: "learned"}


@dataclass(frozen=True)
class Parts:
    """Names of a Transformer's parts, as in its settings; a part that no setting describes has the name of its class."""

    norm: str
    norm_order: str
    feed_forward: str
    positions: str


def check_convertible(model: nn.Module) -> TransformerTranslator:
    """Return the model if CTranslate2 can express it.

    Raises:
        RequestError: If it is not a Transformer translator, or CTranslate2 does not support one of its parts.
    """
    if not isinstance(model, TransformerTranslator) or not isinstance(model.source_embedding, nn.Embedding):
        kind = "reads images" if getattr(model, "source_axes", "B S") != "B S" else f"is a {type(model).__name__}"
        kind = "copies source words (model.copy)" if getattr(model, "copies", False) else kind
        raise RequestError(
            f"the model {kind}, which CTranslate2 cannot express; expected a Transformer translator, "
            "for example one trained with preset transformer-tiny"
        )
    if model.policy is not None:
        raise RequestError("the model waits for source words (model.wait_k), which CTranslate2 cannot express")
    if lacking := lacks(read_parts(model), SUPPORTED):
        raise RequestError(f"the model has {lacking}, which CTranslate2 cannot express; it can express {describe(SUPPORTED)}")
    return model


def lacks(model: Parts | TransformerConfig, supported: Mapping[str, Sequence[str]]) -> str:
    """Return the settings of the model that are not supported, as text; empty if all are supported."""
    settings = {name: getattr(model, name) for name in supported}
    return ", ".join(f"{name}: {value}" for name, value in settings.items() if value not in supported[name])


def describe(supported: Mapping[str, Sequence[str]]) -> str:
    """Return the supported settings as text."""
    return ", ".join(f"{name}: {' or '.join(values)}" for name, values in supported.items())


def read_parts(model: TransformerTranslator) -> Parts:
    """Return the names of the model's parts."""
    layers = [*_layers(model.encoder), *_layers(model.decoder)]
    residuals = [part for layer in layers for part in layer.modules() if isinstance(part, Residual)]
    places = [(model.source_positions, layer.attention) for layer in _layers(model.encoder)]
    places += [(model.target_positions, layer.self_attention) for layer in _layers(model.decoder)]
    across = {_unusual(layer.cross_attention, positions=type(None)) for layer in _layers(model.decoder)} - {""}
    return Parts(
        norm=_only(_setting(residual.norm) for residual in residuals),
        norm_order=_only(_order(residual) for residual in residuals),
        feed_forward=_only(_forward(layer.feed_forward) for layer in layers),
        positions=_only({_positions(*place) for place in places} | across),
    )


@torch.no_grad()
def unscaled(model: TransformerTranslator) -> TransformerTranslator:
    """Return an equivalent model without scales of the residual stream: norm(α·x + part(x)) = norm(x + part(x)/α) with ε/α²."""
    model = copy.deepcopy(model)
    joins = [(layer.attention_residual, layer.attention.output_projection) for layer in _layers(model.encoder)]
    joins += [(layer.self_residual, layer.self_attention.output_projection) for layer in _layers(model.decoder)]
    joins += [(layer.cross_residual, layer.cross_attention.output_projection) for layer in _layers(model.decoder)]
    layers = [*_layers(model.encoder), *_layers(model.decoder)]
    joins += [(layer.feed_forward_residual, layer.feed_forward.outer) for layer in layers]
    for residual, last in joins:
        if isinstance(residual, PostNorm):
            norm: Any = residual.norm
            for parameter in last.parameters():
                parameter.div_(residual.scale)
            norm.eps /= residual.scale**2
            residual.scale = 1.0
    return model


def _layers(stack: Any) -> list[Any]:
    return list(stack.layers)


def _only(names: Iterable[str]) -> str:
    """Return the name that all layers have; if they differ, all names joined by "and", which is not a supported setting."""
    return " and ".join(sorted(set(names)))


def _setting(part: nn.Module) -> str:
    """Return the setting that gives this part, or the name of its class."""
    return _SETTINGS.get(type(part), type(part).__name__)


def _order(residual: Residual) -> str:
    return "deep" if isinstance(residual, PostNorm) and residual.scale != 1 else _setting(residual)


def _forward(part: nn.Module) -> str:
    if not isinstance(part, FeedForward | GatedFeedForward):
        return type(part).__name__
    approximate = getattr(part.activation, "approximate", "none") != "none"
    name = "GELU" if approximate else _setting(part.activation)
    return name if isinstance(part, FeedForward) else "swiglu" if name == "silu" else f"gated {name}"


def _positions(table: nn.Module, attention: nn.Module) -> str:
    """Return the name of the positions, or a description of the self-attention if CTranslate2 lacks it."""
    name = _setting(table)
    return _unusual(attention, positions=Rotary if name == "rotary" else type(None)) or name


def _unusual(attention: Any, *, positions: type) -> str:
    """Return a description of an attention that CTranslate2 lacks; empty for one that it supports.

    It supports plain multi-head attention with biases, a softmax and the given class of positions, without scaling.
    """
    plain = is_plain_heads(attention) and attention.query_projection.bias is not None and type(attention.positions) is positions
    plain = plain and getattr(attention.positions, "scaling", None) is None
    return "" if plain else f"{type(attention).__name__} of another form"


def is_plain_heads(attention: Any) -> bool:
    """Return whether a call computes W_o [head_1; …; head_H] with head_h = softmax(q_h k_hᵀ / √E) v_h, and nothing more.

    Queries and keys may be rotated. Subclasses, hooks, adapters and all options that change the formula do more.
    """
    if not is_exactly(attention, MultiHead) or not is_exactly(attention.normalizer, Softmax) or attention.modifies:
        return False
    maps = attention.query_projection, attention.key_projection, attention.value_projection, attention.output_projection
    biased = attention.positions is not None and attention.positions.adds_bias
    narrow = attention.num_kv_heads < attention.num_heads or attention.num_heads * attention.head_size != attention.size
    odd = biased or narrow or attention.output_size != attention.size
    return not odd and attention.window is None and attention.scale is None and all(map(is_plain, maps))


def write_ctranslate2(
    model: TransformerTranslator, folder: Path, *, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> None:
    """Write a CTranslate2 model with the same weights, in float32.

    Args:
        model: A model that `check_convertible` accepts.
        folder: The folder.
        source_tokens: Spelling of each source token, in the order of ids.
        target_tokens: Spelling of each target token, in the order of ids.
    """
    model = unscaled(model)
    spec = _ctranslate2_spec(model)
    for side, embedding in ((spec.encoder, model.source_embedding), (spec.decoder, model.target_embedding)):
        table = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        table.weight = _array(embedding.weight)
    for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        if stack.norm is not None:
            _norm(side.layer_norm, stack.norm)
    spec.decoder.projection.weight = _array(model.output.weight)
    if model.output.bias is not None:
        spec.decoder.projection.bias = _array(model.output.bias)
    for out, layer in zip(spec.encoder.layer, _layers(model.encoder), strict=True):
        _own_attention(out.self_attention, layer.attention, layer.attention_residual)
        _feed_forward(out.ffn, layer)
    for out, layer in zip(spec.decoder.layer, _layers(model.decoder), strict=True):
        _own_attention(out.self_attention, layer.self_attention, layer.self_residual)
        across = layer.cross_attention
        _linear(out.attention.linear[0], across.query_projection)
        _linear(out.attention.linear[1], across.key_projection, across.value_projection)
        _linear(out.attention.linear[2], across.output_projection)
        _norm(out.attention.layer_norm, layer.cross_residual.norm)
        _feed_forward(out.ffn, layer)
    spec.register_source_vocabulary(list(source_tokens))
    spec.register_target_vocabulary(list(target_tokens))
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = spec.config.bos_token = START_TOKEN
    spec.config.eos_token, spec.config.unk_token = END_TOKEN, UNKNOWN_TOKEN
    # CTranslate2 has one ε for all norms. After `unscaled`, encoder and decoder differ in ε, so scores change by about 1e-5.
    spec.config.layer_norm_epsilon = _layers(model.encoder)[0].attention_residual.norm.eps
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(os.fspath(folder))


def _ctranslate2_spec(model: TransformerTranslator) -> Any:
    """Return a specification of the architecture, without weights; only sinusoidal positions are filled in."""
    from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    parts = read_parts(model)
    attention = _layers(model.encoder)[0].attention
    form = {
        "pre_norm": parts.norm_order == "pre",
        "rms_norm": parts.norm == "rms",
        "activation": {"relu": Activation.RELU, "gelu": Activation.GELU, "swiglu": Activation.SWISH}[parts.feed_forward],
        "ffn_glu": parts.feed_forward == "swiglu",
    }
    if parts.positions == "rotary":
        form |= {"rotary_dim": attention.head_size, "rotary_interleave": attention.positions.layout == "pairs"}
        form["rotary_base"] = attention.positions.base
    encoder = TransformerEncoderSpec(len(_layers(model.encoder)), attention.num_heads, **form)
    decoder = TransformerDecoderSpec(len(_layers(model.decoder)), attention.num_heads, **form)
    if parts.positions == "sinusoidal":
        for side in (encoder, decoder):
            side.position_encodings.encodings = sinusoids(LONGEST, model.encoder.size).float().numpy()
    return TransformerSpec(encoder, decoder)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


def _linear(out: Any, *linears: nn.Linear) -> None:
    """Fill in one linear map that joins several linear maps of the same input."""
    out.weight = np.concatenate([_array(linear.weight) for linear in linears])
    if linears[0].bias is not None:
        out.bias = np.concatenate([_array(linear.bias) for linear in linears])


def _norm(out: Any, norm: Any) -> None:
    out.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        out.beta = _array(norm.bias)


def _own_attention(out: Any, attention: Any, residual: Any) -> None:
    _linear(out.linear[0], attention.query_projection, attention.key_projection, attention.value_projection)
    _linear(out.linear[1], attention.output_projection)
    _norm(out.layer_norm, residual.norm)


def _feed_forward(out: Any, layer: Any) -> None:
    part = layer.feed_forward
    if isinstance(part, GatedFeedForward):
        _linear(out.linear_0, part.gate)
        _linear(out.linear_0_noact, part.inner)
    else:
        _linear(out.linear_0, part.inner)
    _linear(out.linear_1, part.outer)
    _norm(out.layer_norm, layer.feed_forward_residual.norm)
