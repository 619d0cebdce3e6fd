import numpy as np
import pytest

from regard.errors import RequestError, ShapeError
from regard.records import AttentionRecord, record, rollout
from regard.records.through_layers import rollout_across


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    array = np.random.default_rng(seed).random(shape) + 0.01
    return array / array.sum(-1, keepdims=True)


def test_two_layers_by_hand():
    """Each state keeps half of itself and takes half of what it attends to, twice."""
    first = [[1.0, 0.0], [1.0, 0.0]]  # both look at the first word: [[1, 0], [½, ½]] with the stream
    second = [[0.0, 1.0], [0.0, 1.0]]  # both look at the second: [[½, ½], [0, 1]]
    np.testing.assert_allclose(rollout(np.array([first, second])), [[0.75, 0.25], [0.5, 0.5]])


def test_by_another_formula():
    """Σ over all paths through the layers, each weighing the product of its steps."""
    weights = rows(3, 2, 4, 4)
    expected = np.zeros((4, 4))
    for a in range(4):
        for b in range(4):
            for c in range(4):
                for d in range(4):
                    steps = [(c, d), (b, c), (a, b)]  # layer 0 reads the input d
                    path = [0.5 * weights[i, :, x, y].mean() + 0.5 * (x == y) for i, (x, y) in enumerate(steps)]
                    expected[a, d] += np.prod(path)
    np.testing.assert_allclose(rollout(weights), expected, atol=1e-12)
    np.testing.assert_allclose(rollout(list(weights.mean(1))), expected, atol=1e-12)


def test_rows_that_do_not_sum_to_one_are_brought_there():
    np.testing.assert_allclose(rollout(3 * rows(2, 5, 5)).sum(-1), 1)


def test_across_equals_rollout_of_one_long_sequence():
    """Source and target words side by side: a decoder's layer is two steps of one large matrix."""
    source, target, layers = 3, 4, 2
    encoder, own, across = rows(source, source), rows(layers, 2, target, target), rows(layers, 2, target, source, seed=1)
    stream = np.block([[encoder, np.zeros((source, target))], [np.zeros((target, source)), np.eye(target)]])
    for d, c in zip(own.mean(1), across.mean(1), strict=True):
        within = np.block([[encoder, np.zeros((source, target))], [np.zeros((target, source)), 0.5 * d + 0.5 * np.eye(target)]])
        within[:source, :source] = np.eye(source)
        over = np.block([[np.eye(source), np.zeros((source, target))], [0.5 * c, 0.5 * np.eye(target)]])
        stream = over @ within @ stream
    share = stream[source:, :source]
    np.testing.assert_allclose(rollout_across(encoder, own, across), share / share.sum(-1, keepdims=True), atol=1e-12)


def test_of_a_record_it_is_a_site_to_draw(tmp_path):
    encoder, own, across = rows(2, 3, 3, 3), rows(2, 3, 2, 2), rows(2, 3, 2, 3)
    sites = {f"{name}.{i}": w[i] for name, w in (("encoder", encoder), ("decoder", own), ("cross", across)) for i in range(2)}
    made = record(sites, ["a", "b", "c"], ["x", "y"])
    rolled = made.rollout().rollout("decoder").rollout("cross").rollout()
    assert isinstance(rolled, AttentionRecord)
    assert rolled.sites == (*made.sites, "encoder.rollout", "decoder.rollout", "cross.rollout")
    np.testing.assert_allclose(rolled.matrix("encoder.rollout"), rollout(encoder), atol=1e-6)
    np.testing.assert_allclose(rolled.weights["decoder.rollout"], rollout(own), atol=1e-6)
    np.testing.assert_allclose(rolled.matrix("decoder.rollout")[:, 0], rollout(own)[:, 1], atol=1e-6)  # column 0: the start
    np.testing.assert_allclose(rolled.matrix("cross.rollout"), rollout_across(rollout(encoder), own, across), atol=1e-6)
    rolled.save(tmp_path / "grid.png", site="encoder")
    assert AttentionRecord.from_json(rolled.to_json()) == rolled


def test_refusals(unchecked):
    made = record({"encoder.0": rows(2, 2), "encoder.2": rows(2, 2)}, ["a", "b"], [])
    with pytest.raises(
        RequestError, match=r"every layer of the encoder family from encoder.0 on, but the record has encoder.0, en"
    ):
        made.rollout()
    with pytest.raises(RequestError, match=r"the record has no site decoder.0; record all layers"):
        made.rollout("cross")
    with pytest.raises(RequestError, match="there is no family 'pool', expected one of encoder, decoder, cross"):
        made.rollout("pool")
    with pytest.raises(ShapeError, match=r"rollout: got layers of shapes \(2, 3\), expected one or more, all \(S, S\)"):
        rollout([np.zeros((2, 3))])
    with pytest.raises(ShapeError, match="got layers of shapes none"):
        rollout([])
    with pytest.raises(ShapeError, match="got 1 layers of self-attention and 0 of cross-attention, expected the same number"):
        rollout_across(np.eye(2), [np.eye(2)], [])
