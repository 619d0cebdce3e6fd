"""regard's part of a comparison: each step runs in a process of its own, whose last line is JSON.

python -m benchmarks.ours train CONFIG.yaml
python -m benchmarks.ours decode MODEL SOURCES OUT BATCH_TOKENS…
"""

import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from regard.config import (
    AdditiveConfig,
    DataConfig,
    DecodingConfig,
    EncoderConfig,
    LinearDecayConfig,
    LuongDecoderConfig,
    RecurrentConfig,
    TokenizersConfig,
    WhitespaceConfig,
)
from regard.config.loading import read_config
from regard.tasks.translation.config import TranslationConfig, TranslationTrainingConfig


def regard_config(
    *,
    data: dict[str, Path],
    out: Path,
    cache: Path,
    epochs: int,
    precision: Literal["float32", "bfloat16"],
    updates: int = 0,
    batch_tokens: int = 0,
) -> TranslationConfig:
    """Return a configuration with the model, data, batches, dropout and loss of `benchmarks.rival.joeynmt_config`.

    The learning rate and the moving average are regard's own.

    Args:
        data: Paths of `train` and `dev` without the endings `.en` and `.de`.
        out: Folder of the run.
        cache: Folder of the prepared data.
        epochs: Number of epochs.
        precision: Number format of the forward pass.
        updates: Maximum number of updates, with validation of the loss alone; 0 for no limit.
        batch_tokens: Token budget of a batch; 0 for 64 sentences.
    """
    words = WhitespaceConfig(min_count=2)
    quick = updates > 0
    return TranslationConfig(
        data=DataConfig(
            train=_sides(data["train"]),
            dev=_sides(data["dev"]),
            source="en",
            target="de",
            max_tokens=100,
            normalization="none",
            drop_repeats=False,
            cache=str(cache),
        ),
        tokenizers=TokenizersConfig(source=words, target=words),
        model=RecurrentConfig(
            embedding_size=256,
            encoder=EncoderConfig(cell="gru", hidden_size=256, embedding_dropout=0.3),
            bridge="linear",
            decoder=LuongDecoderConfig(
                cell="gru",
                hidden_size=256,
                attention=AdditiveConfig(),
                readout="attentional",
                input_feeding=True,
                embedding_dropout=0.3,
                readout_dropout=0.3,
            ),
        ),
        training=TranslationTrainingConfig(
            max_epochs=1 if quick else epochs,
            max_steps=updates,
            batch_tokens=batch_tokens or 64 * 101,
            batch_sentences=0 if batch_tokens else 64,
            learning_rate=2e-3,
            schedule=LinearDecayConfig(warmup_steps=200),
            ema_decay=0.998,
            clip_norm=1.0,
            label_smoothing=0.1,
            precision=precision,
            validation_pairs=0 if quick else 10**6,
            monitor="loss" if quick else "bleu",
        ),
        decoding=DecodingConfig(beam_size=5),
        out=str(out),
        overwrite=True,
        device="cpu",
        threads=1,
    )


def _sides(path: Path) -> tuple[str, str]:
    return f"{path}.en", f"{path}.de"


def train(config: Path) -> dict[str, Any]:
    """Train, and return what the run itself counted."""
    import regard
    from regard.training.folder import RunFolder

    wanted = read_config(config)
    translator = regard.fit(wanted)
    state, _ = RunFolder(wanted.out).load_checkpoint()
    assert state is not None
    progress = state["progress"]
    return {
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        "vocabularies": [translator.bundle.parts.source.size, translator.bundle.parts.target.size],
        "updates": progress["step"],
        "tokens": progress["count"],
        "seconds": progress["seconds"],
        "tokens_per_second": progress["count"] / progress["seconds"],
        "wall_seconds": progress["seconds"] + progress["validation_seconds"],
    }


def decode(folder: Path, sources: Path, out: Path, budgets: list[int]) -> dict[str, Any]:
    """Translate a file with beam 5 for each precision and token budget, and write the texts of the fastest run to `out`."""
    import torch

    import regard
    from regard.tasks.translation.predict import Translator

    torch.set_num_threads(1)
    loaded = regard.load(folder, device="cpu")
    texts = sources.read_text(encoding="utf-8").splitlines()
    seconds: dict[str, float] = {}
    for precision in ("float32", "bfloat16"):
        for budget in budgets:
            decoding = replace(loaded.config.decoding, batch_tokens=budget, precision=precision)
            translator = Translator(replace(loaded.bundle, config=replace(loaded.config, decoding=decoding)))
            translator.translate(texts[:1], beam_size=5, record=())  # the weights are packed once per model, not once per file
            start = time.perf_counter()
            found = translator.translate(texts, beam_size=5, record=())
            taken = time.perf_counter() - start
            if taken < min(seconds.values(), default=math.inf):
                out.write_text("".join(f"{translation.text}\n" for translation in found), encoding="utf-8")
            seconds[f"{budget} {precision}"] = taken
    return {"sentences": len(texts), "seconds": seconds}


def main(arguments: list[str]) -> None:
    """Run the step that is named, and print the result."""
    match arguments:
        case ["train", config]:
            print(json.dumps(train(Path(config))))
        case ["decode", folder, sources, out, *budgets] if budgets:
            print(json.dumps(decode(Path(folder), Path(sources), Path(out), [int(budget) for budget in budgets])))
        case _:
            sys.exit(f"benchmarks.ours: got {' '.join(arguments) or 'nothing'}, expected one of:\n{__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
