from benchmarks.arithmetic import Lengths, Shape, operations_per_target_token

from regard.config import EncoderConfig, LuongDecoderConfig, RecurrentConfig
from regard.models.build import build_translator


def test_operations_of_one_pair_worked_by_hand():
    # E = 2, H = 3, V = 5; two source tokens, one target token.
    encoder = 2 * (2 * 3 * 3 * (2 + 3)) + 2 * (6 * 3)  # two directions of three gates; keys from 6 to 3
    decoder = 3 * 3 * (2 + 3 + 3) + 3 * 3 + 9 * 3 + 3 * 5  # cell, query, attentional layer, words
    attention, bridge = 2 * (3 + 6), 6 * 3
    found = operations_per_target_token(Shape(embedding=2, hidden=3, target_words=5), Lengths(1, 2, 1, 2))
    assert found == 6 * (encoder + decoder + attention + bridge)


def test_operations_agree_with_the_weights_of_the_model():
    """Each weight matrix that is no embedding is used once for each token of its side, the bridge's once for each pair."""
    size = 16
    config = RecurrentConfig(
        embedding_size=size,
        encoder=EncoderConfig(hidden_size=size),
        decoder=LuongDecoderConfig(cell="gru", hidden_size=size, input_feeding=True),
    )
    model = build_translator(config, source_size=11, target_size=13)
    named = model.named_parameters()
    weights = sum(values.numel() for name, values in named if "weight" in name and "embedding" not in name)
    attending = 2 * size  # the context has no weight, and the score's is among the model's
    found = operations_per_target_token(Shape(embedding=size, hidden=size, target_words=13), Lengths(1, 1, 1, 1))
    assert found == 6 * (weights + attending)
