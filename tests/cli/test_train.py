"""From a command line to a configuration."""

import pytest

from regard.cli.main import main
from regard.cli.train import read_arguments
from regard.config import LuongDecoderConfig, SumConcatConfig
from regard.config.loading import setting_names
from regard.errors import RegardError, RequestError
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.translation.config import TranslationConfig


def test_layers_in_order(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("training: {max_epochs: 7, learning_rate: 1e-2}\ndata: {train: [other.txt]}\n")
    config = read_arguments(
        "translation",
        ["--preset", "tutorial-luong-concat", "--data.train", "deu.txt", f"--config={file}", "--training.max_epochs=3"],
    )
    assert config.data.train == ("deu.txt",)
    assert config.data.target == "de"
    assert config.training.max_epochs == 3
    assert config.training.learning_rate == 1e-2
    assert isinstance(config.model.decoder, LuongDecoderConfig)
    assert isinstance(config.model.decoder.attention, SumConcatConfig)


def test_folder_is_named_after_data_and_preset():
    assert read_arguments("translation", ["--data.train", "x/deu.txt.gz"]).out == "runs/deu"
    assert read_arguments("translation", ["--data.train", "x/deu.txt", "--preset", "luong"]).out == "runs/deu-luong"
    assert read_arguments("translation", ["--data.train", "deu.txt", "--out", "here"]).out == "here"


def test_files_with_commas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b.tsv").touch()
    assert read_arguments("translation", ["--data.train", "a,b.tsv"]).data.train == ("a,b.tsv",)
    assert read_arguments("translation", ["--data.train", "a.en,a.de", "--data.dev", "b.en, b.de"]).data.dev == ("b.en", "b.de")


def test_short_settings_and_flags():
    config = read_arguments(
        "translation", ["--data.train", "x", "--seed", "7", "--device", "cpu", "--threads", "2", "--overwrite"]
    )
    assert (config.seed, config.device, config.threads, config.overwrite) == (7, "cpu", 2, True)
    assert read_arguments("translation", ["--data.train", "x", "--data.max-pairs", "5"]).data.max_pairs == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "train translation: nothing to train on; name a file of sentence pairs with --data.train FILE"),
        (["--data.train", ""], "train translation: nothing to train on; name a file of sentence pairs with --data.train FILE"),
        (["--preset", "luong", "--data.train="], "train translation: nothing to train on; name a file of sentence pairs"),
        (["--data.train"], "train translation: --data.train needs a value: --data.train VALUE"),
        (["--data.train", "--overwrite"], "train translation: --data.train needs a value"),
        (
            ["deu.txt"],
            "train translation: unexpected argument 'deu.txt'; files are named by --data.train FILE or FILE,FILE, in "
            "quotation marks if a name contains spaces",
        ),
        (
            ["--data.train", "a.tsv", "--data.train=b.tsv"],
            "train translation: --data.train is given twice; name several files as --data.train FILE,FILE",
        ),
        (["--preset"], "argument --preset: expected one argument"),
        (["--preset", "tutorial-lstm", "--data.train", "x"], "no preset is named 'tutorial-lstm'; did you mean 'tutorial-"),
        (["--data.trian", "x"], "unknown setting 'data.trian'; did you mean 'data.train'?"),
        (["--train", "x"], "unknown setting 'train'; did you mean 'data.train'?"),
        (["--data.train", "x", "--training.learn", "1"], "unknown setting 'training.learn'"),
        (["--data.train", "x", "--training.learning_rate", "-1"], "training.learning_rate is -1, expected more than 0"),
        (["--data.train", "x", "--config", "none.yaml"], "cannot read the configuration none.yaml: No such file or directory"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(RegardError) as caught:
        read_arguments("translation", arguments)
    assert message in str(caught.value)


def shown(name, text):
    """Whether help shows a setting, or says that it is one of those shown above for another part."""
    parts = name.split(".")
    kinds = [f"--{'.'.join(parts[:length])}.kind " for length in range(1, len(parts))]
    again = [text.partition(kind)[2].partition("\n    --")[0] for kind in kinds if kind in text]
    repeated = any("Each kind has the settings shown above for" in " ".join(words.split()) for words in again)
    return f"--{name}" in text or repeated


def test_help_shows_what_is_often_set_and_how_to_see_more(capsys):
    assert main(["train", "translation", "--help"]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) < 100
    assert "--training.max_epochs  (default: 10; 1 or more)" in short
    assert "--training.ema_decay" not in short
    assert "(training, data, tokenizers, model, distillation, decoding)" in " ".join(short.split())
    assert main(["train", "translation", "-h", "training"]) == 0
    by_letter = capsys.readouterr().out
    assert main(["train", "translation", "--help", "training"]) == 0
    section = capsys.readouterr().out
    assert section == by_letter
    assert "--training.ema_decay" in section
    assert "with --training.schedule.kind cosine" in section
    assert "--data.train" not in section
    assert main(["train", "translation", "--help", "trainin"]) == 2
    assert "--help names 'trainin', expected a section of settings (training, data, " in (error := capsys.readouterr().err)
    assert "did you mean 'training'?" in error


def test_help_lists_every_setting(capsys):
    assert main(["train", "translation", "--help-all"]) == 0
    text = capsys.readouterr().out
    names = {name for name in setting_names(TranslationConfig) if not name.startswith("tokenizers.target.")}
    for name in names - {"model.kind", "task", "chosen"}:
        assert shown(name, text), name
    assert "--training.learning_rate  (default: 0.001; more than 0)\n          Peak learning rate of the schedule." in text
    assert "with --model.decoder.kind luong: Run the cell first" in text
    assert max(map(len, text.splitlines())) <= 128


def test_help_of_classification_lists_every_setting(capsys):
    assert main(["train", "classification", "--help-all"]) == 0
    text = capsys.readouterr().out
    fixed = {"model.bag.kind", "model.recurrent.kind", "model.encoder.kind"}  # there is one kind
    for name in set(setting_names(ClassificationConfig)) - {"task", "chosen"} - fixed:
        assert shown(name, text) or ".pooling." in name, name
    assert "with --model.kind bag: Embeddings of words" in text
    assert max(map(len, text.splitlines())) <= 128


def test_a_task_is_named_and_presets_belong_to_one(capsys):
    assert main(["train"]) == 0
    assert "regard train classification" in capsys.readouterr().out
    assert main(["train", "clasification", "--data.train", "x"]) == 2
    assert "there is no task 'clasification'; did you mean 'classification'?" in capsys.readouterr().err
    with pytest.raises(RequestError, match="train classification: preset 'luong' is for translation"):
        read_arguments("classification", ["--preset", "luong", "--data.train", "x"])
    with pytest.raises(RequestError, match="train translation: preset 'bag' is for classification"):
        read_arguments("translation", ["--preset", "bag", "--data.train", "x"])


def test_short_names_of_classification():
    config = read_arguments("classification", ["--data.train", "x.tsv", "--vectors", "glove.txt", "--folds", "5"])
    assert isinstance(config, ClassificationConfig)
    assert (config.data.vectors, config.data.folds, config.out) == ("glove.txt", 5, "runs/x")
    with pytest.raises(RequestError, match=r"--folds and --data.folds are the same setting; give only one of them"):
        read_arguments("classification", ["--data.train", "x.tsv", "--data.folds", "3", "--folds", "5"])
