"""The smallest translator that has everything training touches: embeddings, a matrix, a bias, dropout and feedback."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.models.seq2seq import AttentionMaps, Seq2Seq


@dataclass(frozen=True)
class TinyState:
    """The mean of the source's embeddings."""

    context: Tensor
    source_mask: Tensor

    def select(self, beam: Tensor) -> "TinyState":
        return self

    def keep(self, rows: Tensor) -> "TinyState":
        return replace(self, context=self.context[rows], source_mask=self.source_mask[rows])


class TinyTranslator(Seq2Seq):
    """Predicts a word from the word before it and the mean of the source."""

    sites = ("cross",)
    feeds_back = False

    def __init__(self, source_size: int, target_size: int, *, width: int = 16, dropout: float = 0.2) -> None:
        super().__init__()
        self.source = nn.Embedding(source_size, width)
        self.target = nn.Embedding(target_size, width)
        self.mix = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, target_size)
        self.fed: list[Tensor | None] = []
        """The `use_gold` of each call, for tests."""

    def encode(
        self, source: Tensor, source_mask: Tensor, *, record: Collection[str] = (), reweight: object = None
    ) -> TinyState:
        values = self.source(source) * source_mask[..., None]
        return TinyState(values.sum(1) / source_mask.sum(1, keepdim=True), source_mask)

    def _features(self, words: Tensor, state: TinyState) -> Tensor:
        context = state.context[:, None].expand(-1, words.shape[1], -1)
        return self.dropout(torch.tanh(self.mix(torch.cat([self.target(words), context], -1))))

    def decode(
        self,
        target_in: Tensor,
        state: TinyState,
        *,
        use_gold: Tensor | None = None,
        record: Collection[str] = (),
        reweight: object = None,
    ) -> tuple[Tensor, AttentionMaps]:
        self.fed.append(use_gold)
        if use_gold is None:
            return self._features(target_in, state), {}
        columns, words = [], target_in[:, :1]
        for place in range(target_in.shape[1]):
            if place:
                own = self.logits(columns[-1]).argmax(-1)
                words = torch.where(use_gold[:, place : place + 1], target_in[:, place : place + 1], own)
            columns.append(self._features(words, state))
        return torch.cat(columns, 1), {}

    def logits(self, features: Tensor) -> Tensor:
        return self.output(features)

    def output_weight(self) -> tuple[Tensor, Tensor | None]:
        return self.output.weight, self.output.bias

    def step(
        self, tokens: Tensor, state: TinyState, *, record: Collection[str] = (), reweight: object = None
    ) -> tuple[Tensor, AttentionMaps, TinyState]:
        maps = {}
        if "cross" in record:
            even = state.source_mask / state.source_mask.sum(1, keepdim=True)
            maps["cross"] = even[:, None].expand(-1, tokens.shape[1], -1)
        return self.logits(self._features(tokens, state)), maps, state
