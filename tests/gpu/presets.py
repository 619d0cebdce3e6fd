"""Small runs of the presets on a GPU."""

import regard

TRANSLATION = ["luong", "bahdanau", "transformer-tiny", "tutorial-luong-concat", "tutorial-bahdanau", "tutorial-gru"]
CLASSIFICATION = ["bag", "bilstm", "hierarchical", "tutorial-bilstm", "combined", "transformer"]


def settings(files, tmp_path, data, **others):
    return {
        "data.train": [str(files / data)],
        "data.cache": str(files / "cache"),
        "out": str(tmp_path / "run"),
        "device": "cuda",
        "threads": 1,
        "training.max_steps": 8,
        "training.validate_every": 4,
        "training.tensorboard": False,
        **others,
    }


def config_of(preset, files, tmp_path, **others):
    data = "pairs.tsv" if preset in TRANSLATION else "labelled.tsv" if preset in CLASSIFICATION else "text.txt"
    small = {"tokenizers.source.size": 200, "tokenizers.target.size": 200} if preset == "transformer-tiny" else {}
    small |= {"tokenizer.size": 200} if preset == "language-tiny" else {}
    if preset.startswith("tutorial") and preset in TRANSLATION:  # no spaCy
        small |= {"tokenizers.source": {"kind": "whitespace"}, "tokenizers.target": {"kind": "whitespace"}}
    if preset == "tutorial-bilstm":
        small |= {"tokenizer": {"kind": "whitespace"}}
    return regard.load_preset(preset, settings(files, tmp_path, data, **small, **others))
