"""Configuration of JoeyNMT 2.3.0 for a Transformer of the same shape as one of regard, over subwords."""

from pathlib import Path
from typing import Any

from benchmarks.conversion import JOEYNMT, describe, lacks, spellings
from benchmarks.rival import common_config
from regard.config import TransformerConfig
from regard.errors import RegardError


def write_vocabulary(path: Path, size: int) -> Path:
    """Write the vocabulary that source and target share, one symbol per line."""
    path.write_text("".join(f"{spelling}\n" for spelling in spellings(size)), encoding="utf-8")
    return path


def transformer_config(
    model: TransformerConfig,
    *,
    data: dict[str, Path],
    vocabulary: Path,
    model_dir: Path,
    updates: int = 1,
    batch_tokens: int = 4096,
    beam_size: int = 5,
    decoding_batch: int = 64,
) -> dict[str, Any]:
    """Return the whole configuration of a run.

    Args:
        model: Shape of the model.
        data: Paths of `train`, `dev` and `test` without the endings `.en` and `.de`. The files contain subwords.
        vocabulary: File that `write_vocabulary` wrote.
        model_dir: Folder of JoeyNMT's run.
        updates: Number of training updates, without validation.
        batch_tokens: Tokens in a training batch, including padding.
        beam_size: Beam size of the search; 1 is greedy.
        decoding_batch: Sentences decoded at once.

    Raises:
        RegardError: If the model has a part that JoeyNMT does not support.
    """
    if lacking := lacks(model, JOEYNMT):
        raise RegardError(f"the model has {lacking}, which JoeyNMT 2.3 does not support; it supports {describe(JOEYNMT)}")
    part = {
        "type": "transformer",
        "num_heads": model.num_heads,
        "hidden_size": model.hidden_size,
        "ff_size": model.feed_forward_size,
        "dropout": model.layer_dropout,
        "layer_norm": model.norm_order,
        "activation": model.feed_forward,
        "embeddings": {"embedding_dim": model.hidden_size, "scale": True, "dropout": model.embedding_dropout},
    }
    words = {"voc_file": str(vocabulary)}
    common = common_config(data, model_dir=model_dir, words=words, beam_size=beam_size, decoding_batch=decoding_batch)
    return common | {
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": 1e-3,
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": 2000,
            "clip_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "batch_size": batch_tokens,
            "batch_type": "token",
            "shuffle": True,
            "early_stopping_metric": "loss",
            "epochs": 1000,
            "updates": updates,
            "logging_freq": max(1, updates // 5),
            "validation_freq": 10**6 * max(1, updates // 5),  # JoeyNMT requires a multiple of logging_freq
            "overwrite": True,
            "keep_best_ckpts": 1,
            "print_valid_sents": [0],
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": {**part, "num_layers": model.encoder_layers},
            "decoder": {**part, "num_layers": model.decoder_layers},
        },
    }
