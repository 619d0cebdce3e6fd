"""A small translator by the contract, and one that follows a table, to search over."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from regard.models.seq2seq import AttentionMaps, Seq2Seq
from regard.text.symbols import END


@dataclass(frozen=True)
class TinyState:
    memory: Tensor  # (B,S,D)
    mask: Tensor  # (B,S)
    hidden: Tensor  # (B,N,D)

    def select(self, beam: Tensor) -> TinyState:
        return replace(self, hidden=self.hidden.gather(1, beam[..., None].expand(-1, -1, self.hidden.shape[-1])))

    def keep(self, rows: Tensor) -> TinyState:
        return TinyState(self.memory[rows], self.mask[rows], self.hidden[rows])


class TinyTranslator(Seq2Seq):
    """h_t = tanh(E y_{t-1} + U h_{t-1} + c_{t-1}), with dot attention in one or two heads; random, sharp weights."""

    sites = ("cross", "cross.heads")
    feeds_back = True

    def __init__(self, *, vocabulary_size: int = 9, source_size: int = 11, width: int = 8, seed: int = 0) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.source = nn.Parameter(torch.randn(source_size, width, generator=draw))
        self.target = nn.Parameter(torch.randn(vocabulary_size, width, generator=draw))
        self.mix = nn.Parameter(torch.randn(width, width, generator=draw))
        self.output = nn.Parameter(torch.randn(vocabulary_size, width, generator=draw))
        bias = torch.randn(vocabulary_size, generator=draw)
        bias[END] += 1  # so that most sentences end
        self.bias = nn.Parameter(bias)

    def encode(
        self, source: Tensor, source_mask: Tensor, *, record: Collection[str] = (), reweight: object = None
    ) -> TinyState:
        memory = self.source[source].masked_fill(~source_mask[..., None], 0)
        mean = memory.sum(1, keepdim=True) / source_mask.sum(1)[:, None, None]
        return TinyState(memory, source_mask, mean)

    def _advance(self, tokens: Tensor, state: TinyState) -> tuple[Tensor, AttentionMaps, TinyState]:
        heads = [part @ memory.mT for part, memory in zip(state.hidden.chunk(2, -1), state.memory.chunk(2, -1), strict=True)]
        scores = torch.stack(heads, 1).masked_fill(~state.mask[:, None, None], -torch.inf)
        by_head, weights = scores.softmax(-1), scores.sum(1).softmax(-1)
        hidden = torch.tanh(self.target[tokens] + state.hidden @ self.mix + weights @ state.memory)
        return hidden, {"cross": weights, "cross.heads": by_head}, replace(state, hidden=hidden)

    def step(
        self, tokens: Tensor, state: TinyState, *, record: Collection[str] = (), reweight: object = None
    ) -> tuple[Tensor, AttentionMaps, TinyState]:
        hidden, maps, state = self._advance(tokens, state)
        return self.logits(hidden), {site: maps[site] for site in record}, state

    def decode(
        self,
        target_in: Tensor,
        state: TinyState,
        *,
        use_gold: Tensor | None = None,
        record: Collection[str] = (),
        reweight: object = None,
    ) -> tuple[Tensor, AttentionMaps]:
        steps = []
        for tokens in target_in.split(1, 1):
            hidden, maps, state = self._advance(tokens, state)
            steps.append((hidden, maps))
        attention = {site: torch.cat([maps[site] for _, maps in steps], -2) for site in record}
        return torch.cat([hidden for hidden, _ in steps], 1), attention

    def logits(self, features: Tensor) -> Tensor:
        return 2 * (features @ self.output.T + self.bias)

    def output_weight(self) -> tuple[Tensor, Tensor]:
        return 2 * self.output, 2 * self.bias


@dataclass(frozen=True)
class TableState:
    prefixes: list[list[tuple[int, ...]]]
    selected: list[int]

    def select(self, beam: Tensor) -> TableState:
        self.selected.append(beam.shape[1])
        return TableState([[row[i] for i in new] for row, new in zip(self.prefixes, beam.tolist(), strict=True)], self.selected)

    def keep(self, rows: Tensor) -> TableState:
        return TableState([self.prefixes[row] for row in rows.tolist()], self.selected)


class TableTranslator(Seq2Seq):
    """Scores the next word by a function of the words so far, and counts what it is asked for."""

    sites = ()
    feeds_back = False

    def __init__(self, rule: Callable[[tuple[int, ...]], list[float]]) -> None:
        super().__init__()
        self.rule, self.batches, self.selected = rule, [], []

    def encode(
        self, source: Tensor, source_mask: Tensor, *, record: Collection[str] = (), reweight: object = None
    ) -> TableState:
        return TableState([[()] for _ in range(len(source))], self.selected)

    def step(
        self, tokens: Tensor, state: TableState, *, record: Collection[str] = (), reweight: object = None
    ) -> tuple[Tensor, AttentionMaps, TableState]:
        self.batches.append(tuple(tokens.shape))
        prefixes = [
            [(*prefix, word) for prefix, word in zip(row, words, strict=True)]
            for row, words in zip(state.prefixes, tokens.tolist(), strict=True)
        ]
        logits = torch.tensor([[self.rule(prefix[1:]) for prefix in row] for row in prefixes])
        return logits, {}, TableState(prefixes, state.selected)

    def decode(self, target_in, state, *, use_gold=None, record=(), reweight=None):
        raise NotImplementedError

    def logits(self, features):
        raise NotImplementedError

    def output_weight(self):
        raise NotImplementedError


@pytest.fixture
def tiny() -> type[TinyTranslator]:
    return TinyTranslator


@pytest.fixture
def table() -> type[TableTranslator]:
    return TableTranslator


@pytest.fixture
def sources() -> tuple[Tensor, Tensor]:
    """Seven sources of different lengths, padded."""
    draw = torch.Generator().manual_seed(5)
    lengths = torch.tensor([3, 5, 1, 7, 2, 7, 4])
    mask = torch.arange(7) < lengths[:, None]
    return torch.randint(4, 11, (7, 7), generator=draw) * mask, mask
