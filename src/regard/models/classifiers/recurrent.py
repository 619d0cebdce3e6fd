"""Embedding → dropout → recurrent layers → attention pooling → dropout → linear."""

from typing import cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.config import RecurrentClassifierConfig
from regard.config.classifier import RecurrentEncoderSettings
from regard.layers.dropout import Dropout
from regard.layers.recurrent import RecurrentLayer
from regard.models.classifiers.pooled import PooledClassifier, TextEncoder, build_embedding
from regard.reweight import Reweight, Sites


class RecurrentEncoder(TextEncoder):
    """h = BiLSTM(embed(tokens)).

    The configuration can replace the BiLSTM with GRUs, a single direction, or several layers. The recurrent layers do not read
    padding in either direction (see `RecurrentLayer`), so sequences need no packing.
    """

    def __init__(self, config: RecurrentEncoderSettings, *, vocabulary_size: int, embedding_size: int = 0) -> None:
        super().__init__()
        width = embedding_size or config.embedding_size
        self.build_dropouts(config)
        self.embedding = build_embedding(vocabulary_size, width)
        self.layer_dropout = Dropout(config.layer_dropout)
        self.size = config.hidden_size * (1 + config.bidirectional)
        self.layers = nn.ModuleList(
            RecurrentLayer(
                self.size if depth else width,
                hidden_size=config.hidden_size,
                cell=config.cell,
                bidirectional=config.bidirectional,
            )
            for depth in range(config.num_layers)
        )

    def states(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the states of the top layer."""
        states = self.embedding_dropout(embedded)
        for depth, layer in enumerate(self.layers):
            states = cast(RecurrentLayer, layer).states(self.layer_dropout(states) if depth else states, mask)
        return states


class RecurrentClassifier(RecurrentEncoder, PooledClassifier):
    """logits = W Σ_s weight_s h_s + b, with the states h of a `RecurrentEncoder`, and sums over tokens, not padding.

    Reference: Zhou et al. 2016; Lin et al. 2017, with several heads.
    """

    def __init__(
        self, config: RecurrentClassifierConfig, *, vocabulary_size: int, num_labels: int, embedding_size: int = 0
    ) -> None:
        super().__init__(config, vocabulary_size=vocabulary_size, embedding_size=embedding_size)
        self.build_head(config, num_labels)

    def reweighted(
        self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], reweight: Reweight, *, times: int
    ) -> Float[Tensor, "N C"]:
        """Return the logits of each text with several pooling weights; the recurrent layers read each text once."""
        sites = Sites((), self.by_site(reweight))
        states = self.states(self.embed(self.word_dropout(tokens, mask)), mask, sites)
        return self.score(states.repeat_interleave(times, dim=0), mask.repeat_interleave(times, dim=0), sites)
