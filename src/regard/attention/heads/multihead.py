"""Multi-head attention: several heads in parallel, each with its own projections of queries, keys and values.

    head_h = softmax(q_h k_hᵀ / √E) v_h,    context = W_o [head_1; …; head_H] + b_o,    E = D/H

In code: `MultiHead.prepare` and `MultiHead.attend` project, mask and join; `attend.attend` is the formula between them.

In a causal decoder, the state is the key–value cache. Steps like this one give the same result as one call over all tokens:

    memory = attention.prepare(x)                            # this step's tokens, one or more
    out, state = attention.attend(x, memory, state)          # state: None at first, then all keys and values so far
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_heads, check_instance, check_number, check_scale, check_window
from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight, is_exactly, reweighted
from regard.attention.heads.attend import attend, is_joint, join_heads, join_maps, split_heads
from regard.attention.heads.conversion import build_from_torch, rename_from_torch
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.modifiers import HeadModifier
from regard.attention.heads.positions import RelativePositions, check_positions
from regard.attention.heads.rotary import Rotary
from regard.attention.learned import start_linear
from regard.attention.masks import NO_MASKS, KeyMask, Masks, causal_mask, resolve_masks, window_mask, zero_masked, zero_rows
from regard.attention.normalizers.base import build_normalizer, keeps_order
from regard.attention.normalizers.softmax import Softmax
from regard.errors import ConfigError, RequestError
from regard.shapes import check_shape


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
        normalizer: Module that computes weights from scores, or its name, such as "sparsemax"; None for a
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

    modifiers: Sequence[HeadModifier]
    changes_weights: bool = False
    """Whether scores or weights are changed, by modifiers or by a subclass; if True, no fused kernel computes them."""

    joint_projection: nn.Module | None = None
    """One map in place of those of queries, keys and values, in a packed copy (`regard.inference`)."""

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
        called = type(self).__name__
        self.size = self.query_size = size
        self.key_size = size if key_size is None else key_size
        self.value_size = self.key_size if value_size is None else value_size
        self.output_size = size if output_size is None else output_size
        self.num_heads, self.num_kv_heads = num_heads, num_heads if num_kv_heads is None else num_kv_heads
        widths = {"key_size": self.key_size, "value_size": self.value_size, "output_size": self.output_size}
        check_heads(called, size, num_heads, self.num_kv_heads, head_size, **widths)
        check_number(called, "dropout", dropout, least=0, below=1)
        check_window(called, window)
        check_flag(called, "bias", bias)
        check_flag(called, "causal", causal)
        self.scale = None if scale is None else check_scale(called, scale, default=1.0)
        self.head_size = size // num_heads if head_size is None else head_size
        self.dropout, self.causal, self.window, self.positions = dropout, causal, window, positions
        if positions is not None:
            check_instance(called, "positions", positions, RelativePositions, "Rotary()")
            positions.check(num_heads, self.rotated_size)
        self.normalizer = build_normalizer(called, normalizer, num_heads)
        for modifier in modifiers:
            check_instance(called, "modifiers", modifier, HeadModifier, "[QKNorm()]")
            if sum(type(other) is type(modifier) for other in modifiers) > 1:
                raise ConfigError(f"{called}(modifiers=…): got {type(modifier).__name__} more than once; give each kind once")
            modifier.attach(self, device=device, dtype=dtype)
        self.modifies = len(modifiers) > 0  # asked instead of the module list, which is slow to read
        self.modifiers = nn.ModuleList(modifiers)  # type: ignore[assignment]  # a module list is such a sequence
        # The flags depend on the arguments, so the class attributes are replaced here.
        self.changes_weights = type(self).changes_weights or any(each.changes_weights for each in modifiers)
        self.normalized = (
            type(self).normalized
            and bool(getattr(self.normalizer, "normalized", False))
            and all(each.normalized for each in modifiers)
        )
        ordered = causal or window or positions or not keeps_order(self.normalizer)
        self.permutation_equivariant = type(self).permutation_equivariant and not ordered
        self.stateful = causal or (window is not None and window[1] == 0)
        self.build_projections(partial(nn.Linear, bias=bias, device=device, dtype=dtype))
        self.register_load_state_dict_pre_hook(rename_from_torch)

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | KeyMask | None = None,
        key_positions: Int[Tensor, "... K"] | None = None,
    ) -> HeadMemory:
        """Project keys and values once; see `Attention.prepare`.

        Args:
            key: The keys.
            value: The values; None if the keys are the values.
            key_mask: True where a key exists; None if all exist. A `KeyMask` if the caller has resolved the mask, and all keys
                and values behind it are finite.
            key_positions: Positions of the keys, (K,) or (B,K), for the module `positions` of the constructor; None for
                consecutive positions.
        """
        read = key if value is None else value
        same, shape = read is key, key.shape
        if shape[2:] != (self.key_size,) or (shape if same else read.shape) != (*shape[:2], self.value_size):
            sizes = check_shape("key", key, f"B K {self.key_size}")  # which is slower than the comparison
            check_shape("value", read, f"B K {self.value_size}", sizes)
        if isinstance(key_mask, Tensor):
            key = zero_masked(key, key_mask)
            read = key if same else zero_masked(read, key_mask)
        gates = self.build_gates(key)
        if gates is not None and isinstance(key_mask, Tensor):
            gates = gates.where(key_mask[:, None, :, None], 0)
        if key_positions is not None:
            key_positions = check_positions(self, "key_positions", key_positions, *shape[:2])
        return self.remember(*self.project(key, read), key_mask=key_mask, key_positions=key_positions, gates=gates)

    def remember(
        self,
        heads: Float[Tensor, "B G K E"],
        values: Float[Tensor, "B Gv K Ev"],
        *,
        key_mask: Bool[Tensor, "B K"] | KeyMask | None,
        key_positions: Int[Tensor, "B K"] | None = None,
        gates: Float[Tensor, "B H K X"] | None = None,
    ) -> HeadMemory:
        """Return the memory of projected keys and values."""
        for modifier in self.modifiers if self.modifies else ():
            heads = modifier.key(heads)
        exists, hidden = key_mask if isinstance(key_mask, KeyMask) else (key_mask, None)
        if hidden is not None and hidden.dtype != heads.dtype:  # packed maps widen their results
            hidden = hidden.to(heads.dtype)
        memory = HeadMemory(heads, values, exists, key_positions, gates, None, hidden)
        # In a stateful attention, the positions of the keys depend on the state, so that `attend` rotates them.
        return memory if self.positions is None or (self.stateful and key_positions is None) else self._rotated(memory, 0)

    def prepare_self(self, x: Float[Tensor, "B T D"], *, key_mask: Bool[Tensor, "B T"] | KeyMask | None = None) -> HeadMemory:
        """Return keys, values and queries from one product, and rotate queries and keys at once, where nothing forbids it."""
        # Without a `KeyMask`, numbers behind the mask may be NaN, so that keys and values need an input of their own.
        fits = type(self) is MultiHead and self.size == self.key_size == self.value_size and not isinstance(key_mask, Tensor)
        # Positions of your own may treat each head differently, so that they rotate queries and keys one after the other.
        if not fits or self.modifies or (self.positions is not None and type(self.positions) is not Rotary):
            return self.prepare(x, key_mask=key_mask)
        linears = self.query_projection, self.key_projection, self.value_projection
        if not is_joint(x, linears) or not is_exactly(self, MultiHead):
            return self.prepare(x, key_mask=key_mask)
        heads = join_maps(x, linears).unflatten(2, (-1, self.head_size))
        # Split before the axes change places, so that the gradients of the parts form that of the product without a copy.
        turned, value = heads.split([self.num_heads + self.num_kv_heads, self.num_kv_heads], 2)
        turned = turned.transpose(1, 2) if self.positions is None else self.rotate(turned.transpose(1, 2), 0)
        query, key = turned.split([self.num_heads, self.num_kv_heads], 1)
        exists, hidden = (None, None) if key_mask is None else key_mask
        return HeadMemory(key, value.transpose(1, 2), exists, hidden=hidden, query=query)

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
        batch, shape, heads, bias = memory.key.shape[0], query.shape, memory.query, None
        if len(shape) != 3 or shape[0] != batch or shape[2] != self.query_size:
            check_shape("query", query, f"B Q {self.query_size}", {"B": batch})
        if heads is None:
            if self.stateful or state is not None:
                memory, state = self.join(memory, state)
            heads = self.project_query(query)
            for modifier in self.modifiers if self.modifies else ():
                heads = modifier.query(heads)
            if self.positions is not None or query_positions is not None:
                heads, bias = self._place(heads, memory, query_positions)
        elif state is not None or query_positions is not None:  # the memory has the queries, from position 0 on
            raise RequestError("attend got a state or query_positions with the memory of prepare_self; make it with prepare")
        keys, plain = memory.key.shape[2], need_weights or reweight is not None or self.changes_weights
        read, added = memory, 0
        if self.modifies:
            pairs = [modifier.extra() for modifier in self.modifiers]  # torch.compile cannot read an assignment in a list
            read = memory.with_further([pair for pair in pairs if pair is not None])
            added = read.key.shape[2] - keys
        found = self._resolve(memory, attn_mask, score_bias, bias, shape[1], added, plain)
        causal, masks = found is None, NO_MASKS if found is None else found
        change = None
        if reweight is not None or self.changes_weights or (plain and masks.empty is not None):
            change = partial(self.change_weights, masks=masks, keys=keys, reweight=reweight)
        context, weights = self.mix(heads, read, masks, causal=causal, change_weights=change, need_weights=need_weights)
        if weights is not None and added:
            weights = weights[..., :keys]
        if masks.empty is None:
            return AttentionOutput(self.output(context, query), weights), state
        if masks.empty.ndim == 4 and masks.empty.shape[1] > 1:
            context = zero_rows(context, masks.empty)  # some heads may have nothing to attend to, and others something
        return AttentionOutput(zero_rows(self.output(context, query), masks.empty), weights), state

    def _resolve(
        self,
        memory: HeadMemory,
        attn_mask: Tensor | None,
        score_bias: Tensor | None,
        bias: Tensor | None,
        queries: int,
        added: int,
        plain: bool,
    ) -> Masks | None:
        """Join the masks and biases of a call with those of this attention; None if PyTorch's causal kernel computes it.

        `bias` is that of the positions, and `added` is the number of keys that modifiers add.
        """
        keys, device = memory.key.shape[2], memory.key.device
        given = attn_mask is not None or score_bias is not None or added
        masks, own = NO_MASKS, None
        if self.window is not None:
            before, after = self.window
            own = window_mask(queries, keys, before=before, after=0 if self.causal else after, device=device)
        elif self.causal or keys == 0:
            # PyTorch's causal form aligns the first query with the first key, which is correct here only if Q = K. In an
            # export, the comparison of two axes that may differ is not a bool.
            square = self.causal and (queries == keys) is True
            if square and not (plain or given or memory.key_mask is not None or bias is not None):
                return None
            own = causal_mask(queries, keys, device=device) if queries > 1 or keys == 0 else None
        if memory.hidden is not None and not given and own is None:  # the key mask alone, resolved with the memory
            masks = Masks(memory.hidden)
        elif given or own is not None or memory.key_mask is not None:
            sizes = {"batch": memory.key.shape[0], "queries": queries, "keys": keys, "heads": self.num_heads}
            masks = resolve_masks(memory.key_mask, attn_mask, score_bias, own=own, added=added, **sizes)
        if bias is None:
            return masks
        bias = nn.functional.pad(bias, (0, added)) if added else bias
        return masks._replace(bias=bias if masks.bias is None else bias + masks.bias)

    def context_size(self, value_size: int) -> int:
        """Return the width of the output map, whatever the width of the values."""
        return self.output_size

    # The parts of the formula, which mechanisms with another formula override.

    @property
    def rotated_size(self) -> int:
        """Number of features that `positions` rotates together; the width of a head."""
        return self.head_size

    def build_projections(self, build: Callable[[int, int], nn.Linear]) -> None:
        """Build the maps of queries, keys, values and output; `build(inputs, outputs)` returns one map of these widths."""
        width, shared = self.num_heads * self.head_size, self.num_kv_heads * self.head_size
        self.query_projection = build(self.size, width)
        self.key_projection = build(self.key_size, shared)
        self.value_projection = build(self.value_size, shared)
        self.output_projection = build(width, self.output_size)
        start_linear(self.query_projection, self.key_projection, self.value_projection, self.output_projection)

    def project_query(self, query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B H Q E"]:
        """Return the queries of the heads."""
        return split_heads(self.query_projection(query), self.num_heads)

    def project(
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"]
    ) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K Ev"]]:
        """Return the keys and the values of the heads; `value` is `key` itself if the keys are the values."""
        linears = self.key_projection, self.value_projection
        if key is value and is_joint(key, linears):
            keys, values = join_maps(key, linears).split([linears[0].out_features, linears[1].out_features], -1)
        else:
            keys, values = linears[0](key), linears[1](value)
        return split_heads(keys, self.num_kv_heads), split_heads(values, self.num_kv_heads)

    def build_gates(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B H K X"] | None:
        """Return the gates of the keys, which `prepare` sets to zero for keys that do not exist; None by default."""
        return None

    def rotate(self, heads: Float[Tensor, "B H T E"], positions: Tensor | int) -> Float[Tensor, "B H T E"]:
        """Return queries or keys rotated to their positions; see `RelativePositions.rotate`."""
        assert self.positions is not None
        return self.positions.rotate(heads, positions)

    def mix(
        self, heads: Float[Tensor, "B H Q E"], memory: HeadMemory, masks: Masks, **options: Any
    ) -> tuple[Float[Tensor, "B Hv Q Ev"], Float[Tensor, "B Hv Q K"] | None]:
        """Return the context of each head, and the weights; `options` are arguments of `attend.attend`."""
        change = None
        if self.changes_weights:
            change = partial(self.change_scores, query=heads, memory=memory, masks=masks)
        normalizer: Any = self._modules["normalizer"]  # `self.normalizer` takes five times as long
        return attend(
            heads,
            memory.key,
            memory.value,
            masks.mask,
            masks.bias,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            normalizer=None if is_exactly(normalizer, Softmax) else normalizer,
            change_scores=change,
            **options,
        )

    def change_scores(
        self, scores: Float[Tensor, "B H Q K"], *, query: Float[Tensor, "B H Q E"], memory: HeadMemory, masks: Masks
    ) -> Float[Tensor, "B H Q K"]:
        """Return the changed scores, before bias and mask; called only if `changes_weights` is True."""
        for modifier in self.modifiers:
            scores = modifier.scores(scores)
        return scores

    def change_weights(
        self, weights: Float[Tensor, "B H Q K"], *, masks: Masks, keys: int, reweight: Reweight | None
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights after the modifiers and `reweight`; they are zero in empty rows and where the masks allow no key.

        `reweight` sees the first `keys` keys; modifiers may have added others.
        """
        weights, mask = zero_rows(weights, masks.empty), masks.allowed
        for modifier in self.modifiers:
            weights = modifier.weights(weights)
            if modifier.changes_weights and mask is not None:
                weights = weights.masked_fill(~mask, 0)  # mixing heads may give weight to a key that is masked in this head
        if reweight is None:
            return weights
        seen = reweighted(weights[..., :keys], None if mask is None else mask[..., :keys], reweight)
        return seen if weights.shape[-1] == keys else torch.cat([seen, weights[..., keys:]], -1)

    def output(self, heads: Float[Tensor, "B H Q Ev"], query: Float[Tensor, "B Q Dq"]) -> Float[Tensor, "B Q D"]:
        """Return W_o [head_1; …; head_H] + b_o."""
        joined = join_heads(heads)
        for modifier in self.modifiers if self.modifies else ():
            joined = modifier.output(joined, query)
        return self.output_projection(joined)

    def join(self, memory: HeadMemory, state: HeadMemory | None) -> tuple[HeadMemory, HeadMemory | None]:
        """Return the keys of the state followed by the new keys, all rotated to their positions, and the next state.

        Raises:
            RequestError: If a state is given, and some queries attend to later positions.
        """
        if not self.stateful:
            raise RequestError(
                f"{type(self).__name__}.attend got a state, but only an attention that never looks ahead keeps the keys of "
                "earlier queries; build it with causal=True or window=(n, 0), or leave the state out"
            )
        if self.positions is not None and memory.positions is None:
            memory = self._rotated(memory, 0 if state is None else state.length)
        memory = memory if state is None else state.join(memory)
        return memory, memory if self.window is None else memory.last(self.window[0])

    def _rotated(self, memory: HeadMemory, start: int) -> HeadMemory:
        """Return the memory with keys that are rotated to their positions: those given, or start, start + 1, …"""
        return replace(memory, key=self.rotate(memory.key, start if memory.positions is None else memory.positions))

    def _place(
        self, heads: Float[Tensor, "B H Q E"], memory: HeadMemory, positions: Int[Tensor, "... Q"] | None
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "#B #H Q K"] | None]:
        """Return the queries rotated to their positions, and the bias that the positions add to the scores (None for none).

        `positions` are those that the caller gave; None if the last query has the position of the last key.
        """
        if positions is not None:
            positions = check_positions(self, "query_positions", positions, heads.shape[0], heads.shape[2])
        if (positions is None) != (memory.positions is None):
            have, lack = ("key", "query") if positions is None else ("query", "key")
            raise RequestError(f"{type(self).__name__} got {have}_positions without {lack}_positions; give both or none")
        assert self.positions is not None
        end, queries, bias = memory.length, heads.shape[2], None
        if self.positions.adds_bias:
            at, keys = positions, memory.positions
            if at is None or keys is None:
                at = torch.arange(end - queries, end, device=heads.device)[None]
                keys = torch.arange(end - memory.key.shape[2], end, device=heads.device)[None]
            bias = self.positions.bias(at, keys, heads)
        return self.rotate(heads, end - queries if positions is None else positions), bias

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
