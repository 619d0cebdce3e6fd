"""Attention within exported graphs of Transformers.

The time that a small model's graph takes depends on its number of operations. So `SelfHeads` and `CrossHeads` compute
multi-head attention with as few operations as possible. One product gives query, key and value. The residual stream is stored
as a matrix, so that a linear map and its bias are a single operation. The keys of all layers are one tensor, and so are the
values. `SelfByContract` and `CrossByContract` have the same arguments and results, but call the code of any other mechanism.

Letters: B sentences, N hypotheses of a sentence, R rows (B sentences, or B·N hypotheses), T words, S source, L layers, H heads,
G heads of keys and values, E width of a head, D width of the residual stream.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.base import Attention, HeadMaps
from regard.attention.capabilities import Reweight, is_exactly
from regard.attention.head_memory import HeadMemory
from regard.attention.multihead import MultiHead
from regard.attention.rotary import Rotary
from regard.export.memory import memory_unpacker

Attended = tuple[Tensor, Tensor]
"""The context, and the weights of each head."""


def self_maps(attention: Attention) -> HeadMaps | None:
    """Return the linear maps of plain multi-head attention whose positions, if any, are `Rotary`; None for other mechanisms."""
    maps = attention.head_maps()
    return maps if maps is None or maps.positions is None or is_exactly(maps.positions, Rotary) else None


def join_maps(linears: Sequence[nn.Linear], scales: Sequence[float] = ()) -> nn.Linear:
    """Return one linear map whose output joins the outputs of several, each multiplied by its scale (1 by default)."""
    scales = scales or [1.0] * len(linears)
    weight = torch.cat([linear.weight * scale for linear, scale in zip(linears, scales, strict=True)])
    biases = [
        linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias * scale
        for linear, scale in zip(linears, scales, strict=True)
    ]
    made = nn.Linear(weight.shape[1], weight.shape[0])
    made.weight, made.bias = nn.Parameter(weight.detach()), nn.Parameter(torch.cat(biases).detach())
    return made


class Turn(nn.Module):
    """`Rotary` for heads: magnitude · (x ⊙ cos + swapped(x) ⊙ ±sin).

    `swapped` exchanges the two features of each pair; the sign is − for the first feature and + for the second.

    Args:
        positions: The rotary positions whose formula is used.
        head_size: E, width of a head.
    """

    rate: Tensor
    sign: Tensor
    swap: Tensor

    def __init__(self, positions: Rotary, head_size: int) -> None:
        super().__init__()
        rate, sign, index = (
            positions.frequencies(head_size, torch.zeros(())),
            torch.tensor([-1.0, 1.0]),
            torch.arange(head_size),
        )
        pairs = index.view(2, -1).T if positions.layout == "half" else index.view(-1, 2)
        order = pairs.flatten().argsort()  # place of each feature in the list of pairs
        self.register_buffer("rate", rate.repeat_interleave(2)[order])
        self.register_buffer("sign", sign.repeat(head_size // 2)[order])
        self.register_buffer("swap", pairs.flip(1).flatten()[order])
        self.magnitude = positions.magnitude

    def forward(self, heads: Tensor, start: int) -> Tensor:
        """Rotate heads (R,H,T,E), whose first word has the position `start`."""
        position = torch.arange(start, start + heads.shape[2], dtype=torch.float32)
        angle = position[:, None] * self.rate
        turned = heads * angle.cos() + heads.index_select(-1, self.swap) * (angle.sin() * self.sign)
        return turned if self.magnitude == 1 else turned * self.magnitude


class SelfHeads(nn.Module):
    """Multi-head self-attention.

    Args:
        attention: The attention.
        maps: The linear maps of the attention.
    """

    def __init__(self, attention: MultiHead, maps: HeadMaps) -> None:
        super().__init__()
        self.num_heads, self.head_size = maps.num_heads, attention.head_size
        self.read = join_maps((maps.query, maps.key, maps.value), (self.head_size**-0.5, 1, 1))
        self.output = maps.output
        self.turn = None if maps.positions is None else Turn(cast(Rotary, maps.positions), self.head_size)

    def forward(self, x: Tensor, mask: Tensor) -> Attended:
        """Attend from each word of a source to all words of the same source.

        Args:
            x: Inputs of all words, (B·S,D).
            mask: (B,S), True at words.

        Returns:
            The context (B·S,D), and the weights (B,H,S,S).
        """
        query, key, value = self._heads(self.read(x).view(*mask.shape, -1, self.head_size).transpose(1, 2), 0)
        weights = (query @ key.transpose(2, 3) + hide(mask)[:, None, None]).softmax(-1)
        return self.output((weights @ value).transpose(1, 2).reshape(x.shape)), weights

    def step(
        self, x: Tensor, key: Tensor, value: Tensor, reweight: Reweight | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Attend from one new word of each hypothesis to this word and the earlier ones.

        Args:
            x: Inputs of the new words, (R,D).
            key: Keys of the earlier words, (R,H,T,E).
            value: Values of the earlier words, with the same shape.
            reweight: Function that maps the weights (R,H,1,T+1) to weights that replace them; None to keep the weights.

        Returns:
            The context (R,D), the weights (R,H,1,T+1), and keys and values including those of the new word.
        """
        rows = self.read(x).view(-1, 3 * self.num_heads, 1, self.head_size)
        query, new_key, new_value = self._heads(rows, key.shape[2])
        key, value = torch.cat((key, new_key), 2), torch.cat((value, new_value), 2)
        weights = (query @ key.transpose(2, 3)).softmax(-1)
        weights = weights if reweight is None else reweight(weights, torch.ones((), dtype=torch.bool))
        return self.output((weights @ value).view(x.shape)), weights, key, value

    def _heads(self, read: Tensor, start: int) -> Sequence[Tensor]:
        """Split `read` (R,3·H,T,E) into query, key and value (R,H,T,E); rotate query and key if positions are rotary."""
        if self.turn is None:
            return read.split(self.num_heads, 1)
        both, value = read.split((2 * self.num_heads, self.num_heads), 1)
        return *self.turn(both, start).split(self.num_heads, 1), value


class SelfByContract(nn.Module):
    """Self-attention with the code of any mechanism; arguments and results are those of `SelfHeads`.

    Args:
        attention: The attention.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor, mask: Tensor) -> Attended:
        """Attend within each source; see `SelfHeads.forward`."""
        read = x.view(*mask.shape, -1)
        out = self.attention(read, read, key_mask=mask, need_weights=True)
        return out.context.reshape(x.shape), _with_heads(out.weights)

    def step(
        self, x: Tensor, key: Tensor, value: Tensor, reweight: Reweight | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Attend from one new word of each hypothesis; see `SelfHeads.step`."""
        rows, past = x[:, None], HeadMemory(key, value)
        out, after = self.attention.attend(rows, self.attention.prepare(rows), past, reweight=reweight, need_weights=True)
        return out.context[:, 0], cast(Tensor, out.weights), after.key, after.value


class CrossHeads(nn.Module):
    """Multi-head attention to the source.

    Args:
        maps: The linear maps of the attention.
    """

    def __init__(self, maps: HeadMaps) -> None:
        super().__init__()
        self.num_heads, self.head_size = maps.num_heads, maps.query.out_features // maps.num_heads
        self.query = join_maps([maps.query], [self.head_size**-0.5])
        self.output = maps.output

    def forward(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor, reweight: Reweight | None) -> Attended:
        """Attend from each hypothesis to the source.

        Args:
            x: Inputs of the hypotheses, (B,N,D).
            key: Keys of the source, (B,H,S,E).
            value: Values of the source, (B,H,S,E).
            mask: (B,S), True at words of the source.
            reweight: Function that maps the weights (B,H,N,S) to weights that replace them; None to keep the weights.

        Returns:
            The context (B·N,D), and the weights (B,H,N,S).
        """
        query = self.query(x.flatten(0, 1)).view(*x.shape[:2], self.num_heads, self.head_size).transpose(1, 2)
        weights = (query @ key.transpose(2, 3) + hide(mask)[:, None, None]).softmax(-1)
        weights = weights if reweight is None else reweight(weights, mask)
        return self.output((weights @ value).transpose(1, 2).reshape(-1, x.shape[2])), weights


class CrossByContract(nn.Module):
    """Attention to the source with the code of any mechanism that has no state; see `CrossHeads`.

    Args:
        attention: The attention.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.unpack_memory = memory_unpacker(attention)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor, reweight: Reweight | None) -> Attended:
        """Attend to the source; see `CrossHeads.forward`. For a mechanism without heads, keys and values are (B,S,D)."""

        def change(weights: Tensor, mask: Tensor) -> Tensor:
            if reweight is None or weights.ndim == 4:
                return weights if reweight is None else reweight(weights, mask)
            return reweight(weights[:, None], mask)[:, 0]

        out, _ = self.attention.attend(x, self.unpack_memory(key, value, mask), reweight=change, need_weights=True)
        return out.context.flatten(0, 1), _with_heads(cast(Tensor, out.weights))


def _with_heads(weights: Tensor) -> Tensor:
    """Return weights (B,Q,K) as (B,1,Q,K); weights with heads stay unchanged."""
    return weights if weights.ndim == 4 else weights[:, None]


def within(attention: Attention) -> SelfHeads | SelfByContract:
    """Return the module with which a graph computes self-attention."""
    maps = self_maps(attention)
    return SelfByContract(attention) if maps is None else SelfHeads(cast(MultiHead, attention), maps)


def across(attention: Attention) -> CrossHeads | CrossByContract:
    """Return the module with which a graph computes attention to the source."""
    maps = cross_maps(attention)
    return CrossByContract(attention) if maps is None else CrossHeads(maps)


def cross_maps(attention: Attention) -> HeadMaps | None:
    """Return the linear maps of attention to a source; None if it is not plain multi-head attention, or has positions."""
    maps = attention.head_maps()
    return maps if maps is None or maps.positions is None else None


def hide(mask: Tensor) -> Tensor:
    """Return numbers to add to the scores: 0 where the mask is True, otherwise the lowest number, which makes the weight zero.

    The lowest number is finite, so that a row with nothing to attend to has no NaN.
    """
    return torch.zeros((), dtype=torch.float32).where(mask, torch.finfo(torch.float32).min)
