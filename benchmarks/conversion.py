"""A Transformer of regard's with the same weights in the forms of CTranslate2 and of JoeyNMT 2.3."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import SinusoidalPositions, sinusoids
from regard.layers.residual import PostNorm
from regard.models.transformer.translator import TransformerTranslator
from regard.text.symbols import END_TOKEN, PAD, SPECIAL_TOKENS, START_TOKEN, UNKNOWN, UNKNOWN_TOKEN

LONGEST = 512
"""Positions that a converted model has."""


def check_shape_of(model: nn.Module) -> TransformerTranslator:
    """Refuse models that the others have no counterpart of: they are converted as Vaswani et al. 2017 have them.

    Raises:
        RegardError: If it is another model.
    """
    if not isinstance(model, TransformerTranslator):
        raise RegardError(
            f"the model is a {type(model).__name__}, expected a Transformer, such as preset transformer-tiny trains"
        )
    layers = [*model.encoder.layers, *model.decoder.layers]
    usual = all(
        isinstance(layer.feed_forward, FeedForward)
        and isinstance(layer.feed_forward.activation, nn.ReLU)
        and isinstance(layer.feed_forward_residual, PostNorm)
        and layer.feed_forward_residual.scale == 1
        and isinstance(layer.feed_forward_residual.norm, nn.LayerNorm)
        for layer in layers
    )
    if not usual or not isinstance(model.source_positions, SinusoidalPositions):
        raise RegardError(
            "the model is not built as preset transformer-tiny is (norm: layer, norm_order: post, feed_forward: relu, "
            "positions: sinusoidal); the others cannot be given the same weights"
        )
    return model


def to_ctranslate2(model: TransformerTranslator, folder: Path) -> None:
    """Write a CTranslate2 model of the same weights, in float32.

    Args:
        model: As `check_shape_of` wants it.
        folder: Where to.
    """
    from ctranslate2.specs import TransformerSpec

    heads = model.encoder.layers[0].attention.num_heads
    spec = TransformerSpec.from_config((len(model.encoder.layers), len(model.decoder.layers)), heads, pre_norm=False)
    for side, embedding in (((spec.encoder, model.source_embedding)), (spec.decoder, model.target_embedding)):
        table = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        table.weight = _array(embedding.weight)
        side.position_encodings.encodings = sinusoids(LONGEST, model.encoder.size).float().numpy()
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
        _norm(out.attention.layer_norm, layer.cross_residual)
        _feed_forward(out.ffn, layer)
    spec.register_source_vocabulary(spellings(model.source_embedding.num_embeddings))
    spec.register_target_vocabulary(spellings(model.target_embedding.num_embeddings))
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = spec.config.bos_token = START_TOKEN
    spec.config.eos_token, spec.config.unk_token = END_TOKEN, UNKNOWN_TOKEN
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(os.fspath(folder))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


def _linear(out: Any, *linears: nn.Linear) -> None:
    """Several maps of one input as one."""
    out.weight = np.concatenate([_array(linear.weight) for linear in linears])
    out.bias = np.concatenate([_array(linear.bias) for linear in linears])


def _norm(out: Any, residual: Any) -> None:
    out.gamma, out.beta = _array(residual.norm.weight), _array(residual.norm.bias)


def _own_attention(out: Any, attention: Any, residual: Any) -> None:
    _linear(out.linear[0], attention.query_projection, attention.key_projection, attention.value_projection)
    _linear(out.linear[1], attention.output_projection)
    _norm(out.layer_norm, residual)


def _feed_forward(out: Any, layer: Any) -> None:
    _linear(out.linear_0, layer.feed_forward.inner)
    _linear(out.linear_1, layer.feed_forward.outer)
    _norm(out.layer_norm, layer.feed_forward_residual)


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
        model: As `check_shape_of` wants it, its embeddings and output all tied.
        folder: Of JoeyNMT's run.

    Raises:
        RegardError: If vocabularies differ, or there is a bias of the output, which JoeyNMT has not.
    """
    if model.output.weight is not model.source_embedding.weight or model.output.bias is not None:
        raise RegardError("JoeyNMT is given models with `tie_embeddings: all` and without a bias of the output only")
    order = [UNKNOWN, PAD, *range(2, model.output.out_features)]
    embedding = model.output.weight.detach().float()[order].clone()
    state = dict.fromkeys(("src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"), embedding)
    table = sinusoids(5000, model.encoder.size).float()[None]
    state |= {"encoder.pe.pe": table, "decoder.pe.pe": table}
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
