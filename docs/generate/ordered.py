"""The mechanisms that depend on positions or on earlier queries: local, location-sensitive, coverage and monotonic ones."""

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
_HARD_FORM = (
    "In evaluation mode, such a model uses the hard form, {}, unless it was trained with "
    "`--model.decoder.attention.decoding soft`. If the scan reaches the end of the source without stopping, all weights of "
    "this word of the output and of all later ones are zero. If this happens often, train again with a larger "
    "`--model.decoder.attention.initial_offset` (default −1): the scan then stops earlier."
)
_COVERAGE = (BATTERY, "tests/contracts/cases/coverage.py", "tests/attention/test_coverage.py")
_MONOTONIC = (BATTERY, "tests/contracts/cases/monotonic.py", "tests/attention/test_monotonic.py")
_COVERAGE_OPERATIONS = (
    "`B·K·D²` to prepare the keys, once{}; then for each query, one after the other, `B·D²` for the query itself, `B·K·D` "
    "for its coverage, `B·K·D` for the scores and `B·K·D` for the context."
)
_ONE_BY_ONE = "Training keeps `4·B·Q·K·{}` for the backward pass, because the sum of keys and query differs for each query."

ORDERED = [
    Mechanism(
        kind=LocalMonotonic,
        build=lambda: LocalMonotonic(WIDTH, window=2),
        score="k·(W q) within a window around t",
        state="t, the number of queries so far",
        cost="B·Q·K·D + B·Q·D²",
        operations="The operations of the scorer: with [General](general.md) `B·Q·D²` for the queries, `B·Q·K·D` for "
        "the scores and `B·Q·K·D` for the context. The window only masks keys. It saves no operations.",
        memory="`B·Q·K` for the window, and the memory of the scorer: with General `4·B·Q·D` and `4·B·Q·K`.",
        choose="output t belongs to input t",
        when=(
            "Use it if output t belongs to input t or to a neighbour of it, as in spelling correction or tagging. "
            "It attends only to keys near position t. If the output has another order or length than the input, "
            "the right key is often outside the window. [LocalPredictive](local-predictive.md) predicts the position "
            "of its window instead."
        ),
        picture="This picture uses `window=2`. Reversing fails: at both ends, the right letter is outside the window. "
        "The letters in the middle are inside the window, but the model did not learn them either.",
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
        operations="`B·Q·D²` for the positions, about `4·B·Q·K` for the Gaussian, and the operations of the scorer: "
        "with [General](general.md) `B·Q·D²` for the queries, `B·Q·K·D` for the scores and `B·Q·K·D` for "
        "the context. The window saves no operations.",
        memory="Three times `4·B·Q·K`, for distances, scores and weights, and `8·B·Q·D` for the queries.",
        choose="the words written so far determine a single position to attend to",
        when=(
            "Each query predicts a position, and attends to a window around it, with the largest weights in the "
            "middle. Use it if each output depends on a few neighbouring inputs. The position is predicted as "
            "a fraction of the length, which is not exact for long inputs, and the weights do not sum to one. "
            "If the right position depends on the content of the keys, as in sorting, the window hides useful "
            "keys."
        ),
        picture="This picture uses `window=2`. In copying and reversing, the position depends on the number of letters "
        "written, so the query can predict it. But only keys inside the window have a gradient. If the window of a row was "
        "too far from the right letter at the start of training, the row never found this letter. In sorting, the position "
        "depends on the keys, which the query does not know.",
        example="""attention = LocalPredictive(16, window=2)
out = attention(torch.randn(1, 3, 16), torch.randn(1, 9, 16))
print(tuple(out.weights.shape), ((out.weights[0] > 0).sum(-1) <= 5).tolist(), bool((out.weights.sum(-1) < 1).all()))""",
        tests=_LOCAL,
    ),
    Mechanism(
        kind=LocationSensitive,
        build=lambda: LocationSensitive(WIDTH, num_filters=8, kernel_size=5),
        score="v·tanh(W_q q + W_k k + U (F ∗ α_{t−1}) + b)",
        state="the weights of the previous query",
        cost="B·Q·K·C·(D + R), query by query",
        operations="`B·K·D²` to prepare the keys, once; then for each query, one after the other, `B·D²` for the query itself, "
        "`B·K·R·C` for C filters of R taps, `B·K·C·D` for their features, `B·K·D` for the scores and `B·K·D` for the context.",
        memory="`4·B·K·D` for the prepared keys, another `4·B·K·D` for the sum with each query, and `4·B·Q·K` for the weights. "
        + _ONE_BY_ONE.format("(D + C)"),
        choose="inputs are long and read from left to right, as in speech to text and text to speech",
        when=(
            "Its score depends on the weights of the previous query, so it can learn to move forward from there. "
            "In long inputs, this prevents skipped and repeated parts. It is slower, because it needs a loop "
            "over the queries with a convolution for each. For translation, where the order of words changes, "
            "it gains little over [Additive](additive.md)."
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
        memory="`4·B·K·D` for the prepared keys, another `4·B·K·D` for the sum with each query, and `4·B·Q·K` for the weights. "
        + _ONE_BY_ONE.format("D"),
        choose="no part of the input may appear twice in the output, as in summaries",
        when=(
            "Its score depends on the sum of the earlier weights of each key, and its loss increases if a key "
            "is attended to again. Both reduce repetition and omission in summaries and translations. If some "
            "keys must be attended to twice, give the loss a smaller weight. If the model does not repeat itself, "
            "use [Additive](additive.md), which is faster because it needs no loop over the queries."
        ),
        picture="This model was trained with the coverage loss, with a factor of 1. Its weights are sharper than "
        "those of Additive.",
        example="""attention = Coverage(16)
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 16))
print(out.loss.ndim, 0 <= out.loss.item() <= 1, torch.allclose(out.loss, coverage_loss(out.weights)))""",
        tests=_COVERAGE,
        settings="Training then minimises the usual loss plus the coverage loss times `--training.attention_loss_weight` "
        "(default 1; 0 leaves the coverage loss out). The column `attention_loss` of `logs/metrics.csv` shows the coverage "
        "loss before this multiplication.",
        also=(coverage_loss,),
    ),
    Mechanism(
        kind=FertilityCoverage,
        build=lambda: FertilityCoverage(WIDTH),
        score="v·tanh(W_q q + W_k k + w_c c_t/Φ_k)",
        state="the sum of all weights so far",
        cost="B·Q·K·D, query by query",
        operations=_COVERAGE_OPERATIONS.format(", and `B·K·D` for their fertilities"),
        memory="`4·B·K·D` for the prepared keys and `4·B·K` for the fertilities, another `4·B·K·D` for the sum with "
        "each query, and `4·B·Q·K` for the weights. " + _ONE_BY_ONE.format("D"),
        choose="some source words become two target words, or none",
        when=(
            "It is like [Coverage](coverage.md), but divides the coverage of each source word by a fertility: "
            "the number of target words that it is expected to become. A word of fertility two can be attended "
            "to twice. It has no loss; add `coverage_loss` if you want one. If the model cannot learn fertilities "
            "from the data, it behaves like Coverage."
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
        score="expectation of a scan that stops at a key with probability σ(e)",
        state="the probability that the last query stopped at each key",
        cost="B·Q·K·(D + log₂ K) + B·(Q + K)·D²",
        operations="The operations of the scorer: with [WeightNormAdditive](weight-norm-additive.md) `B·K·D²` to prepare, "
        "`B·Q·D²` for the queries and `B·Q·K·D` for the energies. Then `2·B·Q·K·log₂ K` for the expectation, "
        "in `Q·log₂ K` steps one after the other, and `B·Q·K·D` for the context.",
        memory="`4·B·Q·K·log₂ K` for the products of the scan and `8·B·Q·K` for energies and weights, and the memory "
        "of the scorer. Training also keeps the steps of the scan, which doubles this.",
        choose="you train a model that writes output while its input still arrives",
        when=(
            "Use it to train models that write output while their input still arrives, as in speech recognition "
            "and transliteration. Its position never moves back, so it cannot learn tasks in which the order changes. "
            "Once the position has passed the last key, all weights are zero. For long inputs, set a low `initial_offset`, "
            "and test the hard form too, because it is used after training."
        ),
        picture="Copying works. Reversing is impossible: the output begins with the last letter, and the position "
        "cannot move back from there. The soft form still gets some letters right, because it can leave a part of its "
        "weight at earlier letters. The hard form cannot do that. The picture was made without the "
        "noise that training adds, as when a trained model is used.",
        example="""attention = SoftMonotonic(16).eval()
out = attention(torch.randn(1, 4, 16), torch.randn(1, 9, 16))
reached = out.weights[0].cumsum(-1)
print(bool((reached[1:] <= reached[:-1] + 1e-6).all()))  # mass moves to the right only, or off the end""",
        tests=_MONOTONIC,
        settings=_HARD_FORM.format("[HardMonotonic](hard-monotonic.md)"),
        also=(expected_alignments,),
    ),
    Mechanism(
        kind=HardMonotonic,
        build=None,
        score="the first key with σ(e) > ½, from the last chosen key on",
        state="where the last query stopped",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="The operations of the scorer: with [WeightNormAdditive](weight-norm-additive.md) `B·K·D²` to prepare, "
        "`B·Q·D²` for the queries and `B·Q·K·D` for the energies. Then `B·Q·K` comparisons, `Q` look-ups "
        "one after the other, and no product for the context.",
        memory="`4·B·Q·K` for the energies and `8·B·Q·K` for the next stop from each key, and the memory of the scorer.",
        choose="you decode with a model that was trained with SoftMonotonic",
        when=(
            "Use it for decoding only. It chooses one value, so the scores get no gradient. "
            "Train [SoftMonotonic](soft-monotonic.md), "
            "and call its method `hard()`. If the weights of the soft form are not close to 0 and 1, the two "
            "forms differ: compare their accuracies before you use the hard form."
        ),
        picture="The parameters are those of the trained SoftMonotonic. Copying still works. Where the soft form "
        "distributed its weights over several letters, the hard form makes more mistakes. In a row without "
        "weights, the position is past the last letter.",
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
        score="a softmax over the w = `chunk_size` keys before each stop, in expectation",
        state="the probability that the last query stopped at each key",
        cost="B·Q·K·(D + log₂ K + w) + B·(Q + K)·D²",
        operations="The operations of [SoftMonotonic](soft-monotonic.md), those of a second scorer, and about `3·B·Q·K·w` "
        "for the windows of w = `chunk_size` keys.",
        memory="The memory of [SoftMonotonic](soft-monotonic.md) and of a second scorer, and about `13·B·Q·K·w` "
        "for the windows of w = `chunk_size` keys: their scores, masks, weights and shares.",
        choose="you decode while the input arrives, and the order changes a little",
        when=(
            "It is like [SoftMonotonic](soft-monotonic.md), but also attends to the `chunk_size` keys before "
            "its position, with a second score. Use it if the order changes locally, or if the borders between "
            "inputs are not sharp, as in speech. It cannot attend to earlier keys. For long windows and long "
            "inputs it needs much memory (B·Q·K·w)."
        ),
        picture="This picture uses `chunk_size=3`. Copying works. In reversing, the first three letters can be right, "
        "because they are in one window; then the position is past the last letter. Sorting is a little better "
        "than with SoftMonotonic.",
        example="""attention = MoChA(16, chunk_size=3).eval()
out = attention(torch.randn(2, 4, 16), torch.randn(2, 9, 16))
print(tuple(out.weights.shape), bool((out.weights.sum(-1) <= 1 + 1e-6).all()))""",
        tests=_MONOTONIC,
        settings=_HARD_FORM.format("[HardMoChA](hard-mocha.md)"),
        also=(expected_chunks,),
    ),
    Mechanism(
        kind=HardMoChA,
        build=None,
        score="a softmax over the w = `chunk_size` keys before the stop",
        state="where the last query stopped",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="The operations of [HardMonotonic](hard-monotonic.md), those of a second scorer, and `B·Q·K·D` for "
        "the context.",
        memory="The memory of [HardMonotonic](hard-monotonic.md) and of a second scorer, and `4·B·Q·K` for the weights.",
        choose="you decode with a model that was trained with MoChA",
        when=(
            "Use it for decoding only: train [MoChA](mocha.md), and call its method `hard()`. It also attends "
            "to the keys just before the chosen position. The right key is therefore still found if the position "
            "is a little too late, but not if it is too early."
        ),
        picture="The parameters are those of the trained MoChA. Unlike HardMonotonic, it is nearly as good as its soft form.",
        example="""soft = MoChA(16, chunk_size=3, initial_offset=0.0)
hard = HardMoChA(16, chunk_size=3)
hard.load_state_dict(soft.state_dict())  # or soft.hard(), which shares them
out = hard(torch.randn(2, 4, 16), torch.randn(2, 9, 16))
print(bool(((out.weights > 0).sum(-1) <= 3).all()))""",
        tests=_MONOTONIC,
    ),
]
