"""Pack a model for search.

A search requests the packed form of its model with `pack(model, sentences)`. In a packed form, weights are converted once to
the layout that products need, and small operations are joined. It has the methods of `Seq2Seq`, and gives the same results up
to rounding. It is built from the parts of a step, which the model returns (`Seq2Seq.search_parts`). Models or modules that do
not return their parts, for example because they have hooks or replaced modules, run unchanged.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.inference.linear import pack_linear
from regard.inference.recurrent import pack_recurrent
from regard.inference.transformer import pack_decoder
from regard.models.search_parts import EnsembleParts, Features, RecurrentParts, StepParts
from regard.models.seq2seq import AttentionMaps, Seq2Seq
from regard.reweight import ReweightBySite


class Packed(Protocol):
    """A packed decoder."""

    def begin(self, state: Any, mask: Bool[Tensor, "B S"]) -> Any:
        """Convert the model's state to the state of the packed decoder.

        Args:
            state: Result of the model's `encode`.
            mask: True at the source's tokens.
        """
        ...


class PackedModel(Seq2Seq[Any]):
    """A model whose search steps use packed weights; its other methods call the original model.

    Args:
        model: The model.
        features: The model's step without the output layer.
        output: The packed output layer, or the model's own.
        decoder: The packed decoder; None to use the model's own.
    """

    def __init__(
        self, model: Seq2Seq[Any], *, features: Features, output: Callable[[Tensor], Tensor], decoder: Packed | None
    ) -> None:
        super().__init__()
        self.model = model
        self._features, self._output, self._decoder = features, output, decoder
        self.sites, self.derived = model.sites, model.derived
        self.feeds_back, self.alignment_step = model.feeds_back, model.alignment_step
        self.vocabulary, self.training = model.vocabulary, model.training

    def encode(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> Any:
        state = self.model.encode(source, source_mask, record=record, reweight=reweight)
        # Steps that start from the model's own state run the model's own decoder, which supports `reweight`.
        return state if self._decoder is None or reweight else self._decoder.begin(state, source_mask)

    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        state: Any,
        *,
        use_gold: Bool[Tensor, "B T"] | None = None,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B T D"], AttentionMaps]:
        return self.model.decode(target_in, state, use_gold=use_gold, record=record, reweight=reweight)

    def logits(self, features: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        return self.model.logits(features)

    def output_weight(self) -> tuple[Float[Tensor, "V D"], Float[Tensor, " V"] | None]:
        return self.model.output_weight()

    def step(
        self,
        tokens: Int[Tensor, "B N"],
        state: Any,
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B N V"], AttentionMaps, Any]:
        features, attention, state = self._features(tokens, state, record=record, reweight=reweight)
        return self._output(features), attention, state


def pack(model: Seq2Seq[Any], sentences: int) -> Seq2Seq[Any]:
    """Return the packed form of a model, or the model itself if it cannot be packed.

    A model cannot be packed if gradients are enabled, in training mode, in `torch.compile`, if its `search_parts` returns None,
    or if neither its output layer nor its decoder can be packed. Of an ensemble, each member is packed.

    The products run in autocast's dtype, or in the dtype of the weights without autocast; within `int8_products`, they run in
    8-bit integers on a CPU. The packed form is for one search: it does not follow later changes of the weights.

    Args:
        model: The model, in evaluation mode.
        sentences: Number of sentences in the search.
    """
    parts = model.search_parts()
    if parts is None or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return model
    if isinstance(parts, EnsembleParts):
        packed: Seq2Seq[Any] = parts.build([pack(member, sentences) for member in parts.members])
        packed.training = model.training
        return packed
    if model.training:
        return model
    output = pack_linear(parts.output, sentences)
    decoder = _pack_decoder(parts, sentences)
    if output is None and decoder is None:
        return model
    return PackedModel(model, features=parts.features, output=output or parts.output, decoder=decoder)


def _pack_decoder(parts: StepParts, sentences: int) -> Packed | None:
    """Return the packed decoder; None if it is not on a CPU, or cannot be packed."""
    decoder = parts.decoder
    if isinstance(decoder, RecurrentParts):
        return pack_recurrent(decoder, sentences) if decoder.layers[0].state_weight.device.type == "cpu" else None
    if decoder is None or decoder.layers[0].own.output.weight.device.type != "cpu":
        return None
    return pack_decoder(decoder, sentences)
