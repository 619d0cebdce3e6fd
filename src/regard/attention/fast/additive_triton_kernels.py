"""The Triton kernels of `additive_triton`, which imports them only to run a kernel, because they need the package triton.

With r_ijh = 1 / (1 + e^{2 q_ih} e^{2 k_jh}), tanh(q_ih + k_jh) = 1 − 2 r_ijh. A score needs only −2 Σ_h v_h r_ijh, because the
rest, Σ_h v_h, is the same for every key and cancels in the softmax.

Two elements share one reciprocal: a / x + b / y = (a y + b x) / (x y), so an element costs three multiply-adds and half a
reciprocal. A block is computed this way if its products do not overflow in float32 (`_in_range`), and as r = 1 / (1 +
e^{2 (q + k)}) otherwise. The second form computes q + k first, so large numbers of opposite signs cancel, and an exponential
that overflows gives r = 0.

`no_type_check` switches shape checkers off, because Triton compiles the source code of these functions.
"""

from typing import no_type_check

import triton
import triton.language as tl

PAIR_LIMIT = tl.constexpr(43.0)
"""Largest whole exponent x with (1 + e^x)² below 2^126. Then the product of two denominators does not overflow, and its
reciprocal is not a subnormal number, which the hardware rounds to zero.
"""
SIDE_LIMIT = tl.constexpr(69.0)
"""Largest exponent of one side (queries or keys). If the other side's exponential is rounded to zero (below e^{−87}), E·F would
have been too small to change 1 + E·F.
"""


@triton.jit
@no_type_check
def _reciprocal(x, NATIVE: tl.constexpr):
    """Return 1 / x for x in [1, 2^126]. On NVIDIA GPUs, this is one instruction; a general division takes several."""
    if NATIVE:
        result = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        result = 1.0 / x
    return result


@triton.jit
@no_type_check
def _in_range(highest, other_highest):
    """Return whether no product of two denominators of a block overflows in float32; False if an exponent is NaN."""
    return (highest + other_highest <= PAIR_LIMIT) & (highest <= SIDE_LIMIT) & (other_highest <= SIDE_LIMIT)


@triton.jit
@no_type_check
def _score_tile(
    e_at, f_at, q_at, k_at, score_weight, in_range, row_ok, column_ok, H, PADDED_Q, PADDED_K,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Return −2 Σ_h v_h r_ijh for one block of queries (rows) and keys (columns).

    E and F have the layout (H/2,Q,2) and (H/2,K,2), so that each step of the loop reads a short contiguous piece of each.
    """
    total = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    if in_range:
        for h in range(0, H, 2):  # E, F and v are padded with zeros to an even width
            v0, v1 = tl.load(score_weight + h), tl.load(score_weight + h + 1)
            e0, e1 = tl.split(tl.load(e_at[:, None] + tl.arange(0, 2)[None, :]))
            f0, f1 = tl.split(tl.load(f_at[:, None] + tl.arange(0, 2)[None, :]))
            x = 1.0 + e0[:, None] * f0[None, :]
            y = 1.0 + e1[:, None] * f1[None, :]
            total += (v0 * y + v1 * x) * _reciprocal(x * y, NATIVE)
            e_at += 2 * PADDED_Q
            f_at += 2 * PADDED_K
    else:
        for h in range(H):
            q = tl.load(q_at + h, mask=row_ok, other=0.0).to(tl.float32)
            k = tl.load(k_at + h, mask=column_ok, other=0.0).to(tl.float32)
            total += tl.load(score_weight + h) / (1.0 + tl.exp(2.0 * (q[:, None] + k[None, :])))
    return -2.0 * total


@triton.jit
@no_type_check
def _masked_tile(
    e, f, e_highest, f_highest, query, key, score_weight, mask, b, rows, columns,
    Q, K, H, PADDED_Q, PADDED_K, PADDED_H, mask_stride_b, mask_stride_q,
    HAS_MASK: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Return the scores of one block, −∞ for masked keys and beyond the edges."""
    row_ok, column_ok = rows < Q, columns < K
    highest = tl.max(tl.load(e_highest + b * PADDED_Q + rows), 0)
    other_highest = tl.max(tl.load(f_highest + b * PADDED_K + columns), 0)
    scores = _score_tile(
        e + b * PADDED_H * PADDED_Q + 2 * rows, f + b * PADDED_H * PADDED_K + 2 * columns,
        query + (b * Q + rows) * H, key + (b * K + columns) * H, score_weight,
        _in_range(highest, other_highest), row_ok, column_ok, H, PADDED_Q, PADDED_K, BLOCK_Q, BLOCK_K, NATIVE,
    )  # fmt: skip
    allowed = row_ok[:, None] & column_ok[None, :]
    if HAS_MASK:
        at = mask + b * mask_stride_b + rows.to(tl.int64)[:, None] * mask_stride_q + columns[None, :]
        allowed = allowed & (tl.load(at, mask=allowed, other=0) != 0)
    return tl.where(allowed, scores, float("-inf"))


@triton.jit
@no_type_check
def attend(
    e, f, e_highest, f_highest, query, key, value, score_weight, mask, context, log_sum, scores_out,
    Q, K, H, D, PADDED_Q, PADDED_K, PADDED_H, mask_stride_b, mask_stride_q,
    HAS_MASK: tl.constexpr, KEEP_SCORES: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Compute the context of one block of queries, over blocks of keys, with an online softmax, which rescales earlier sums.

    `context` (B,Q,D) float32 starts as zeros and collects the sums, one piece of D at a time, so that any D fits. No other
    program writes to the same rows. `log_sum` (B,Q) is the logarithm of the softmax's denominator, 0 for a row without allowed
    keys.
    """
    num_blocks = PADDED_Q // BLOCK_Q
    b = (tl.program_id(0) // num_blocks).to(tl.int64)
    rows = (tl.program_id(0) % num_blocks) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    row_ok = rows < Q
    context_at = context + (b * Q + rows)[:, None] * D
    top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    norm = tl.zeros([BLOCK_Q], tl.float32)
    for first in range(0, K, BLOCK_K):
        columns = first + tl.arange(0, BLOCK_K)
        column_ok = columns < K
        scores = _masked_tile(
            e, f, e_highest, f_highest, query, key, score_weight, mask, b, rows, columns,
            Q, K, H, PADDED_Q, PADDED_K, PADDED_H, mask_stride_b, mask_stride_q,
            HAS_MASK, BLOCK_Q, BLOCK_K, NATIVE,
        )  # fmt: skip
        if KEEP_SCORES:
            at = scores_out + (b * Q + rows)[:, None] * K + columns[None, :]
            tl.store(at, scores, mask=row_ok[:, None] & column_ok[None, :])
        new_top = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(new_top == float("-inf"), 0.0, new_top)  # −∞ − −∞ would be NaN
        p = tl.exp(scores - base[:, None])
        scale = tl.exp(top - base)
        norm = norm * scale + tl.sum(p, 1)
        top = new_top
        for d in range(0, D, BLOCK_D):
            parts = d + tl.arange(0, BLOCK_D)
            part_ok = parts < D
            value_at = value + (b * K + columns)[:, None] * D + parts[None, :]
            v = tl.load(value_at, mask=column_ok[:, None] & part_ok[None, :], other=0.0)
            ok = row_ok[:, None] & part_ok[None, :]
            so_far = tl.load(context_at + parts[None, :], mask=ok, other=0.0)
            if NATIVE:
                more = tl.dot(p.to(v.dtype), v, input_precision="tf32x3")
            else:  # Triton's interpreter stores bfloat16 as integers, and would multiply these
                more = tl.dot(p.to(v.dtype).to(tl.float32), v.to(tl.float32))
            tl.store(context_at + parts[None, :], so_far * scale[:, None] + more, mask=ok)
        tl.debug_barrier()  # another thread may load these values for the next block
    base = tl.where(top == float("-inf"), 0.0, top)
    tl.store(log_sum + b * Q + rows, tl.where(norm == 0.0, 0.0, base + tl.log(norm)), mask=row_ok)
    inverse = tl.where(norm == 0.0, 0.0, 1.0 / norm)
    for d in range(0, D, BLOCK_D):
        parts = d + tl.arange(0, BLOCK_D)
        ok = row_ok[:, None] & (parts < D)[None, :]
        done = tl.load(context_at + parts[None, :], mask=ok, other=0.0) * inverse[:, None]
        tl.store(context_at + parts[None, :], done, mask=ok)


@triton.jit
@no_type_check
def recompute_weights(
    e, f, e_highest, f_highest, query, key, score_weight, mask, log_sum, weights, start, count,
    Q, K, H, PADDED_Q, PADDED_K, PADDED_H, mask_stride_b, mask_stride_q,
    HAS_MASK: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Compute the weights (B,count,K) of `count` queries from `start`, a multiple of BLOCK_Q, in the blocks of `attend`."""
    q_blocks, k_blocks = tl.cdiv(count, BLOCK_Q), PADDED_K // BLOCK_K
    program = tl.program_id(0)
    b = (program // (q_blocks * k_blocks)).to(tl.int64)
    slab_rows = (program // k_blocks) % q_blocks * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = program % k_blocks * BLOCK_K + tl.arange(0, BLOCK_K)
    rows = start + slab_rows
    scores = _masked_tile(
        e, f, e_highest, f_highest, query, key, score_weight, mask, b, rows, columns,
        Q, K, H, PADDED_Q, PADDED_K, PADDED_H, mask_stride_b, mask_stride_q,
        HAS_MASK, BLOCK_Q, BLOCK_K, NATIVE,
    )  # fmt: skip
    normalizer = tl.load(log_sum + b * Q + rows, mask=rows < Q, other=0.0)
    at = weights + (b * count + slab_rows)[:, None] * K + columns[None, :]
    ok = (slab_rows < count)[:, None] & (columns < K)[None, :]
    tl.store(at, tl.exp(scores - normalizer[:, None]), mask=ok)


@triton.jit
@no_type_check
def _add_exactly(sums, weight_sums, own_tile, given_at, g_at, count, own_count, H, n_ok, width_ok):
    """Add `count` rows to the two sums of `gradient`, computed from the inputs, because products of e^{2x} may overflow."""
    for _ in range(count):
        g = tl.load(g_at, mask=n_ok, other=0.0)
        other_row = tl.load(given_at, mask=width_ok, other=0.0).to(tl.float32)
        r = 1.0 / (1.0 + tl.exp(2.0 * (own_tile + other_row[None, :])))
        sums += g[:, None] * (r - r * r)
        weight_sums += g[:, None] * r
        g_at += own_count
        given_at += H
    return sums, weight_sums


@triton.jit
@no_type_check
def gradient(
    own, other, own_highest, other_highest, own_input, other_input, score_weight, grad_scores, grad_own, grad_weight,
    own_start, other_start, own_count, other_count, OWN, OTHER, H, PADDED_OWN, PADDED_OTHER, PADDED_H,
    WITH_WEIGHT: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_H: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Add 4 v_h Σ_m g_mn r (1 − r) to grad_own_nh; if WITH_WEIGHT, store −2 Σ_nm g_mn r of each block, for the gradient of v.

    Query and key are symmetric in r, so one kernel computes both gradients: "own" is the side whose gradient is computed,
    "other" is the side that is summed over, and g (B,other,own) is the gradient of the scores. Each program writes its own part
    of the result, so there are no atomic additions, and the order of the sums never changes.
    """
    h_blocks, n_blocks = PADDED_H // BLOCK_H, tl.cdiv(own_count, BLOCK_N)
    program = tl.program_id(0)
    widths = program % h_blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    block = program // h_blocks
    b = (block // n_blocks).to(tl.int64)
    n = block % n_blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    n_ok, width_ok = n < own_count, widths < H
    own_rows = b * PADDED_OWN + own_start + n
    highest = tl.max(tl.load(own_highest + own_rows), 0)
    x = tl.load(own + own_rows[:, None] * PADDED_H + widths[None, :])
    ok = n_ok[:, None] & width_ok[None, :]
    input_at = own_input + (b * OWN + own_start + n)[:, None] * H + widths[None, :]
    sums = tl.zeros([BLOCK_N, BLOCK_H], tl.float32)
    weight_sums = tl.zeros([BLOCK_N, BLOCK_H], tl.float32)
    for first in range(0, other_count, BLOCK_M):
        m = first + tl.arange(0, BLOCK_M)
        other_top = tl.max(tl.load(other_highest + b * PADDED_OTHER + other_start + m), 0)
        g_at = grad_scores + (b * other_count + first) * own_count + n
        if _in_range(highest, other_top):
            at = other + (b * PADDED_OTHER + other_start + first) * PADDED_H + widths
            for step in range(0, BLOCK_M, 2):
                left = other_count - first - step
                g0 = tl.load(g_at, mask=n_ok & (left > 0), other=0.0)
                g1 = tl.load(g_at + own_count, mask=n_ok & (left > 1), other=0.0)
                d0 = 1.0 + x * tl.load(at)[None, :]
                d1 = 1.0 + x * tl.load(at + PADDED_H)[None, :]
                inverse = _reciprocal(d0 * d1, NATIVE)
                r0, r1 = d1 * inverse, d0 * inverse
                sums += g0[:, None] * (r0 - r0 * r0)
                sums += g1[:, None] * (r1 - r1 * r1)
                if WITH_WEIGHT:
                    weight_sums += g0[:, None] * r0
                    weight_sums += g1[:, None] * r1
                g_at += 2 * own_count
                at += 2 * PADDED_H
        else:
            own_tile = tl.load(input_at, mask=ok, other=0.0).to(tl.float32)
            given_at = other_input + (b * OTHER + other_start + first) * H + widths
            rows = tl.minimum(BLOCK_M, other_count - first)
            sums, weight_sums = _add_exactly(sums, weight_sums, own_tile, given_at, g_at, rows, own_count, H, n_ok, width_ok)
    v = tl.load(score_weight + widths)
    grad_at = grad_own + (b * OWN + own_start + n)[:, None] * H + widths[None, :]
    tl.store(grad_at, tl.load(grad_at, mask=ok, other=0.0) + 4.0 * v[None, :] * sums, mask=ok)
    if WITH_WEIGHT:
        tl.store(grad_weight + block.to(tl.int64) * PADDED_H + widths, -2.0 * tl.sum(weight_sums, 0))
