"""A Transformer encoder with attention pooling."""

from collections.abc import Collection

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.pooling import Pooling
from regard.config import TransformerClassifierConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.positions import build_positions
from regard.layers.transformer import TransformerEncoder
from regard.layers.transformer_build import Blueprint, build_encoder
from regard.models.classifiers.words import WordDropout, build_embedding
from regard.models.text_classifier import Classified, TextClassifier
from regard.reweight import Reweight, ReweightBySite, for_layers
from regard.shapes import check_shape


class TransformerClassifier(TextClassifier):
    """logits = W pool(encoder(s·M embed(tokens) + positions)) + b, where M is the identity without pretrained word vectors.

    Reference: Vaswani et al. 2017, sections 3.1 and 3.4 (s = √D), for the encoder.

    Args:
        embedding: Embedding of the tokens.
        mapping: M, the map from the embeddings' width to the encoder's.
        positions: Module that adds positions; see `regard.layers.positions`.
        encoder: Encoder of the whole text.
        pooling: Pooling of the encoder's states.
        num_labels: C, number of labels, ≥ 1.
        scale: The factor s.
        word_dropout: Share of the tokens that training replaces by the unknown symbol.
        embedding_dropout: Dropout on the input of the encoder.
        output_dropout: Dropout on the pooled state.

    Raises:
        ConfigError: If the pooling and the encoder have different widths, or `num_labels` is less than 1.
    """

    def __init__(
        self,
        embedding: nn.Embedding,
        *,
        mapping: nn.Module,
        positions: nn.Module,
        encoder: TransformerEncoder,
        pooling: Pooling,
        num_labels: int,
        scale: float = 1.0,
        word_dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if pooling.size != encoder.size:
            raise ConfigError(
                f"TransformerClassifier: the pooling reads states of width {pooling.size}, but the encoder's states have width "
                f"{encoder.size}: make both the same"
            )
        if num_labels < 1:
            raise ConfigError(f"TransformerClassifier(num_labels={num_labels}): num_labels must be 1 or more")
        self.embedding, self.mapping, self.positions = embedding, mapping, positions
        self.encoder, self.pooling, self.scale = encoder, pooling, scale
        self.word_dropout = WordDropout(word_dropout)
        self.embedding_dropout, self.output_dropout = Dropout(embedding_dropout), Dropout(output_dropout)
        self.output = nn.Linear(pooling.output_size, num_labels)
        self.sites = ("pool", *(f"encoder.{number}" for number in range(len(encoder.layers))))

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the input embeddings of the tokens, before `mapping` and `positions` are applied."""
        embedded: Tensor = self.embedding(tokens)
        return embedded

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        *,
        embedded: Float[Tensor, "B S E"] | None = None,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        """Compute the scores of the labels; see `TextClassifier.forward`.

        The weights of the sites `encoder.0`, `encoder.1`, … are (B,H,S,S).
        """
        check_shape("mask", mask, "B S", check_shape("tokens", tokens, "B S"))
        if embedded is None:
            embedded = self.embed(self.word_dropout(tokens, mask))
        layers = [number for number in range(len(self.encoder.layers)) if f"encoder.{number}" in record]
        read = self.embedding_dropout(self.positions(self.scale * self.mapping(embedded)))
        changes = self.by_site(reweight)
        within = for_layers(changes, "encoder", len(self.encoder.layers))
        states, maps = self.encoder(read, mask, reweight=within, record=layers)
        pooled = self.pooling(states, key_mask=mask, reweight=changes.get("pool"))
        attention = {f"encoder.{number}": weights for number, weights in maps.items()}
        if "pool" in record:
            attention["pool"] = pooled.weights
        return Classified(self.output(self.output_dropout(pooled.context)), attention)


def build_transformer_classifier(
    config: TransformerClassifierConfig, *, vocabulary_size: int, num_labels: int, embedding_size: int = 0
) -> TransformerClassifier:
    """Build the model, with initial weights from PyTorch's random generator.

    Args:
        config: Settings of the model.
        vocabulary_size: V, number of words, ≥ 1.
        num_labels: C, number of labels, ≥ 1.
        embedding_size: Width of pretrained word vectors, which a linear map converts to the model's width. If 0, embeddings
            have the model's width, and there is no map.

    Raises:
        ConfigError: If sizes do not match.
    """
    size = config.embedding_size
    blueprint = Blueprint(
        size=size,
        num_heads=config.num_heads,
        feed_forward_size=config.feed_forward_size,
        feed_forward=config.feed_forward,
        norm=config.norm,
        order="pre" if config.norm_first else "post",
        build_positions=config.rotary.build if config.positions == "rotary" else lambda: None,
        dropout=config.layer_dropout,
        activation_dropout=config.layer_dropout,
        attention_dropout=config.attention_dropout,
        build_normalizer=config.normalizer.build,
        build_modifiers=config.heads.build,
    )
    mapping: nn.Module = nn.Identity()
    if embedding_size:
        # Values of word vectors are about 0.4, so a map with this standard deviation makes them about as large as positions.
        mapping = nn.Linear(embedding_size, size, bias=False)
        nn.init.normal_(mapping.weight, std=2 * embedding_size**-0.5)
    return TransformerClassifier(
        build_embedding(vocabulary_size, embedding_size or size),
        mapping=mapping,
        scale=1.0 if embedding_size else size**0.5,
        positions=build_positions(config.positions, size),
        encoder=build_encoder(blueprint, num_layers=config.num_layers),
        pooling=config.pooling.build(size=size),
        num_labels=num_labels,
        word_dropout=config.word_dropout,
        embedding_dropout=config.embedding_dropout,
        output_dropout=config.output_dropout,
    )
