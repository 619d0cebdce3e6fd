"""Multi-head attention: several heads in parallel, each with its own projections of queries, keys and values.

    head_h = softmax(q_h k_hᵀ / √E) v_h,    context = W_o [head_1; …; head_H] + b_o,    E = D/H

In code: `split_heads` of the projections, `head_scores`, a softmax, `head_product` with the values, and `join_heads`.

In a causal decoder, the state is the key–value cache. Steps like this one give the same result as one call over all tokens:

    memory = attention.prepare(x)                            # this step's tokens, one or more
    out, state = attention.attend(x, memory, state)          # state: None at first, then all keys and values so far
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_dropout, check_flag, check_heads, check_instance, check_scale, check_window
from regard.attention.base import Attention, AttentionOutput, HeadMaps, Memory
from regard.attention.capabilities import Reweight, capability, is_plain, is_unchanged, reweighted
from regard.attention.conversion import build_from_torch, build_torch, rename_from_torch
from regard.attention.head_memory import HeadMemory
from regard.attention.kernels.heads import heads_attention, is_heads_fast, is_products_fast
from regard.attention.kernels.softmax import softmax
from regard.attention.masks import add_bias, causal_mask, combine_masks, fused_mask, window_mask, zero_masked, zero_where_not
from regard.attention.modifiers import HeadModifier, HeadSizes, Modifiers
from regard.attention.normalizers import Softmax, build_normalizer, is_softmax, keeps_order
from regard.attention.positions import RelativePositions
from regard.errors import RequestError, ShapeError
from regard.shapes import check_shape


def split_heads(x: Float[Tensor, "B T HE"], num_heads: int) -> Float[Tensor, "B H T E"]:
    """Return the features with an axis for the heads: (B,T,H·E) becomes (B,H,T,E)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(heads: Float[Tensor, "B H T E"]) -> Float[Tensor, "B T HE"]:
    """Return [head_1; …; head_H], the features of all heads on one axis: (B,H,T,E) becomes (B,T,H·E)."""
    return heads.transpose(1, 2).flatten(2)


def head_product(heads: Float[Tensor, "B H Q X"], shared: Float[Tensor, "B G X Y"]) -> Float[Tensor, "B H Q Y"]:
    """Return the product of each head's matrix with the matrix of its group; H/G neighbouring heads form a group."""
    (_, num_heads, queries, _), groups = heads.shape, shared.shape[1]
    if groups == num_heads:
        return heads @ shared
    rows = heads.unflatten(1, (groups, -1)).flatten(2, 3)  # all queries that use the same keys, in one product
    return (rows @ shared).unflatten(2, (num_heads // groups, queries)).flatten(1, 2)


def head_scores(query: Float[Tensor, "B H Q E"], key: Float[Tensor, "B G K E"], scale: float | None = None) -> Tensor:
    """Return q_h k_hᵀ / √E, or scale · q_h k_hᵀ, for each head h (B,H,Q,K)."""
    # Otherwise, the product would copy non-contiguous keys one number at a time, which takes up to 2.6 times as long.
    key = key.contiguous()
    return head_product(query / math.sqrt(query.shape[-1]) if scale is None else query * scale, key.transpose(2, 3))


class MultiHead(Attention):
    """head_h = softmax(q_h k_hᵀ / √(D/H)) v_h, context = W_o [head_1; …; head_H] + b_o.

    q_h, k_h and v_h are D/H features of W_q query + b_q, W_k key + b_k and W_v value + b_v. Context (B,Q,D), weights (B,H,Q,K).
    A query that may not attend to any key gets a zero context, without b_o.

    With `num_kv_heads` = G < H, H/G neighbouring heads share keys and values (grouped queries; G = 1: multi-query).
    With `causal`, `window` or `positions`, query i of Q has the position i + K − Q, as in `masks.causal_mask`; K includes the
    keys of the state. If no query attends to later positions, the mechanism is `stateful`: `attend` appends the memory to the
    keys of its state and returns the result as the next state. With a window, the state keeps only the keys that later
    queries can see. An `attn_mask` must cover the keys of the state too. `query_positions` and `key_positions` replace the
    positions that the module `positions` uses, for example for documents that are packed into one row; `causal` and `window`
    still use the order of the queries and keys in the call.

    The state dict of an `nn.MultiheadAttention`, here `theirs`, loads without conversion:
    `MultiHead(512, 8).load_state_dict(theirs.state_dict())`.

    Reference: Vaswani et al. 2017, section 3.2.2; Shazeer 2019 (multi-query); Ainslie et al. 2023 (grouped queries); Beltagy,
    Peters, Cohan 2020, section 3.1 (sliding window). Differs from the paper: the maps have biases, unless `bias` is False.

    Args:
        size: D, width of the queries, a multiple of `num_heads` unless `head_size` is given.
        num_heads: H, ≥ 1.
        num_kv_heads: G, number of heads of the keys and values, a divisor of H; None for H.
        key_size: Dk, width of the keys, ≥ 1; None for D.
        value_size: Dv, width of the values, ≥ 1; None for Dk, because without a value the keys are the values.
        head_size: E, width of a head, ≥ 1; None for D/H.
        output_size: Width of the context, ≥ 1; None for D.
        bias: Whether the four maps have biases.
        scale: Factor of the scores, > 0; None for 1/√E.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1.
        causal: Whether a query may attend only to its own position and to earlier ones.
        window: Numbers of positions before and after a query's own that the query may attend to, such as (3, 0); None for no
            limit. If `causal`, the second number is ignored.
        positions: A module `Rotary`, `ALiBi` or `RelativeBias`; None for no positions.
        normalizer: Module that computes weights from (scores, mask), or its name, such as "sparsemax"; None for a
            softmax. Fused kernels support a softmax only.
        modifiers: A list of modules `QKNorm`, `TalkingHeads`, `OutputGate`, `AddedKeys` or your own `HeadModifier`, at most one
            of each class.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `num_heads` does not divide `size` and `head_size` is None,
            `num_kv_heads` does not divide `num_heads`, or an option has a wrong type, is out of its range, or does not fit the
            sizes.

    Example:
        >>> attention = MultiHead(512, 8, causal=True)
        >>> context, weights = attention(torch.randn(2, 9, 512))
        >>> context.shape, weights.shape
        (torch.Size([2, 9, 512]), torch.Size([2, 8, 9, 9]))
    """

    def __init__(
        self,
        size: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        key_size: int | None = None,
        value_size: int | None = None,
        head_size: int | None = None,
        output_size: int | None = None,
        bias: bool = True,
        scale: float | None = None,
        dropout: float = 0.0,
        causal: bool = False,
        window: tuple[int, int] | None = None,
        positions: RelativePositions | None = None,
        normalizer: nn.Module | str | None = None,
        modifiers: Sequence[HeadModifier] = (),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        groups = num_heads if num_kv_heads is None else num_kv_heads
        self.size = self.query_size = size
        self.key_size = size if key_size is None else key_size
        self.value_size = self.key_size if value_size is None else value_size
        self.output_size = size if output_size is None else output_size
        widths = {"key_size": self.key_size, "value_size": self.value_size, "output_size": self.output_size}
        check_heads(size, num_heads, groups, head_size, **widths)
        check_dropout("MultiHead", dropout)
        self.scale = None if scale is None else check_scale("MultiHead", scale, default=1.0)
        check_window("MultiHead", window)
        for name, flag in (("bias", bias), ("causal", causal)):
            check_flag("MultiHead", name, flag)
        self.num_heads, self.num_kv_heads = num_heads, groups
        self.head_size = size // num_heads if head_size is None else head_size
        self.dropout, self.causal, self.window, self.positions = dropout, causal, window, positions
        if positions is not None:
            check_instance("MultiHead", "positions", positions, RelativePositions, "Rotary()")
            positions.check(num_heads, self.head_size)
        self.normalizer = build_normalizer("MultiHead", normalizer)
        self.modifiers = Modifiers.of(
            modifiers,
            HeadSizes(num_heads, groups, self.head_size, size, rotates=positions is not None and positions.rotates),
        )
        self.normalized = bool(getattr(self.normalizer, "normalized", False)) and all(each.normalized for each in modifiers)
        # These two flags depend on the arguments, so the class attributes that `Attention` declares are replaced here.
        self.permutation_equivariant = not (causal or window or positions) and keeps_order(self.normalizer)
        self.stateful = causal or (window is not None and window[1] == 0)
        build_linear = partial(nn.Linear, bias=bias, device=device, dtype=dtype)
        self.query_projection = build_linear(size, num_heads * self.head_size)
        self.key_projection = build_linear(self.key_size, groups * self.head_size)
        self.value_projection = build_linear(self.value_size, groups * self.head_size)
        self.output_projection = build_linear(num_heads * self.head_size, self.output_size)
        for linear in (self.query_projection, self.key_projection, self.value_projection, self.output_projection):
            nn.init.xavier_uniform_(linear.weight)
            if bias:
                nn.init.zeros_(linear.bias)
        self.register_load_state_dict_pre_hook(rename_from_torch)

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
        key_positions: Int[Tensor, "... K"] | None = None,
    ) -> HeadMemory:
        """Project keys and values once; see `Attention.prepare`.

        Args:
            key: The keys.
            value: The values; None if the keys are the values.
            key_mask: True where a key exists; None if all exist.
            key_positions: Positions of the keys, (K,) or (B,K), for the module `positions` of the constructor; None for
                consecutive positions.
        """
        value = key if value is None else value
        sizes = check_shape("key", key, f"B K {self.key_size}")
        check_shape("value", value, f"B K {self.value_size}", sizes)
        same = value is key
        key = zero_masked(key, key_mask)
        projected = self.key_projection(key), self.value_projection(key if same else zero_masked(value, key_mask))
        heads, values = (split_heads(x, self.num_kv_heads) for x in projected)
        heads = self.modifiers.apply_to("key", heads)
        if key_positions is not None:
            key_positions = self._positions("key_positions", key_positions, sizes["B"], sizes["K"])
        return HeadMemory(heads, values, key_mask, key_positions)

    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: HeadMemory | None = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        query_positions: Int[Tensor, "... Q"] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, HeadMemory | None]:
        """Attend with each query to the keys of the state (if given) and of `memory`; see `Attention.attend` and the class.

        `query_positions`, (Q,) or (B,Q), are the positions of the queries. They must be given if `prepare` got
        `key_positions`, and only then. The state holds the keys and values of earlier calls.
        """
        assert isinstance(memory, HeadMemory)
        if state is not None and not self.stateful:
            raise RequestError(
                "MultiHead.attend got a state, but only an attention that never looks ahead keeps the keys of earlier queries; "
                "build it with causal=True or window=(n, 0), or leave the state out"
            )
        sizes = check_shape("query", query, f"B Q {self.query_size}", {"B": memory.key.shape[0]})
        memory, state = self._join(memory, state)
        queries, keys = sizes["Q"], memory.key.shape[2]
        heads, bias = split_heads(self.query_projection(query), self.num_heads), None
        heads = self.modifiers.apply_to("query", heads)
        if (query_positions is None) != (memory.positions is None):
            have, lack = ("key", "query") if query_positions is None else ("query", "key")
            raise RequestError(f"MultiHead got {have}_positions without {lack}_positions; give both or none")
        if query_positions is not None and memory.positions is not None and self.positions is not None:
            query_positions = self._positions("query_positions", query_positions, sizes["B"], queries)
            heads = self.positions.rotate_at(heads, query_positions)
            bias = self.positions.bias_at(query_positions, memory.positions, heads)
        elif self.positions is not None:
            heads = self.positions.rotate(heads, keys - queries)
            bias = self.positions.bias(queries, keys, heads)
        given = combine_masks(
            memory.key_mask, attn_mask, score_bias, batch=sizes["B"], queries=queries, keys=keys, heads=self.num_heads
        )
        if score_bias is not None:
            bias = add_bias(heads.new_zeros(()) if bias is None else bias, score_bias, self.num_heads)
        if given is None and keys == 0:
            given = torch.ones(queries, 0, dtype=torch.bool, device=query.device)  # no key to attend to
        all_keys, all_values, added = self.modifiers.join(memory.key, memory.value)
        memory = HeadMemory(all_keys, all_values)
        if added and bias is not None:
            bias = nn.functional.pad(bias, (0, added))
        if need_weights or reweight is not None or not is_softmax(self.normalizer) or self.modifiers.changes_weights:
            mask = self._mask(given, queries, keys, query.device, added)
            context, weights = self._plain(heads, memory, bias, mask, reweight, keys)
            weights = weights[..., :keys]
        elif is_products_fast(heads, keys):
            mask = self._mask(given, queries, keys, query.device, added)
            context, weights = self._products(heads, memory, bias, mask), None
        else:
            # PyTorch's causal form aligns the first query with the first key, which is correct here only if Q = K.
            simple = self.causal and self.window is None and given is None and bias is None and queries == keys + added
            mask = None if simple else self._mask(given, queries, keys, query.device, added)
            context, weights = self._fused(heads, memory, bias, mask, causal=simple), None
        output = self.output_projection(self.modifiers.apply_to("output", join_heads(context), query))
        if mask is not None and (given is not None or queries > keys):
            output = zero_where_not(mask, output)
        return AttentionOutput(output, weights if need_weights else None), state

    @capability
    def head_maps(self) -> HeadMaps | None:
        """Return the linear maps if a call computes exactly the formula of `HeadMaps`, else None.

        The result is None if heads share keys, a window hides keys, positions add a bias, the scale, the total width of the
        heads or the output size is not the default, there are modifiers, the normalizer is not a plain softmax, a subclass
        overrides a method, or there are hooks around `forward`, or a map is not plain (see `capabilities.is_plain`).
        """
        linears = (self.query_projection, self.key_projection, self.value_projection, self.output_projection)
        if not all(map(is_plain, linears)) or not is_unchanged(self.normalizer, Softmax):
            return None
        biased = self.positions is not None and self.positions.bias(1, 1, self.query_projection.weight) is not None
        other = self.num_kv_heads < self.num_heads or self.window is not None or self.scale is not None or len(self.modifiers)
        if other or biased or self.num_heads * self.head_size != self.size or self.output_size != self.size:
            return None
        return HeadMaps(*linears, self.num_heads, self.positions)

    def context_size(self, value_size: int) -> int:
        """Return the output size of the output map, which does not depend on the width of the values."""
        return self.output_size

    def _join(self, memory: HeadMemory, state: HeadMemory | None) -> tuple[HeadMemory, HeadMemory | None]:
        """Return the keys of the state followed by the new keys, all rotated to their positions, and the next state."""
        if self.window is None:
            memory = self._rotate(memory, 0 if state is None else state.key.shape[2])
            memory = memory if state is None else state.join(memory)
            return memory, memory if self.stateful else None
        # With a window, the state loses its oldest keys, so that positions change from call to call. Therefore, the state holds
        # keys that are not rotated, and each call counts their positions from 0 and rotates all of them.
        memory = memory if state is None else state.join(memory)
        return self._rotate(memory, 0), memory.last(self.window[0]) if self.stateful else None

    def _rotate(self, memory: HeadMemory, start: int) -> HeadMemory:
        if self.positions is None:
            return memory
        if memory.positions is not None:
            return replace(memory, key=self.positions.rotate_at(memory.key, memory.positions))
        return replace(memory, key=self.positions.rotate(memory.key, start))

    def _positions(self, name: str, positions: Tensor, batch: int, count: int) -> Tensor:
        """Return the given positions as (B,T); raise an error for a wrong type or shape, or if `self.positions` is None."""
        if self.positions is None:
            raise RequestError(f"MultiHead got {name}, but was built without positions; build it with positions=Rotary()")
        if positions.is_floating_point() or positions.dtype == torch.bool:
            raise ShapeError(f"{name} is {str(positions.dtype).removeprefix('torch.')}, expected whole numbers (int64)")
        if positions.ndim == 1:
            positions = positions.expand(batch, -1)
        check_shape(name, positions, "B T", {"B": batch, "T": count})
        return positions

    def _mask(self, given: Tensor | None, queries: int, keys: int, device: torch.device, added: int) -> Tensor | None:
        """Join the given mask and the mechanism's own mask, which follows from `causal` and `window`.

        The result broadcasts to (B,H,Q,K + added), where every query may attend to the added keys. It is None if there is
        neither a given mask nor an own mask.
        """
        own = self._own_mask(given, queries, keys, device)
        return nn.functional.pad(own, (0, added), value=True) if added and own is not None else own

    def _own_mask(self, given: Tensor | None, queries: int, keys: int, device: torch.device) -> Tensor | None:
        if self.window is not None:
            before, after = self.window
            own = window_mask(queries, keys, before=before, after=0 if self.causal else after, device=device)
        elif self.causal and queries > 1:
            own = causal_mask(queries, keys, device=device)
        else:
            return given
        return own if given is None else own & given

    def _plain(
        self,
        heads: Tensor,
        memory: HeadMemory,
        bias: Tensor | None,
        mask: Tensor | None,
        reweight: Reweight | None,
        keys: int,
    ) -> tuple[Tensor, Tensor]:
        """Return the context of each head, normalizer(scale · q kᵀ + bias) v, and the weights, also those of added keys."""
        if reweight is None and self._simple() and is_heads_fast(heads, memory.key, memory.value, bias):
            scale = 1 / math.sqrt(self.head_size) if self.scale is None else self.scale
            return heads_attention(heads, memory.key, memory.value, bias, mask, scale=scale)
        scores = self.modifiers.apply_to("scores", head_scores(heads, memory.key, self.scale))
        weights = self.normalizer(scores if bias is None else scores + bias, mask)
        weights = self.modifiers.apply_to("weights", weights if bias is None else weights.to(scores.dtype))
        if mask is not None and self.modifiers.changes_weights:
            weights = weights.masked_fill(~mask, 0)  # mixing heads may give weight to a key that is masked in this head
        weights = _reweighted(weights, mask, reweight, keys)
        kept = nn.functional.dropout(weights, self.dropout, self.training).to(memory.value.dtype)
        return head_product(kept, memory.value), weights

    def _simple(self) -> bool:
        """Return whether the weights are a softmax, each head has its own keys, and there is no dropout."""
        dropped = self.training and self.dropout > 0
        plain = is_softmax(self.normalizer) and not self.modifiers.changes_weights
        return plain and self.num_kv_heads == self.num_heads and not dropped

    def _fused(self, heads: Tensor, memory: HeadMemory, bias: Tensor | None, mask: Tensor | None, *, causal: bool) -> Tensor:
        """Return the context without weights, computed by PyTorch's fused kernels."""
        if bias is not None and bias.ndim == 3:
            bias = bias[None]
        return nn.functional.scaled_dot_product_attention(
            heads,
            memory.key,
            memory.value,
            attn_mask=fused_mask(mask, bias, heads.dtype),
            scale=self.scale,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
            enable_gqa=self.num_kv_heads < self.num_heads,
        )

    def _products(self, heads: Tensor, memory: HeadMemory, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        """Return the context, computed by two matrix products."""
        scores = head_scores(heads, memory.key, self.scale)
        if bias is not None:
            scores = scores + bias
        if mask is not None:
            # Adding −∞ is exact in every type and faster than filling. In rows without allowed keys, nothing is added, because
            # their weights would be NaN; the caller sets the output of these rows to zero.
            forbidden = ~mask & mask.any(-1, keepdim=True)
            scores = scores + scores.new_zeros(()).where(~forbidden, -math.inf).to(scores.dtype)
        weights = softmax(scores, torch.float32).to(memory.value.dtype)  # in float32, which is faster and more accurate
        kept = nn.functional.dropout(weights, self.dropout, self.training)
        return head_product(kept, memory.value)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHead":
        """Build a `MultiHead` with a copy of the weights of an `nn.MultiheadAttention`.

        The copy is batch first, and True in its masks means "may attend".

        Args:
            module: The attention to copy.

        Raises:
            ConfigError: If the module is not an `nn.MultiheadAttention`.

        Example:
            >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
            >>> x = torch.randn(1, 5, 8)
            >>> torch.allclose(MultiHead.from_torch(theirs)(x).context, theirs(x, x, x)[0], atol=1e-6)
            True
        """
        return build_from_torch(cls, module)

    def to_torch(self, *, batch_first: bool = True) -> nn.MultiheadAttention:
        """Build an `nn.MultiheadAttention` with a copy of the weights; its masks have the opposite meaning.

        Args:
            batch_first: If True, its tensors are (B,Q,D), else (Q,B,D).

        Raises:
            ConfigError: If this attention has features that `nn.MultiheadAttention` lacks, such as grouped heads or positions.
        """
        return build_torch(self, batch_first=batch_first)


def _reweighted(weights: Tensor, mask: Tensor | None, reweight: Reweight | None, keys: int) -> Tensor:
    """Apply `reweight` to the weights of the first `keys` keys; the weights of keys that modifiers add stay unchanged."""
    if reweight is None or weights.shape[-1] == keys:
        return reweighted(weights, mask, reweight)
    own = reweighted(weights[..., :keys], None if mask is None else mask[..., :keys], reweight)
    return torch.cat([own, weights[..., keys:]], -1)
