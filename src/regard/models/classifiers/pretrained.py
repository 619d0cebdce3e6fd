"""A pretrained encoder with attention pooling."""

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.config import PretrainedClassifierConfig
from regard.models.classifiers.pooled import PooledClassifier
from regard.models.pretrained import PretrainedTextEncoder
from regard.reweight import Sites


class PretrainedClassifier(PooledClassifier):
    """logits = W pool(encoder(tokens)) + b, with a pretrained encoder.

    The tokens include the start and the end symbol of the encoder, which the pooling also reads. A frozen encoder reads each
    training text once.
    """

    def __init__(self, config: PretrainedClassifierConfig, *, num_labels: int, encoder_ids: Sequence[int]) -> None:
        super().__init__()
        self.encoder = PretrainedTextEncoder(config.encoder, encoder_ids)
        self.size = self.encoder.size
        self.build_dropouts(config)
        self.build_head(config, num_labels)
        self.sites = ("pool", *self.encoder.sites)
        self.contrastive = config.contrastive

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the encoder's embeddings of the tokens."""
        return self.encoder.embed(tokens)

    def states(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the states of the encoder; the weights of the sites `encoder.0`, `encoder.1`, … are (B,H,S,S)."""
        return self.encoder(embedded, mask, sites)

    def read_for_training(
        self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], label: Tensor
    ) -> tuple[Sequence[Float[Tensor, "B C"]], Float[Tensor, ""] | None]:
        """Return the logits, and the loss of pairs if the model is contrastive.

        L = Σ_i 1/(B−1) Σ_{j≠i} (cos(c_i, c_j) − [y_i = y_j])², for the pooled vectors c and the labels y of a batch. Only this
        loss changes the encoder and the pooling, and only the loss of the logits changes the output layer.

        Reference: Tunstall et al. 2022, Efficient Few-Shot Learning Without Sentence Transformers, section 3.
        Differs from the paper: all pairs of a batch instead of drawn pairs, and the output layer is trained at the same time.
        """
        states = self.states(self.embed(tokens), mask, Sites())
        context, _ = self.pooling(states, key_mask=mask)
        if not self.contrastive or label.ndim > 1:
            return [self.output(self.output_dropout(context))], None
        unit = nn.functional.normalize(context.float(), dim=1)
        wrong = (unit @ unit.T - (label[:, None] == label).float()).square()
        loss = (wrong.sum() - wrong.diagonal().sum()) / max(len(label) - 1, 1)
        return [self.output(self.output_dropout(context.detach()))], loss
