"""A Transformer of regard's with the same weights in the forms of CTranslate2 and of JoeyNMT 2.3.

Both have norms before or after each part; DeepNet's scales of the stream go into the maps that join it. CTranslate2 turns
queries and keys as `regard.attention.Rotary` does, neighbouring features in pairs (`rotary_interleave`), in self-attention
only: the maps go over as they are, and no positions are added to embeddings. Of a gated feed-forward layer, `linear_0` is what
the activation is of. JoeyNMT has neither, nor norms by the root mean square, nor embeddings that are not tied.
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
from regard.config import TransformerConfig
from regard.errors import RegardError
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions, sinusoids
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.models.transformer.translator import TransformerTranslator
from regard.text.symbols import END_TOKEN, PAD, SPECIAL_TOKENS, START_TOKEN, UNKNOWN, UNKNOWN_TOKEN

LONGEST = 512
"""Positions that a converted model has."""

CTRANSLATE2 = {
    "norm": ("layer", "rms"),
    "norm_order": ("pre", "post", "deep"),
    "feed_forward": ("relu", "gelu", "swiglu"),
    "positions": ("sinusoidal", "rotary"),
}
"""What CTranslate2 is given the weights of, by the settings of a model."""
JOEYNMT = {"norm": ("layer",), "norm_order": ("pre", "post"), "feed_forward": ("relu", "gelu"), "positions": ("sinusoidal",)}
"""What JoeyNMT 2.3 has, likewise; embeddings and output are tied, and the output has no bias. `deep` goes over as `post`."""


@dataclass(frozen=True)
class Parts:
    """What a Transformer is made of, by the names of its settings; other parts by those of their classes."""

    norm: str
    norm_order: str
    feed_forward: str
    positions: str


def check_shape_of(model: nn.Module) -> TransformerTranslator:
    """Refuse models that CTranslate2 cannot be given the weights of.

    Raises:
        RegardError: If it is another model, or made of other parts.
    """
    if not isinstance(model, TransformerTranslator):
        raise RegardError(
            f"the model is a {type(model).__name__}, expected a Transformer, such as preset transformer-tiny trains"
        )
    if lacking := lacks(read_parts(model), CTRANSLATE2):
        raise RegardError(
            f"the model has {lacking}, which CTranslate2 cannot be given the weights of; models that can be compared have "
            f"{describe(CTRANSLATE2)}"
        )
    return model


def joeynmt_lacks(model: TransformerTranslator) -> str:
    """What the model has and JoeyNMT has not; empty where it can be given the weights."""
    found = [lacks(read_parts(unscaled(model)), JOEYNMT)]
    tied = model.output.weight is model.source_embedding.weight and model.output.weight is model.target_embedding.weight
    found += [] if tied else ["embeddings that are not all tied"]
    found += [] if model.output.bias is None else ["output_bias: true"]
    return ", ".join(each for each in found if each)


def lacks(model: Parts | TransformerConfig, supported: Mapping[str, Sequence[str]]) -> str:
    """The settings of the model that are not among those supported."""
    settings = {name: getattr(model, name) for name in supported}
    return ", ".join(f"{name}: {value}" for name, value in settings.items() if value not in supported[name])


def describe(supported: Mapping[str, Sequence[str]]) -> str:
    """The settings that are supported, as a user would write them."""
    return ", ".join(f"{name}: {' or '.join(values)}" for name, values in supported.items())


def read_parts(model: TransformerTranslator) -> Parts:
    """What the model is made of."""
    layers = [*model.encoder.layers, *model.decoder.layers]
    residuals = [part for layer in layers for part in layer.modules() if isinstance(part, Residual)]
    places = [(model.source_positions, layer.attention) for layer in model.encoder.layers]
    places += [(model.target_positions, layer.self_attention) for layer in model.decoder.layers]
    across = {_unusual(layer.cross_attention, positions=type(None)) for layer in model.decoder.layers} - {""}
    return Parts(
        norm=_only(_setting(residual.norm, {nn.LayerNorm: "layer", nn.RMSNorm: "rms"}) for residual in residuals),
        norm_order=_only(_order(residual) for residual in residuals),
        feed_forward=_only(_forward(layer.feed_forward) for layer in layers),
        positions=_only({_positions(*place) for place in places} | across),
    )


@torch.no_grad()
def unscaled(model: TransformerTranslator) -> TransformerTranslator:
    """A copy that computes the same without scales of the stream: norm(α·x + part(x)) is norm(x + part(x)/α) with ε/α²."""
    model = copy.deepcopy(model)
    joins = [(layer.attention_residual, layer.attention.output_projection) for layer in model.encoder.layers]
    joins += [(layer.self_residual, layer.self_attention.output_projection) for layer in model.decoder.layers]
    joins += [(layer.cross_residual, layer.cross_attention.output_projection) for layer in model.decoder.layers]
    layers = [*model.encoder.layers, *model.decoder.layers]
    joins += [(layer.feed_forward_residual, layer.feed_forward.outer) for layer in layers]
    for residual, last in joins:
        if isinstance(residual, PostNorm):
            for parameter in last.parameters():
                parameter.div_(residual.scale)
            residual.norm.eps /= residual.scale**2
            residual.scale = 1.0
    return model


def _only(names: Iterable[str]) -> str:
    """The one name of all layers; several, where they differ, are no setting."""
    return " and ".join(sorted(set(names)))


def _setting(part: nn.Module, names: Mapping[type, str]) -> str:
    return names.get(type(part), type(part).__name__)


def _order(residual: Residual) -> str:
    scaled = isinstance(residual, PostNorm) and residual.scale != 1
    return "deep" if scaled else _setting(residual, {PreNorm: "pre", PostNorm: "post"})


def _forward(part: nn.Module) -> str:
    if isinstance(part, GatedFeedForward):
        return {"silu": "swiglu"}.get(name := _activation(part), f"gated {name}")
    return _activation(part) if isinstance(part, FeedForward) else type(part).__name__


def _activation(part: FeedForward | GatedFeedForward) -> str:
    exact = isinstance(part.activation, nn.GELU) and part.activation.approximate == "none"
    return "gelu" if exact else _setting(part.activation, {nn.ReLU: "relu", nn.SiLU: "silu"})


def _positions(table: nn.Module, attention: nn.Module) -> str:
    """What adds positions to embeddings, and what turns queries and keys."""
    forms = {SinusoidalPositions: "sinusoidal", NoPositions: "rotary", LearnedPositions: "learned"}
    name = _setting(table, forms)
    return _unusual(attention, positions=Rotary if name == "rotary" else type(None)) or name


def _unusual(attention: nn.Module, *, positions: type) -> str:
    """An attention that is more than heads and a softmax, by its name."""
    plain = (
        isinstance(attention, MultiHead)
        and attention.num_kv_heads == attention.num_heads
        and attention.window is None
        and attention.query_projection.bias is not None
        and type(attention.normalizer) is Softmax
        and type(attention.positions) is positions
    )
    return "" if plain else f"{type(attention).__name__} of another form"


def to_ctranslate2(model: TransformerTranslator, folder: Path) -> None:
    """Write a CTranslate2 model of the same weights, in float32.

    Args:
        model: As `check_shape_of` wants it.
        folder: Where to.
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
    for out, layer in zip(spec.encoder.layer, model.encoder.layers, strict=True):
        _own_attention(out.self_attention, layer.attention, layer.attention_residual)
        _feed_forward(out.ffn, layer)
    for out, layer in zip(spec.decoder.layer, model.decoder.layers, strict=True):
        _own_attention(out.self_attention, layer.self_attention, layer.self_residual)
        across = layer.cross_attention
        _linear(out.attention.linear[0], across.query_projection)
        _linear(out.attention.linear[1], across.key_projection, across.value_projection)
        _linear(out.attention.linear[2], across.output_projection)
        _norm(out.attention.layer_norm, layer.cross_residual.norm)
        _feed_forward(out.ffn, layer)
    spec.register_source_vocabulary(spellings(model.source_embedding.num_embeddings))
    spec.register_target_vocabulary(spellings(model.target_embedding.num_embeddings))
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = spec.config.bos_token = START_TOKEN
    spec.config.eos_token, spec.config.unk_token = END_TOKEN, UNKNOWN_TOKEN
    # It has one for all norms; `unscaled` leaves decoders another than encoders, and scores differ by some 1e-5 of themselves.
    spec.config.layer_norm_epsilon = model.encoder.layers[0].attention_residual.norm.eps
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(os.fspath(folder))


def _ctranslate2_spec(model: TransformerTranslator) -> Any:
    """An empty specification of the model's form; the positions of embeddings are all that it holds."""
    from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    parts = read_parts(model)
    attention = model.encoder.layers[0].attention
    form = {
        "pre_norm": parts.norm_order == "pre",
        "rms_norm": parts.norm == "rms",
        "activation": {"relu": Activation.RELU, "gelu": Activation.GELU, "swiglu": Activation.SWISH}[parts.feed_forward],
        "ffn_glu": parts.feed_forward == "swiglu",
    }
    if parts.positions == "rotary":
        form |= {"rotary_dim": attention.head_size, "rotary_interleave": True, "rotary_base": attention.positions.base}
    encoder = TransformerEncoderSpec(len(model.encoder.layers), attention.num_heads, **form)
    decoder = TransformerDecoderSpec(len(model.decoder.layers), attention.num_heads, **form)
    if parts.positions == "sinusoidal":
        for side in (encoder, decoder):
            side.position_encodings.encodings = sinusoids(LONGEST, model.encoder.size).float().numpy()
    return TransformerSpec(encoder, decoder)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


def _linear(out: Any, *linears: nn.Linear) -> None:
    """Several maps of one input as one."""
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


def spellings(size: int) -> list[str]:
    """How both spell the symbols of a vocabulary: by their numbers, so that none holds a space."""
    return [*SPECIAL_TOKENS, *(f"p{number}" for number in range(len(SPECIAL_TOKENS), size))]


def spell(ids: Sequence[int]) -> str:
    """A sentence as a line."""
    return " ".join(f"p{number}" if number >= len(SPECIAL_TOKENS) else SPECIAL_TOKENS[number] for number in ids)


def read_spelt(line: str) -> list[int]:
    """The numbers of a line."""
    return [int(piece[1:]) if piece[1:].isdecimal() else UNKNOWN for piece in line.split()]


def to_joeynmt(model: TransformerTranslator, folder: Path) -> None:
    """Write a checkpoint of the same weights, `best.ckpt`. JoeyNMT has the unknown symbol before padding.

    Args:
        model: One that JoeyNMT has the parts of, its embeddings and output all tied.
        folder: Of JoeyNMT's run.

    Raises:
        RegardError: If the model has what JoeyNMT has not.
    """
    if lacking := joeynmt_lacks(model):
        raise RegardError(
            f"the model has {lacking}, which JoeyNMT 2.3 has not; it can be given {describe(JOEYNMT)}, tie_embeddings: all, "
            "output_bias: false"
        )
    model = unscaled(model)
    order = [UNKNOWN, PAD, *range(2, model.output.out_features)]
    embedding = model.output.weight.detach().float()[order].clone()
    state = dict.fromkeys(("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"), embedding)
    table = sinusoids(5000, model.encoder.size).float()[None]
    state |= {"encoder.pe.pe": table, "decoder.pe.pe": table}
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        state |= {} if stack.norm is None else _named(f"{name}.layer_norm", stack.norm)
    for number, layer in enumerate(model.encoder.layers):
        name = f"encoder.layers.{number}"
        state |= _joeynmt_attention(f"{name}.src_src_att", layer.attention)
        state |= _named(f"{name}.layer_norm", layer.attention_residual.norm)
        state |= _joeynmt_feed_forward(f"{name}.feed_forward", layer)
    for number, layer in enumerate(model.decoder.layers):
        name = f"decoder.layers.{number}"
        state |= _joeynmt_attention(f"{name}.trg_trg_att", layer.self_attention)
        state |= _named(f"{name}.x_layer_norm", layer.self_residual.norm)
        state |= _joeynmt_attention(f"{name}.src_trg_att", layer.cross_attention)
        state |= _named(f"{name}.dec_layer_norm", layer.cross_residual.norm)
        state |= _joeynmt_feed_forward(f"{name}.feed_forward", layer)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"model_state": state}, folder / "best.ckpt")


def _named(name: str, module: Any) -> dict[str, Tensor]:
    return {f"{name}.{part}": tensor.detach().float().clone() for part, tensor in module.named_parameters()}


def _joeynmt_attention(name: str, attention: Any) -> dict[str, Tensor]:
    parts = {"q_layer": "query", "k_layer": "key", "v_layer": "value", "output_layer": "output"}
    found: dict[str, Tensor] = {}
    for theirs, ours in parts.items():
        found |= _named(f"{name}.{theirs}", getattr(attention, f"{ours}_projection"))
    return found


def _joeynmt_feed_forward(name: str, layer: Any) -> dict[str, Tensor]:
    inner, outer = (
        _named(f"{name}.pwff_layer.0", layer.feed_forward.inner),
        _named(f"{name}.pwff_layer.3", layer.feed_forward.outer),
    )
    return inner | outer | _named(f"{name}.layer_norm", layer.feed_forward_residual.norm)
