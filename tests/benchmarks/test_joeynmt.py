import os
from pathlib import Path

import pytest
from benchmarks import joeynmt, ours, rival

from regard.config.loading import dump_config, load_config
from regard.errors import DataError, RegardError

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


def test_a_log_without_speed_is_refused_with_its_end():
    with pytest.raises(RegardError, match=r"contains no speed; its end:\n(.|\n)*CUDA error"):
        rival.parse_training("2026-11-21 10:00:00,000 - INFO - EPOCH 1\nCUDA error")


def test_seconds_of_decoding_are_the_last_ones_logged():
    assert rival.parse_decoding("Generation took 9.5[sec].\nGeneration took 12.2500[sec].") == 12.25
    with pytest.raises(RegardError, match="how long decoding took"):
        rival.parse_decoding("nothing")


def test_mending_takes_out_the_refused_argument_once(tmp_path):
    builders = tmp_path / "builders.py"
    builders.write_text(
        '        kwargs = {\n            "mode": mode,\n            "verbose": False,\n            "eps": 0.0,\n'
    )
    for _ in range(2):
        rival.mend(builders)
        assert builders.read_text() == '        kwargs = {\n            "mode": mode,\n            "eps": 0.0,\n'


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


def test_whole_epochs_are_validated_once_each_and_quick_runs_never():
    assert _joeynmt()["training"]["validation_freq"] == 454
    quick = _joeynmt(updates=15)["training"]
    assert (quick["updates"], quick["logging_freq"]) == (15, 3)
    assert quick["validation_freq"] % quick["logging_freq"] == 0  # JoeyNMT insists
    assert quick["validation_freq"] > 15
    assert _regard(updates=15).training.max_steps == 15


def test_a_token_budget_takes_the_place_of_the_64_sentences():
    training = _regard(batch_tokens=900).training
    assert (training.batch_tokens, training.batch_sentences) == (900, 0)


def test_our_configuration_is_a_valid_one():
    assert load_config(dump_config(_regard())) == _regard()


def test_missing_data_is_named_with_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"train\.lc\.norm\.tok\.en does not exist; set --data or REGARD_DATA"):
        joeynmt.find_data(tmp_path)


def test_the_first_sentences_are_copied_alike_for_both(tmp_path):
    for language in ("en", "de"):
        (tmp_path / f"test.{language}").write_text("".join(f"{language} {number}\n" for number in range(9)))
    copied = joeynmt.copy_sentences(tmp_path / "test", tmp_path / "first", 2)
    assert Path(f"{copied}.en").read_text() == "en 0\nen 1\n"
    assert Path(f"{copied}.de").read_text() == "de 0\nde 1\n"


def test_a_failed_command_is_reported_with_the_end_of_its_log(tmp_path):
    before = os.sched_getaffinity(0)
    try:
        with pytest.raises(RegardError, match=r"failed with exit code 3; the end of .*log:\n  no such thing"):
            rival.run(["sh", "-c", "echo no such thing; exit 3"], core=min(before), log=tmp_path / "log", note=str)
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("text", ["0", "-1", "x", "64,,128"])
def test_counts_are_refused_unless_whole_and_positive(text, capsys):
    with pytest.raises(SystemExit):
        joeynmt._options(["--joeynmt-batches", text])
    assert "is not a whole number of 1 or more" in capsys.readouterr().err
