from pathlib import Path

import pytest
from benchmarks import ours, rival

LOG = """\
2026-11-21 10:00:00,000 - INFO - joeynmt.model - Total params: 7445760
\t16-bits training: False
2026-11-21 10:00:01,500 - INFO - joeynmt.training - EPOCH 1
2026-11-21 10:00:11,000 - INFO - joeynmt.training - Epoch   1, Step:      227, Batch Loss:    68.07, Batch Acc: 0.085994, \
Tokens per Sec:      400, Lr: 0.001000
"""
EPOCHS = """\
2026-11-21 10:00:20,000 - INFO - joeynmt.training - Epoch   1, total training loss: 9.12, num. of seqs: 290, num. of tokens: \
3000, 10.0000[sec]
2026-11-21 10:00:40,500 - INFO - joeynmt.training - Epoch   2, total training loss: 8.12, num. of seqs: 290, num. of tokens: \
3000, 20.0000[sec]
2026-11-21 10:00:41,500 - INFO - joeynmt.training - Training ended after   2 epochs.
"""


def test_whole_epochs_are_counted_by_tokens_and_seconds():
    found = rival.parse_training(LOG + EPOCHS)
    assert (found.parameters, found.precision, found.tokens, found.seconds) == (7445760, "float32", 6000, 30.0)
    assert found.tokens_per_second == 200
    assert found.wall_seconds == 40


def test_a_run_bounded_by_updates_gives_the_harmonic_mean_of_its_speeds():
    second = LOG.splitlines()[-1].replace("     400", "     100").replace("10:00:11", "10:00:51")
    found = rival.parse_training(f"{LOG}{second}\n")
    assert found.tokens_per_second == pytest.approx(2 / (1 / 400 + 1 / 100))
    assert (found.tokens, found.seconds, found.wall_seconds) == (0, 0, 49.5)


def _joeynmt(**more):
    data = {"train": Path("a/train"), "dev": Path("a/val")}
    return rival.joeynmt_config(data=data, model_dir=Path("m"), epochs=6, validation_every=454, **more)


def _regard(**more):
    data = {"train": Path("a/train"), "dev": Path("a/val")}
    return ours.regard_config(data=data, out=Path("o"), cache=Path("c"), epochs=6, precision="bfloat16", **more)


def test_both_are_given_the_same_settings_but_for_the_learning_rate():
    theirs, our = _joeynmt(), _regard()
    decoder, encoder, training = theirs["model"]["decoder"], theirs["model"]["encoder"], theirs["training"]
    assert our.model.embedding_size == encoder["embeddings"]["embedding_dim"] == decoder["embeddings"]["embedding_dim"]
    assert our.model.encoder.hidden_size == encoder["hidden_size"]
    assert our.model.encoder.bidirectional == encoder["bidirectional"]
    assert our.model.encoder.embedding_dropout == encoder["dropout"]
    assert our.model.decoder.input_feeding == decoder["input_feeding"]
    assert our.model.decoder.readout_dropout == decoder["hidden_dropout"]
    assert our.training.batch_sentences == training["batch_size"]
    assert our.training.label_smoothing == training["label_smoothing"]
    assert our.training.clip_norm == training["clip_grad_norm"]
    assert our.training.max_epochs == training["epochs"]
    assert our.tokenizers.target.min_count == theirs["data"]["trg"]["voc_min_freq"]
    assert our.decoding.beam_size == theirs["testing"]["beam_size"]
    assert our.decoding.length_penalty == theirs["testing"]["beam_alpha"]
