"""Base of classifiers that have a single pooling of the states of a text."""

from collections.abc import Collection

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.pooling import Pooling
from regard.layers.dropout import Dropout
from regard.models.text_classifier import Classified, TextClassifier
from regard.reweight import Reweight, ReweightBySite


class PooledClassifier(TextClassifier):
    """logits = W Σ_s weight_s h_s + b: attention pooling of the states h, dropout, and a linear layer."""

    sites = ("pool",)
    embedding: nn.Embedding
    pooling: Pooling
    output_dropout: Dropout
    output: nn.Linear

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the input embeddings of the tokens, before any dropout."""
        embedded: Tensor = self.embedding(tokens)
        return embedded

    def score(
        self,
        states: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        reweight: Reweight | ReweightBySite | None,
        record: Collection[str],
    ) -> Classified:
        """Compute the scores of the labels from the states of the texts; the arguments are those of `forward`."""
        context, weights = self.pooling(states, key_mask=mask, reweight=self.by_site(reweight).get("pool"))
        logits = self.output(self.output_dropout(context))
        return Classified(logits, {"pool": weights} if "pool" in record else {})
