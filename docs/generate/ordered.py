"""The mechanisms that know of positions or of earlier queries: local, location-sensitive, coverage and monotonic ones."""

from docs.generate.entry import Mechanism
from docs.generate.scored import BATTERY
from docs.generate.toy import WIDTH
from regard.attention import (
    Coverage,
    FertilityCoverage,
    HardMoChA,
    HardMonotonic,
    LocalMonotonic,
    LocalPredictive,
    LocationSensitive,
    MoChA,
    SoftMonotonic,
    coverage_loss,
    expected_alignments,
    expected_chunks,
    stopping_points,
)

_LOCAL = (BATTERY, "tests/contracts/cases/local.py", "tests/attention/test_local.py")
_LOCATION = (BATTERY, "tests/contracts/cases/location.py", "tests/attention/test_location.py")
_COVERAGE = (BATTERY, "tests/contracts/cases/coverage.py", "tests/attention/test_coverage.py")
_MONOTONIC = (BATTERY, "tests/contracts/cases/monotonic.py", "tests/attention/test_monotonic.py")
_COVERAGE_OPERATIONS = (
    "`B·K·D²` to prepare the keys, once{}; then for each query, one after the other, `B·D²` for itself, `B·K·D` for its "
    "coverage, `B·K·D` for the scores and `B·K·D` for the context."
)
_ONE_BY_ONE = "Training keeps `4·B·Q·K·{}` for the backward pass, because every query has keys of its own."

ORDERED = [
    Mechanism(
        kind=LocalMonotonic,
        build=lambda: LocalMonotonic(WIDTH, window=2),
        score="k·(W q) within a window around t",
        state="t, how many queries there were",
        cost="B·Q·K·D + B·Q·D²",
        operations="Those of the scorer: with [General](general.md) `B·Q·D²` for the queries, `B·Q·K·D` for the scores and "
        "`B·Q·K·D` for the context. The window is a mask, and saves no operations.",
        memory="`B·Q·K` for the window, and that of the scorer: with General `4·B·Q·D` and `4·B·Q·K`.",
        choose="input and output go side by side, one for one",
        when=(
            "For sequences that go side by side at one pace: letters to sounds, tags of words, spelling. It cannot look "
            "anywhere but around its own place, so a translation that reorders, or is longer or shorter, loses what lies "
            "outside the window; [LocalPredictive](local-predictive.md) chooses its place."
        ),
        picture="With `window=2`. Reversing fails: at both ends the letter wanted is out of reach, and what could be reached "
        "in the middle was not learnt either.",
        example="""attention = LocalMonotonic(16, window=1)
out = attention(torch.randn(1, 4, 16), torch.randn(1, 4, 16))
print((out.weights[0] > 0).int().tolist())""",
        tests=_LOCAL,
    ),
    Mechanism(
        kind=LocalPredictive,
        build=lambda: LocalPredictive(WIDTH, window=2),
        score="k·(W q) within a window around p(q), times a Gaussian",
        cost="B·Q·K·D + B·Q·D²",
        operations="`B·Q·D²` for the positions, about `4·B·Q·K` for the Gaussian, and those of the scorer: with "
        "[General](general.md) `B·Q·D²` for the queries, `B·Q·K·D` for the scores and `B·Q·K·D` for the context. The window "
        "saves no operations.",
        memory="Three times `4·B·Q·K`, for distances, scores and weights, and `8·B·Q·D` for the queries.",
        choose="the place to look follows from what was written so far, and lies in one spot",
        when=(
            "Each query says where it wants to look, and gets a soft window there: good where alignments are concentrated, "
            "and to keep attention from scattering. Positions are predicted as a share of the length, which is coarse for "
            "long inputs, and weights do not sum to one; where the place depends on what the keys hold, as in sorting, a "
            "window only takes away."
        ),
        picture="With `window=2`. Copying and reversing follow from the number of letters written, so the window can follow; "
        "but the gradient reaches no further than the window, and the rows that began too far away have not found their "
        "place. In sorting the place follows from the keys, and the query cannot know it.",
        example="""attention = LocalPredictive(16, window=2)
out = attention(torch.randn(1, 3, 16), torch.randn(1, 9, 16))
print(tuple(out.weights.shape), ((out.weights[0] > 0).sum(-1) <= 5).tolist(), bool((out.weights.sum(-1) < 1).all()))""",
        tests=_LOCAL,
    ),
    Mechanism(
        kind=LocationSensitive,
        build=lambda: LocationSensitive(WIDTH, num_filters=8, kernel_size=5),
        score="v·tanh(W_q q + W_k k + U (F ∗ α_{t−1}) + b)",
        state="the weights just before",
        cost="B·Q·K·C·(D + R), query by query",
        operations="`B·K·D²` to prepare the keys, once; then for each query, one after the other, `B·D²` for itself, "
        "`B·K·R·C` for C filters of R taps, `B·K·C·D` for their features, `B·K·D` for the scores and `B·K·D` for the context.",
        memory="`4·B·K·D` for the prepared keys, as much again for each query's sum, `4·B·Q·K` for the weights. "
        + _ONE_BY_ONE.format("(D + C)"),
        choose="long inputs that are read from left to right: speech to text, text to speech",
        when=(
            "It sees where it looked last and learns to move on from there, which keeps long alignments from skipping and "
            "repeating. The price is a loop over the queries with a convolution in each. For translation, whose order is "
            "free, it gains little over [Additive](additive.md)."
        ),
        example="""attention = LocationSensitive(16, num_filters=4, kernel_size=5)
memory, state = attention.prepare(torch.randn(2, 9, 16)), None
for query in torch.randn(3, 2, 1, 16):
    out, state = attention.attend(query, memory, state)
print(torch.equal(state.history, out.weights[:, 0]))""",
        tests=_LOCATION,
    ),
    Mechanism(
        kind=Coverage,
        build=lambda: Coverage(WIDTH),
        score="v·tanh(W_q q + W_k k + w_c c_t + b)",
        state="the coverage c_t, all weights so far",
        cost="B·Q·K·D, query by query",
        operations=_COVERAGE_OPERATIONS.format(""),
        memory="`4·B·K·D` for the prepared keys, as much again for each query's sum, `4·B·Q·K` for the weights. "
        + _ONE_BY_ONE.format("D"),
        choose="nothing may be said twice: summaries, long outputs",
        when=(
            "It knows what it has used up, and its loss makes looking again cost something; both are cures for repetition "
            "and omission in summaries and translations. The loss also punishes what should be read twice, so lower it where "
            "that is right. Where the model does not repeat itself, [Additive](additive.md) is faster: it needs no loop over "
            "the queries."
        ),
        picture="Trained with its loss, times one, which charges for looking twice: the weights are sharper than Additive's.",
        example="""attention = Coverage(16)
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 16))
print(out.loss.ndim, 0 <= out.loss.item() <= 1, torch.allclose(out.loss, coverage_loss(out.weights)))""",
        tests=_COVERAGE,
        also=(coverage_loss,),
    ),
    Mechanism(
        kind=FertilityCoverage,
        build=lambda: FertilityCoverage(WIDTH),
        score="v·tanh(W_q q + W_k k + w_c c_t/Φ_k)",
        state="the sum of all weights so far",
        cost="B·Q·K·D, query by query",
        operations=_COVERAGE_OPERATIONS.format(", and `B·K·D` for their fertilities"),
        memory="`4·B·K·D` for the prepared keys and `4·B·K` for the fertilities, as much again for each query's sum, "
        "`4·B·Q·K` for the weights. " + _ONE_BY_ONE.format("D"),
        choose="source words that become two target words, or none",
        when=(
            "[Coverage](coverage.md) for pairs of languages in which a word becomes several or none: a key of fertility two "
            "is half used up after the first look. It has no loss of its own; add `coverage_loss` if you want one. Where the "
            "data do not teach the fertilities, it is Coverage on another scale."
        ),
        example="""attention = FertilityCoverage(16, max_fertility=2.0)
memory = attention.prepare(torch.randn(2, 7, 16))
out, state = attention.attend(torch.randn(2, 5, 16), memory)
print(tuple(memory.fertility.shape), bool((memory.fertility < 2).all()), out.loss)""",
        tests=_COVERAGE,
    ),
    Mechanism(
        kind=SoftMonotonic,
        build=lambda: SoftMonotonic(WIDTH),
        score="expectation of a scan that stops with σ(e)",
        state="where the last query may have stopped",
        cost="B·Q·K·(D + log₂ K) + B·(Q + K)·D²",
        operations="Those of the scorer: with [WeightNormAdditive](weight-norm-additive.md) `B·K·D²` to prepare, `B·Q·D²` "
        "for the queries and `B·Q·K·D` for the energies. Then `2·B·Q·K·log₂ K` for the expectation, in `Q·log₂ K` steps one "
        "after the other, and `B·Q·K·D` for the context.",
        memory="`4·B·Q·K·log₂ K` for the products of the scan and `8·B·Q·K` for energies and weights, beside what the scorer "
        "holds. Training keeps the steps of the scan too: as much again.",
        choose="training what will decode online, in step with its input",
        when=(
            "The training form of attention that never goes back and decodes while its input still comes in: speech, text to "
            "speech, transliteration. It cannot reorder, at any size and however long it is trained; and what has run off "
            "the end is gone. Set `initial_offset` low for long inputs, and check the hard form: that is what will decode."
        ),
        picture="Copying works. Reversing cannot: it begins at the end, from where nothing earlier can be reached. What the "
        "expectation still gets right it owes to mass that it holds back, which the hard form cannot do. Without noise, as "
        "in use.",
        example="""attention = SoftMonotonic(16).eval()
out = attention(torch.randn(1, 4, 16), torch.randn(1, 9, 16))
reached = out.weights[0].cumsum(-1)
print(bool((reached[1:] <= reached[:-1] + 1e-6).all()))  # mass moves to the right only, or off the end""",
        tests=_MONOTONIC,
        also=(expected_alignments,),
    ),
    Mechanism(
        kind=HardMonotonic,
        build=None,
        score="the first key from the last one on with σ(e) > ½",
        state="where the last query stopped",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="Those of the scorer: with [WeightNormAdditive](weight-norm-additive.md) `B·K·D²` to prepare, `B·Q·D²` "
        "for the queries and `B·Q·K·D` for the energies. Then `B·Q·K` comparisons, `Q` look-ups one after the other, and no "
        "product for the context.",
        memory="`4·B·Q·K` for the energies and `8·B·Q·K` for the next stop from each key, beside what the scorer holds.",
        choose="decoding with what SoftMonotonic has learnt",
        when=(
            "For decoding only: it takes one value and passes no gradient to the scores, so train "
            "[SoftMonotonic](soft-monotonic.md) and call its `hard()`. Where the soft form's weights are not near 0 and 1, "
            "the two differ: compare their accuracies before you ship."
        ),
        picture="With the parameters that SoftMonotonic learnt. Copying survives; where the expectation was spread out, the "
        "hard choice loses what that got right, and a row without weights has run off the end.",
        example="""soft = SoftMonotonic(16, initial_offset=0.0)
hard = soft.hard()  # shares its parameters
out = hard(torch.randn(1, 4, 16), torch.randn(1, 9, 16))
print(hard.offset is soft.offset, sorted(out.weights.unique().tolist())[:1], bool((out.weights.sum(-1) <= 1).all()))""",
        tests=_MONOTONIC,
        also=(stopping_points,),
    ),
    Mechanism(
        kind=MoChA,
        build=lambda: MoChA(WIDTH, chunk_size=3),
        score="a softmax over the w keys before each stop, in expectation",
        state="where the last query may have stopped",
        cost="B·Q·K·(D + log₂ K + w) + B·(Q + K)·D²",
        operations="Those of [SoftMonotonic](soft-monotonic.md), those of a second scorer, and about `3·B·Q·K·w` for the "
        "windows.",
        memory="That of [SoftMonotonic](soft-monotonic.md) and its second scorer, and about `13·B·Q·K·w` for the windows: "
        "their scores, masks, weights and shares.",
        choose="online decoding with a little reordering",
        when=(
            "[SoftMonotonic](soft-monotonic.md) with a soft look back over `chunk_size` keys, which local reordering and "
            "blurred borders (speech) need; it costs a second score. What lies further back than the window stays out of "
            "reach. With long windows over long inputs its memory grows as B·Q·K·w."
        ),
        picture="With `chunk_size=3`. Copying works. Reversing gives the three letters that one window holds, and then the "
        "process has run off the end; sorting gains a little over SoftMonotonic.",
        example="""attention = MoChA(16, chunk_size=3).eval()
out = attention(torch.randn(2, 4, 16), torch.randn(2, 9, 16))
print(tuple(out.weights.shape), bool((out.weights.sum(-1) <= 1 + 1e-6).all()))""",
        tests=_MONOTONIC,
        also=(expected_chunks,),
    ),
    Mechanism(
        kind=HardMoChA,
        build=None,
        score="a softmax over the w keys before the stop",
        state="where the last query stopped",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="Those of [HardMonotonic](hard-monotonic.md), those of a second scorer, and `B·Q·K·D` for the context.",
        memory="That of [HardMonotonic](hard-monotonic.md) and of its second scorer, and `4·B·Q·K` for the weights.",
        choose="decoding with what MoChA has learnt",
        when=(
            "For decoding only: train [MoChA](mocha.md) and call its `hard()`. It softens a hard choice by looking at the "
            "keys just before it, so it forgives a stop that comes a little late, and not one that comes too early."
        ),
        picture="With the parameters that MoChA learnt. Unlike HardMonotonic it keeps nearly all of what its soft form can do.",
        example="""soft = MoChA(16, chunk_size=3, initial_offset=0.0)
hard = HardMoChA(16, chunk_size=3)
hard.load_state_dict(soft.state_dict())  # or soft.hard(), which shares them
out = hard(torch.randn(2, 4, 16), torch.randn(2, 9, 16))
print(bool(((out.weights > 0).sum(-1) <= 3).all()))""",
        tests=_MONOTONIC,
    ),
]
