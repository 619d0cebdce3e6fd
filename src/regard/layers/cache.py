"""The words that a decoder has read so far: what its self-attention keeps from step to step.

`PooledCache` serves plain multi-head attention in a search. The hypotheses of a sentence share one pool of keys and values, and
a step adds those of its N words. Each hypothesis has a mask that hides the words of the others. So no key or value moves when a
search reorders its hypotheses, only the masks do. `RowCache` serves every other mechanism, and gradients: each hypothesis has a
row of its own, with the state that `Attention.attend` returns.

Letters: L layers, B sentences, N hypotheses of a sentence, t words so far, K words in the pool, C ≥ K places of the pool, H
heads, G heads of keys and values, E width of a head, D width of the decoder.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.capabilities import Reweight, is_exactly, reweighted
from regard.attention.heads.attend import attend
from regard.attention.heads.multihead import MultiHead
from regard.attention.heads.rotary import Rotary
from regard.attention.normalizers.softmax import Softmax
from regard.reweight import per_hypothesis

# Minimum number of words for which a pool gets free places.
_SPARE = 8


class DecoderCache(ABC):
    """The words so far of B sentences with N hypotheses each, for all layers of a decoder."""

    length: int
    """Number of words of each hypothesis, t."""

    @abstractmethod
    def select(self, beam: Int[Tensor, "B N"]) -> "DecoderCache":
        """Return the cache in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""

    @abstractmethod
    def keep(self, rows: Int[Tensor, " M"]) -> "DecoderCache":
        """Return the cache of the sentences with the indices `rows` only, in this order."""

    @abstractmethod
    def extended(self, count: int) -> "DecoderCache":
        """Return a cache with one more word of each of N = `count` hypotheses, which `attend` fills in for each layer."""

    @abstractmethod
    def attend(
        self,
        layer: int,
        attention: MultiHead,
        read: Float[Tensor, "B N D"],
        *,
        reweight: Reweight | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N t"] | None]:
        """Attend from the new word of each hypothesis to this word and to its earlier ones.

        Args:
            layer: Number of the layer, from 0.
            attention: The causal self-attention of the layer.
            read: Features of the new words.
            reweight: Function that replaces the weights (B,H,N,t).
            need_weights: Whether to return the weights; if False, the second result may be None.
        """


@dataclass(frozen=True)
class PooledCache(DecoderCache):
    """Keys and values of the words of all hypotheses of a sentence, in one pool."""

    pool: Float[Tensor, "L 2 B G C E"]
    """Keys and values, with free places at the end."""
    length: int
    size: int
    """K, number of places that this cache uses."""
    used: list[int]
    """Number of places in use, in a list of length 1 that all caches of this pool share."""
    mask: Float[Tensor, "B 1 N K"] | None = None
    """0 at the words of the hypothesis itself, −∞ elsewhere; None if each sentence has always had one hypothesis."""
    own: Float[Tensor, "M M"] | None = None
    """The mask of the new words of the last step with several hypotheses: 0 for the word of the hypothesis itself."""
    first: Int[Tensor, "B 1"] | None = None
    """The index of each sentence's first hypothesis among all hypotheses; None if it has to be computed."""
    views: Sequence[tuple[Tensor, Tensor, Tensor]] = ()
    """For each layer, the places of the new words (2,B,G,N,E), all keys and all values, both (B,G,K,E)."""

    @cached_property
    def places(self) -> Int[Tensor, "B N t"]:
        """Places of the words of each hypothesis, in the order of the words."""
        if self.mask is None:
            return torch.arange(self.size, device=self.pool.device).expand(self.pool.shape[2], 1, -1)
        # A word's place is after those of earlier words, so a stable sort of the mask gives the places in order.
        return (self.mask[:, 0] < 0).byte().argsort(dim=-1, stable=True)[..., : self.length]

    def select(self, beam: Int[Tensor, "B N"]) -> "PooledCache":
        mask, first, (rows, count) = self.mask, self.first, beam.shape
        if mask is not None:
            before = mask.shape[2]
            first = torch.arange(0, rows * before, before, device=beam.device)[:, None] if first is None else first
            # Whole rows are copied, because `gather` would look up each number of a row by itself.
            mask = mask.flatten(0, 2).index_select(0, (first + beam).flatten()).view(rows, 1, count, self.size)
            first = first if count == before else None
        elif count > 1:  # all hypotheses continue the only one
            mask = self.pool.new_zeros(rows, 1, count, self.size)
        return PooledCache(self.pool, self.length, self.size, self.used, mask, self.own, first)

    def keep(self, rows: Int[Tensor, " M"]) -> "PooledCache":
        """Return the cache of some sentences; free places are not copied."""
        pool = self.pool.new_empty(*self.pool.shape[:2], len(rows), *self.pool.shape[3:])
        torch.index_select(self.pool[..., : self.size, :], 2, rows, out=pool[..., : self.size, :])
        mask = None if self.mask is None else self.mask[rows]
        return PooledCache(pool, self.length, self.size, [self.size], mask, self.own)

    def extended(self, count: int) -> "PooledCache":
        # The first of several caches that continue this one uses the free places. The next ones find them taken, and copy the
        # pool first. So no cache changes what another one reads.
        size, pool, used = self.size + count, self.pool, self.used
        if size > pool.shape[4] or used[0] > self.size:
            pool = pool.new_empty(*pool.shape[:4], size + max(size, _SPARE * count), pool.shape[5])
            pool[..., : self.size, :] = self.pool[..., : self.size, :]
            used = [size]
        used[0] = size
        mask, own, rows = self.mask, self.own, pool.shape[2]
        if mask is not None or count > 1:
            # As numbers, because the kernel of each layer would convert a boolean mask first. The old part is kept, not built
            # again from the places: with one sentence, the time of a step is proportional to its number of operations.
            if own is None or len(own) != count:
                own = pool.new_full((count, count), -torch.inf).fill_diagonal_(0.0)
            old = pool.new_zeros(rows, 1, count, self.size) if mask is None else mask
            mask = torch.cat((old, own.expand(rows, 1, -1, -1)), 3)
        # Views of all layers at once, for the same reason.
        parts = pool[..., self.size : size, :], pool[:, 0, ..., :size, :], pool[:, 1, ..., :size, :]
        views = list(zip(*(part.unbind(0) for part in parts), strict=True))
        return PooledCache(pool, self.length + 1, size, used, mask, own, self.first, views)

    def attend(
        self,
        layer: int,
        attention: MultiHead,
        read: Float[Tensor, "B N D"],
        *,
        reweight: Reweight | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N t"] | None]:
        """Write the keys and values of the new words into the pool, and attend to the words of each hypothesis."""
        num_heads, groups, width = attention.num_heads, attention.num_kv_heads, attention.head_size
        if attention.joint_projection is not None:
            joint = attention.joint_projection(read)
        else:
            maps = attention.query_projection, attention.key_projection, attention.value_projection
            joint = torch.cat([linear(read) for linear in maps], -1)
        heads = joint.view(*read.shape[:2], num_heads + 2 * groups, width)
        if attention.positions is not None:
            attention.positions.rotate_one(heads[:, :, : num_heads + groups], self.length - 1)
        places, keys, values = self.views[layer]
        places.copy_(heads[:, :, num_heads:].view(*read.shape[:2], 2, groups, width).permute(2, 0, 3, 1, 4))

        def change(weights: Tensor) -> Tensor:
            found = reweighted(self._own(weights), None, reweight)
            return torch.zeros_like(weights).scatter(3, self.places[:, None].expand_as(found), found)

        context, weights = attend(
            heads[:, :, :num_heads].transpose(1, 2).to(keys.dtype),
            keys,
            values,
            self.mask,
            scale=attention.scale,
            change_weights=None if reweight is None else change,
            need_weights=need_weights,
        )
        return attention.output(context, read), None if weights is None else self._own(weights)

    def _own(self, weights: Float[Tensor, "B H N K"]) -> Float[Tensor, "B H N t"]:
        """Return the weights of the words of each hypothesis."""
        return weights.gather(3, self.places[:, None].expand(-1, weights.shape[1], -1, -1))


@dataclass(frozen=True)
class RowCache(DecoderCache):
    """The states of a mechanism, with a row for each hypothesis."""

    states: list[Any]
    """The state of each layer, with B·N rows; None before the first word."""
    count: int
    """Number of hypotheses N."""
    length: int

    def select(self, beam: Int[Tensor, "B N"]) -> "RowCache":
        first = torch.arange(len(beam), device=beam.device)[:, None] * self.count
        return self._moved((first + beam).flatten(), beam.shape[1])

    def keep(self, rows: Int[Tensor, " M"]) -> "RowCache":
        return self._moved((rows[:, None] * self.count + torch.arange(self.count, device=rows.device)).flatten(), self.count)

    def _moved(self, rows: Tensor, count: int) -> "RowCache":
        return RowCache([state.select(rows) for state in self.states], count, self.length)

    def extended(self, count: int) -> "RowCache":
        """Return a copy of the list of states, in which `attend` replaces them one by one."""
        return RowCache(list(self.states), count, self.length + 1)

    def attend(
        self,
        layer: int,
        attention: MultiHead,
        read: Float[Tensor, "B N D"],
        *,
        reweight: Reweight | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N t"] | None]:
        """Call the mechanism with its state, which also holds the new words afterwards."""
        rows = read.flatten(0, 1)[:, None]
        out, self.states[layer] = attention.attend(
            rows,
            attention.prepare(rows),
            self.states[layer],
            reweight=per_hypothesis(reweight, read.shape[0]),
            need_weights=need_weights,
        )
        weights = None if out.weights is None else out.weights[:, :, 0].unflatten(0, read.shape[:2]).transpose(1, 2)
        return out.context.view(read.shape), weights


def begin_cache(attentions: Sequence[MultiHead], x: Float[Tensor, "B N D"]) -> DecoderCache:
    """Return the cache before the first word, in the form that serves these self-attentions, one for each layer.

    Args:
        attentions: The self-attention of each layer.
        x: Features in the type and on the device of keys and values.
    """
    shapes = {(one.num_kv_heads, one.head_size) for one in attentions}
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or len(shapes) > 1 or not all(map(_is_plain, attentions)):
        return RowCache([None] * len(attentions), x.shape[1], 0)
    [(groups, width)] = shapes
    pool = x.new_empty(len(attentions), 2, len(x), groups, 0, width)
    return PooledCache(pool, 0, 0, [0])


def _is_plain(attention: MultiHead) -> bool:
    """Return whether the weights are a softmax of products of queries and keys, which may be rotated, and nothing more."""
    plain = is_exactly(attention, MultiHead) and is_exactly(attention.normalizer, Softmax) and not attention.modifies
    return plain and attention.window is None and not attention.training and type(attention.positions) in (type(None), Rotary)
