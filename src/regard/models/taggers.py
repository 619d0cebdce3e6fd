"""A tagger: the encoder of a text, and attention of each word over the states of all tokens."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.config import PretrainedEncoderConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.models.classifiers.pooled import TextEncoder
from regard.models.pretrained import PretrainedTextEncoder
from regard.reweight import Reweight, ReweightBySite, Sites, check_reweight
from regard.shapes import check_shape


class Tagged(NamedTuple):
    """Output of a tagger."""

    logits: Tensor
    """Scores (B,W,C) of the tags of each word, before the softmax."""
    attention: dict[str, Tensor]
    """Weights of the requested sites: `"tag"` (B,W,S), or (B,H,W,S) with heads, the attention of each word's tag."""


class PretrainedText(TextEncoder):
    """h = encoder(tokens), with a pretrained encoder; the tokens include its start and end symbols."""

    def __init__(self, config: PretrainedEncoderConfig, encoder_ids: Sequence[int]) -> None:
        super().__init__()
        self.encoder = PretrainedTextEncoder(config, encoder_ids)
        self.size, self.sites = self.encoder.size, self.encoder.sites

    def embed_text(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the encoder's embeddings of the tokens."""
        return self.encoder.embed(tokens)

    def states(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        """Return the states of the encoder; the weights of the sites `encoder.0`, `encoder.1`, … are (B,H,S,S)."""
        return self.encoder(embedded, mask, sites)


class TextTagger(nn.Module):
    """logits_w = U [h_w; c_w] + b with c_w = Σ_s weight_ws h_s, where h_w is the state of the first token of word w.

    The attention may have any formula; its query is h_w, and its keys and values are the states h of all tokens.

    Args:
        encoder: Encoder of the tokens, with states of width D.
        attention: Attention whose queries and keys have the width D. It must not be `stateful`, because tags are predicted
            independently of each other.
        num_tags: C, number of tags.
        output_dropout: Dropout on [h_w; c_w].

    Raises:
        ConfigError: If the attention is stateful, or has other widths.
    """

    vocabulary: str = ""
    """Fingerprint of the vocabulary and tags that the model was trained with; empty before training."""

    def __init__(self, encoder: TextEncoder, attention: Attention, *, num_tags: int, output_dropout: float = 0.0) -> None:
        super().__init__()
        if attention.stateful:
            raise ConfigError(
                f"TextTagger: a {type(attention).__name__} remembers earlier queries, but tags are predicted independently of "
                "each other; use a mechanism without a state, such as Additive, MultiHead or LocalPredictive"
            )
        if (attention.query_size, attention.key_size) != (encoder.size, encoder.size):
            raise ConfigError(
                f"TextTagger: the attention has query_size={attention.query_size} and key_size={attention.key_size}, expected "
                f"{encoder.size} for both, the width of the encoder's states"
            )
        self.encoder, self.attention = encoder, attention
        self.output_dropout = Dropout(output_dropout)
        self.output = nn.Linear(encoder.size + attention.context_size(encoder.size), num_tags)
        self.sites = ("tag", *encoder.sites)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        places: Int[Tensor, "B W"],
        *,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] = (),
    ) -> Tagged:
        """Compute the scores of the tags of each word.

        Args:
            tokens: Ids of the tokens, padded at the end.
            mask: True at tokens, False at padding.
            places: Position of the first token of each word, from 0; padded at the end with any position.
            reweight: Function that replaces the weights of the words' attention, or functions by site.
            record: Sites whose attention is returned.
        """
        check_shape("mask", mask, "B S", check_shape("tokens", tokens, "B S"))
        given = {"tag": reweight} if callable(reweight) else reweight or {}
        check_reweight(given, tuple(dict.fromkeys([*self.sites, *(site.partition(".")[0] for site in self.sites)])))
        sites = Sites(record, given)
        states = self.encoder.states(self.encoder.embed_text(tokens, mask), mask, sites)
        words = states.gather(1, places[:, :, None].expand(-1, -1, states.shape[-1]))
        out = self.attention(words, states, key_mask=mask, **sites.options("tag"))
        sites.add("tag", out.weights)
        logits = self.output(self.output_dropout(torch.cat((words, out.context), dim=-1)))
        return Tagged(logits, {site: sites.maps[site] for site in record if site in sites.maps})
