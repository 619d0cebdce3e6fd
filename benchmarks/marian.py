"""Train a MarianMT of Hugging Face with a run's shape in a plain PyTorch loop, on regard's batches. Prints one JSON line.

python -m benchmarks.marian CONFIG.yaml UPDATES PRECISION        # PRECISION: float32 or bfloat16 (autocast)

Seconds are those of the loop: batches, forward pass, loss, backward pass, update. The loss is PyTorch's cross entropy with
label smoothing.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from benchmarks.conversion import JOEYNMT, describe, lacks
from regard.config import TransformerConfig
from regard.config.loading import read_config
from regard.errors import RegardError
from regard.tasks.translation.config import TranslationConfig
from regard.text.batching import BucketBatchSampler
from regard.text.pairs.prepare import PairSchema
from regard.text.preparation import prepare_data
from regard.text.symbols import END, PAD, START

MARIAN = {**JOEYNMT, "norm_order": ("post",)}
"""Settings of a model that MarianMT supports."""


def build_marian(model: TransformerConfig, vocabulary_size: int) -> Any:
    """Build a MarianMT of the same shape, with sinusoidal positions and norms after each part.

    Source, target and output layer share one table of embeddings.

    Raises:
        RegardError: If the model has a part that MarianMT does not support.
    """
    if lacking := lacks(model, MARIAN):
        raise RegardError(f"the model has {lacking}, which MarianMT does not support; it supports {describe(MARIAN)}")
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary_size,
            d_model=model.hidden_size,
            encoder_layers=model.encoder_layers,
            decoder_layers=model.decoder_layers,
            encoder_ffn_dim=model.feed_forward_size,
            decoder_ffn_dim=model.feed_forward_size,
            encoder_attention_heads=model.num_heads,
            decoder_attention_heads=model.num_heads,
            dropout=model.layer_dropout,
            attention_dropout=model.attention_dropout,
            activation_dropout=model.activation_dropout,
            activation_function=model.feed_forward,
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=PAD,
            bos_token_id=START,
            eos_token_id=END,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
        )
    )


def count_trained(model: torch.nn.Module) -> int:
    """Return the number of trained weights; MarianMT's parameters include its sinusoids, which are not trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def train(config: TranslationConfig, updates: int, precision: str) -> dict[str, Any]:
    """Train for a number of updates, after two updates that are not counted."""
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    corpus = (data := prepare_data(PairSchema(config.data, config.tokenizers), seed=config.seed, progress=False)).train
    assert isinstance(config.model, TransformerConfig)
    model = build_marian(config.model, data.tokenizers[1].size).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=config.training.betas)
    sampler = BucketBatchSampler(
        corpus.source_lengths, corpus.target_lengths, batch_tokens=config.training.batch_tokens, seed=config.seed
    )
    tokens, start = 0, time.perf_counter()
    for number, indices in zip(range(updates + 2), sampler, strict=False):
        if number == 2:
            tokens, start = 0, time.perf_counter()
        batch = corpus.batch(indices)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(
                input_ids=batch.source,
                attention_mask=batch.source_mask.long(),
                decoder_input_ids=batch.target_in,
                use_cache=False,
            ).logits
        loss = functional.cross_entropy(
            logits.flatten(0, 1).float(),
            batch.target_out.flatten(),
            ignore_index=PAD,
            label_smoothing=config.training.label_smoothing,
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += int(batch.target_mask.sum())
    seconds = time.perf_counter() - start
    return {
        "parameters": count_trained(model),
        "tokens_per_second": tokens / seconds,
        "seconds": seconds,
        "loss": float(loss),
    }


def main(arguments: list[str]) -> None:
    """Train with the given configuration, and print the result."""
    match arguments:
        case [path, updates, "float32" | "bfloat16" as precision]:
            config = read_config(Path(path))
            assert isinstance(config, TranslationConfig)
            print(json.dumps(train(config, int(updates), precision)))
        case _:
            sys.exit(f"benchmarks.marian: got {' '.join(arguments) or 'nothing'}, expected:\n{__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
