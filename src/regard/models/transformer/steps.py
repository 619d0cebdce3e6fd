"""The decoding step that all Transformer models share."""

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from jaxtyping import Float, Int
from torch import Tensor

from regard.layers.causal import CausalDecoder
from regard.layers.transformer import DecoderRequest, LayerWeights, TransformerDecoder
from regard.models.seq2seq import AttentionMaps, LinearOutputModel
from regard.models.transformer.state import TransformerState
from regard.reweight import ReweightBySite


class TransformerModel(LinearOutputModel[TransformerState]):
    """Base of Transformers that predict words: translators and language models."""

    feeds_back = False
    decoder: TransformerDecoder | CausalDecoder

    def step(
        self,
        tokens: Int[Tensor, "B N"],
        state: TransformerState,
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B N V"], AttentionMaps, TransformerState]:
        self.check_reweight(reweight)
        # All hypotheses are at the same position, so each word is embedded as a sequence of length 1.
        embedded = self._embed(tokens.flatten()[:, None], state.length).view(*tokens.shape, -1)
        request = self._request(record, reweight, state.length, 1)
        features, weights, cache = self.decoder.step(embedded, state.memories, cast(Any, state.cache), request)
        state = replace(state, cache=cache)
        return self.output(features), self._maps(weights, state, record), state

    @abstractmethod
    def _request(
        self, record: Collection[str], reweight: ReweightBySite | None, first_step: int, num_steps: int
    ) -> DecoderRequest:
        """Return the request that names the weights to record and to replace in `num_steps` steps from `first_step` on."""

    @abstractmethod
    def _embed(self, tokens: Tensor, start: int) -> Tensor:
        """Embed words, the first of which is at position `start`."""

    @abstractmethod
    def _maps(self, found: LayerWeights, state: TransformerState, record: Collection[str]) -> AttentionMaps:
        """Return the weights of the sites in `record`, from the weights by layer."""
