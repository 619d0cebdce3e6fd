"""The step of models that are Transformers."""

from abc import abstractmethod
from collections.abc import Collection

from jaxtyping import Float, Int
from torch import Tensor

from regard.layers.causal import CausalDecoder
from regard.layers.transformer import DecoderRequest, LayerWeights, TransformerDecoder
from regard.models.seq2seq import AttentionMaps, LinearOutputModel
from regard.models.transformer.state import TransformerState
from regard.reweight import ReweightBySite


class TransformerModel(LinearOutputModel[TransformerState]):
    """A Transformer that predicts words: what translators and language models share."""

    feeds_back = False
    decoder: TransformerDecoder | CausalDecoder

    def features(
        self,
        tokens: Int[Tensor, "B N"],
        state: TransformerState,
        *,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Float[Tensor, "B N D"], AttentionMaps, TransformerState]:
        """Feed one word to each hypothesis, and return the features that predict the next; `step` without the output layer."""
        self.check_reweight(reweight)
        # The hypotheses stand where a target's positions do, and all of them at one position.
        embedded = self._embed(tokens.flatten()[:, None], state.length).view(*tokens.shape, -1)
        request = self._request(record, reweight, state.length, 1)
        features, weights, state = state.advance(self.decoder, embedded, request)
        return features, self._maps(weights, state, record), state

    @abstractmethod
    def _request(
        self, record: Collection[str], reweight: ReweightBySite | None, first_step: int, num_steps: int
    ) -> DecoderRequest:
        """Return what the decoder's layers record and change at some steps."""

    @abstractmethod
    def _embed(self, tokens: Tensor, start: int) -> Tensor:
        """Embed words, the first of which is at position `start`."""

    @abstractmethod
    def _maps(self, found: LayerWeights, state: TransformerState, record: Collection[str]) -> AttentionMaps:
        """Return the weights by site."""
