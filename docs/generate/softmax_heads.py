"""Mechanisms that have heads and their own projections, and compute their weights with a softmax."""

from docs.generate.entry import Mechanism
from docs.generate.scored import BATTERY
from docs.generate.toy import WIDTH
from regard.attention import ContextualPositionAttention, DifferentialAttention, ForgettingAttention, LatentAttention

_CASES = (BATTERY, "tests/contracts/cases/projected.py", "tests/attention/test_softmax_heads.py")
_STATE = "none; if causal, the keys and values so far"
_TWO_ROWS = "There is one row of pictures for each of the two heads."

SOFTMAX_HEADS = [
    Mechanism(
        kind=DifferentialAttention,
        build=lambda: DifferentialAttention(WIDTH, 2),
        score="softmax(q_h·k_h / √e) − λ softmax(q'_h·k'_h / √e), e = D/2H",
        state=_STATE,
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="`2·B·K·D²` to prepare keys and values, once; then `2·B·Q·D²` for queries and output, `B·Q·K·D` for the "
        "scores and `B·Q·K·D` for the context, as in multi-head attention, but two softmaxes for each head.",
        memory="`8·B·K·D` for prepared keys and values, `8·B·Q·D` for queries and heads, and `12·B·H·Q·K` for the two "
        "softmaxes and their difference.",
        choose="many keys are unrelated to the query, and weight on them causes errors",
        when=(
            "The second softmax learns where the first one wastes weight, so that unrelated keys get a weight near zero. Use "
            "it with half as many heads as [MultiHead](multi-head.md), for long inputs of which only a small part matters. "
            "It keeps both softmaxes in memory, and there is no fused kernel for it. Its weights may be negative, so that "
            "they are not a probability distribution."
        ),
        picture=f"{_TWO_ROWS} Negative weights are orange.",
        example="""attention = DifferentialAttention(16, 2)
context, weights = attention(torch.randn(2, 3, 16), torch.randn(2, 7, 16))
rows = weights.sum(-1)  # 1 − λ, which is 0.2 on average before training
print(tuple(weights.shape), torch.allclose(rows, rows[0, 0, 0].expand_as(rows), atol=1e-6))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=ForgettingAttention,
        build=lambda: ForgettingAttention(WIDTH, 2),
        score="(W_q q)_h·(W_k k)_h / √(D/H) + Σ log f of the keys after it",
        state=_STATE,
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="`2·B·K·D²` to prepare keys and values and `B·K·D·H` for the gates, once; then `2·B·Q·D²` for queries "
        "and output, `B·Q·K·D` for the scores, `B·Q·K·D` for the context and `B·H·Q·K` additions for the sums of gates.",
        memory="`8·B·K·D + 4·B·H·K` for prepared keys, values and gates, `8·B·Q·D` for queries and heads, and `12·B·H·Q·K` "
        "for scores, sums and weights.",
        choose="a decoder should forget old keys, without positions",
        when=(
            "Use it with `causal=True` in a decoder of long texts: its gates reduce the weight of old keys that no longer "
            "matter, as the forget gate of an LSTM does, and it needs no positions. If the keys come from another sequence, "
            "it favours the last keys, which rarely helps; then [MultiHead](multi-head.md) is simpler. With all gates open, "
            "it equals MultiHead."
        ),
        picture=_TWO_ROWS,
        example="""attention = ForgettingAttention(16, 4, causal=True, initial_gate=0.0)  # f = 0.5 for an average key
x = torch.randn(2, 7, 16)
first, state = attention.attend(x[:, :6], attention.prepare(x[:, :6]))
last, state = attention.attend(x[:, 6:], attention.prepare(x[:, 6:]), state)
print(torch.allclose(last.context, attention(x).context[:, 6:], atol=1e-5), tuple(last.weights.shape))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=LatentAttention,
        build=lambda: LatentAttention(WIDTH, 2),
        score="q_h·U_h c / √(D/H), c = norm(W_c k) of R features",
        state="none; if causal, c (and the rotary keys r, with positions) of all keys so far",
        cost="B·H·Q·K·R + B·(Q + K)·D·R",
        operations="`B·K·D·R` to prepare the keys, once; then `2·B·Q·D²` for queries and output, `2·B·Q·D·R` to apply U_h "
        "and V_h, `B·H·Q·K·R` for the scores and `B·H·Q·K·R` for the context. A rotary part of E_r features "
        "adds `B·H·Q·K·E_r`.",
        memory="`4·B·K·(R + E_r)` for the prepared keys, which are the values too (the cache of a decoder), `4·B·H·Q·R` "
        "for the queries, and `8·B·H·Q·K` for scores and weights.",
        choose="the cache of a decoder must be small",
        when=(
            "The cache holds one vector of R features for each key, whatever the number of heads; "
            "[MultiHead](multi-head.md) stores 2·D numbers for each key. A small `num_kv_heads` of MultiHead saves memory too, "
            "but its heads then share their keys. The scores cost H·R in place of D operations for each pair of query and key. "
            "In self-attention, give it `positions=Rotary()`."
        ),
        picture=_TWO_ROWS,
        example="""attention = LatentAttention(16, 4, latent_size=6, positions=Rotary(), rotary_size=2, causal=True)
x = torch.randn(2, 7, 16)
first, cache = attention.attend(x[:, :6], attention.prepare(x[:, :6]))
last, cache = attention.attend(x[:, 6:], attention.prepare(x[:, 6:]), cache)
print(torch.allclose(last.context, attention(x).context[:, 6:], atol=1e-5), tuple(cache.key.shape))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=ContextualPositionAttention,
        build=lambda: ContextualPositionAttention(WIDTH, 2, num_positions=8),
        score="(W_q q)_h·(W_k k)_h / √(D/H) + (W_q q)_h·e[p], p = Σ σ of the scores from k on",
        state=_STATE,
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="`2·B·K·D²` to prepare keys and values, once; then `2·B·Q·D²` for queries and output, `B·Q·K·D` for the "
        "scores, `B·Q·P·D` for q·e, where P = `num_positions`, and `B·Q·K·D` for the context.",
        memory="`8·B·K·D` for prepared keys and values, `8·B·Q·D` for queries and heads, `4·B·H·Q·P` for q·e, and "
        "`24·B·H·Q·K` for scores, gates, positions and weights.",
        choose="queries must count words or sentences instead of tokens",
        when=(
            "The gates of a query choose which keys it counts, for example full stops, so that it can find the sentence "
            "before the last one. Positions of tokens can't do this. For each pair of query and key, it computes more "
            "than MultiHead, and there is no fused kernel for it. Use it for tasks that need counting; for the order of words "
            "alone, use [MultiHead](multi-head.md) with `Rotary`, `ALiBi` or `RelativeBias`."
        ),
        picture=f"{_TWO_ROWS} In the toy problem, the keys contain their positions, so that no other positions are needed.",
        example="""attention = ContextualPositionAttention(16, 4, num_positions=8, causal=True)
x = torch.randn(2, 7, 16)
context, weights = attention(x)
plain = ContextualPositionAttention(16, 4, num_positions=1, causal=True)  # one position: no positions
print(tuple(context.shape), tuple(plain(x).weights.shape))""",
        tests=_CASES,
    ),
]
