"""Mechanisms that store one matrix for each head, instead of all keys and values."""

from docs.generate.entry import Mechanism
from docs.generate.scored import BATTERY
from docs.generate.toy import WIDTH
from regard.attention import GatedDeltaNet, LinearAttention

_CASES = (BATTERY, "tests/contracts/cases/projected.py", "tests/attention/test_recurrent_heads.py")
_STATE = "none; if causal, one matrix for each head, or all keys if weights are needed"

RECURRENT = [
    Mechanism(
        kind=LinearAttention,
        build=lambda: LinearAttention(WIDTH, 2),
        score="φ(W_q q)_h·φ(W_k k)_h, φ(x) = elu(x) + 1, no softmax",
        state=_STATE,
        cost="B·(Q + K)·D²",
        operations="`2·B·K·D²` to prepare keys and values and `B·K·D²/H` for the matrices S; then `2·B·Q·D²` for queries and "
        "output and `B·Q·D²/H` to read S. With weights, `2·B·Q·K·D` as for a softmax.",
        memory="`4·B·D·(D/H + 1)` for S, whatever the number of keys; `8·B·K·D` for prepared keys and values; with weights "
        "`4·B·H·Q·K` more.",
        choose="inputs are so long that Q·K is too much, and no query has to find a single key among many",
        when=(
            "The weights are proportional to φ(q)·φ(k) instead of exp(q·k), so they are nearly equal: a query can average many "
            "keys, but can hardly select a single one. Choose it for a decoder whose memory must not grow with each word, or "
            "for long inputs: on one core, without weights, with 8 heads and D = 512, its forward pass is faster than that of "
            "[MultiHead](multi-head.md) from 2,048 tokens on, and training from 512 on "
            "([ratios at 8,192](../benchmarks/claims.md)). [GatedDeltaNet](gated-delta-net.md) finds single keys better, but "
            "needs more operations."
        ),
        example="""attention = LinearAttention(16, 4, causal=True)
x, state = torch.randn(2, 7, 16), None
context, weights = attention(x)
for word in x.split(1, 1):
    step, state = attention.attend(word, attention.prepare(word), state, need_weights=False)
print(torch.allclose(step.context, context[:, 6:], atol=1e-5), tuple(weights.shape), tuple(state.summary.shape))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=GatedDeltaNet,
        build=lambda: GatedDeltaNet(WIDTH, 2),
        score="A_ti of S_t = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ",
        state=_STATE,
        cost="B·(Q + K)·D²",
        operations="`2·B·K·D²` to prepare keys and values and about `B·K·(4·D²/H + 64·D)` for S, in chunks of 64 keys; then "
        "`3·B·Q·D²` for queries, gate and output and `B·Q·D²/H` to read S. With weights, `2·B·Q·K·D`, and "
        "`B·H·Q·K²/2` to solve a triangular system of K keys for each head.",
        memory="`4·B·D²/H` for S, whatever the number of keys; `8·B·K·D` for prepared keys and values; with weights "
        "`8·B·H·K²` more.",
        choose="inputs are so long that Q·K is too much, and queries must find single keys",
        when=(
            "Each key first erases the value that S contains for it, so S does not fill up as in "
            "[LinearAttention](linear-attention.md), and α lets old keys fade. The order of the keys matters: if a decoder "
            "attends to a source in this way, the last words have an advantage. On one core, without weights, with 8 heads and "
            "D = 512, it is faster than [MultiHead](multi-head.md) from 4,096 tokens on "
            "([ratio at 8,192](../benchmarks/claims.md)). On shorter inputs, choose MultiHead, whose weights are positive and "
            "easier to read."
        ),
        picture="There is one row of pictures for each of the two heads, with the weights that the recurrence implies. "
        "Negative weights are orange.",
        example="""attention = GatedDeltaNet(16, 4, causal=True)
x = torch.randn(2, 7, 16)
context, weights = attention(x)  # the matrix that the recurrence implies
chunked = attention(x, need_weights=False).context
print(torch.allclose(chunked, context, atol=1e-5), bool((weights < 0).any()))""",
        tests=_CASES,
    ),
]
