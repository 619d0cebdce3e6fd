"""Training of models of real sizes: regard's updates, and a plain loop with PyTorch's own layers, on the same batches.

`benchmarks.gpu` calls it. Batches are random sequences that a model can learn: each word follows from the one before it, and a
target from its source. Both train for the same time after their first updates, which record or compile, and then read a batch
that neither has seen.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.transformer import running_layers
from regard.machine import prepared, resolve_machine
from regard.models.build import build_language_model, build_translator
from regard.presets import load_preset
from regard.tasks.language.train import TrainableLanguageModel
from regard.tasks.translation.train import TrainableTranslator
from regard.text.batching import Batch
from regard.training.folder import RunFolder
from regard.training.run import Run
from regard.training.updater import Update, Updater

PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "B200": 2250e12}
"""Floating-point operations per second of the matrix units in bfloat16, by a part of the GPU's name."""


@dataclass(frozen=True)
class Size:
    """One comparison: a preset, further settings, and the shape of its batches."""

    preset: str
    rows: int
    length: int
    words: int
    settings: dict[str, Any]

    @property
    def translates(self) -> bool:
        return self.preset.startswith("transformer")


# No dropout, so that the losses of both are comparable after a short time.
_PLAIN = {"model.embedding_dropout": 0.0, "model.layer_dropout": 0.0, "training.accumulate": 1}
_ADAM = {
    "training.optimizer": "adamw",
    "training.learning_rate": 3e-4,
    "training.schedule.kind": "constant",
    "training.clip_norm": 1.0,
}
SIZES = {
    "base": Size("transformer-base", 1024, 24, 32_000, _PLAIN | _ADAM | {"training.label_smoothing": 0.0}),
    "gpt2": Size("gpt2-small", 16, 1024, 50_000, _PLAIN | _ADAM),
}
_SMALL = {"model.hidden_size": 32, "model.num_heads": 2, "model.feed_forward_size": 64}


def tiny(size: Size) -> Size:
    """Return a comparison of the same kind that a CPU makes in seconds."""
    layers = dict.fromkeys(("model.encoder_layers", "model.decoder_layers") if size.translates else ("model.num_layers",), 1)
    return Size(size.preset, 4, 8, 60, size.settings | _SMALL | layers)


def make_batch(size: Size, seed: int) -> Batch:
    """Return a batch: the words of a row follow x ← 5x + 1, with a tenth of them random; a target is its source plus one."""
    draw = np.random.default_rng(seed)
    words = np.empty((size.rows, size.length + 1), np.int64)
    words[:, 0] = draw.integers(4, size.words, size.rows)
    for column in range(size.length):
        follows = (5 * words[:, column] + 1) % (size.words - 4) + 4
        words[:, column + 1] = np.where(draw.random(size.rows) < 0.1, draw.integers(4, size.words, size.rows), follows)
    ids = torch.from_numpy(words)
    mask = torch.ones(size.rows, size.length, dtype=torch.bool)
    if not size.translates:
        source = torch.full((size.rows, 1), 3)
        return Batch(source, mask[:, :1], ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), mask, torch.arange(size.rows))
    target = (ids + 1) % (size.words - 4) + 4
    return Batch(
        ids[:, 1:].contiguous(), mask, target[:, :-1].contiguous(), target[:, 1:].contiguous(), mask, torch.arange(size.rows)
    )


class PlainLanguageModel(nn.Module):
    """A decoder as one would write it: layer norm, one map for queries, keys and values, fused attention, GELU."""

    def __init__(self, words: int, width: int, layers: int, heads: int, inner: int, length: int) -> None:
        super().__init__()
        self.heads, self.words, self.positions = heads, nn.Embedding(words, width), nn.Embedding(length, width)
        norms = [nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)]) for _ in range(layers)]
        maps = [
            nn.ModuleList(
                [nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, inner), nn.Linear(inner, width)]
            )
            for _ in range(layers)
        ]
        self.norms, self.maps, self.norm = nn.ModuleList(norms), nn.ModuleList(maps), nn.LayerNorm(width)
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, batch: Any) -> Tensor:
        ids = batch.target_in
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for (first, second), (joint, out, inner, outer) in zip(self.norms, self.maps, strict=True):
            heads = joint(first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
            x = x + out(functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
            x = x + outer(functional.gelu(inner(second(x))))
        logits = functional.linear(self.norm(x), self.words.weight)
        return functional.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())


class PlainTranslator(nn.Module):
    """`nn.Transformer` with one table of embeddings, which is the output layer too."""

    def __init__(self, words: int, width: int, layers: tuple[int, int], heads: int, inner: int, length: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.body = nn.Transformer(width, heads, *layers, inner, dropout=0.0, batch_first=True)
        nn.init.normal_(self.words.weight, std=width**-0.5)

    def forward(self, batch: Any) -> Tensor:
        def embed(ids: Tensor) -> Tensor:
            places = torch.arange(ids.shape[1], device=ids.device)
            return self.words(ids) * self.words.embedding_dim**0.5 + self.positions(places)

        length = batch.target_in.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=batch.target_in.device).triu(1)
        padding = ~batch.source_mask
        features = self.body(
            embed(batch.source),
            embed(batch.target_in),
            tgt_mask=later,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        logits = functional.linear(features, self.words.weight)
        return functional.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())


def build_plain(size: Size, config: Any) -> nn.Module:
    model = config.model
    if size.translates:
        layers = model.encoder_layers, model.decoder_layers
        return PlainTranslator(size.words, model.hidden_size, layers, model.num_heads, model.feed_forward_size, size.length)
    return PlainLanguageModel(
        size.words, model.hidden_size, model.num_layers, model.num_heads, model.feed_forward_size, size.length
    )


class Rows:
    """Stands for prepared data: a sampler needs only lengths."""

    def __init__(self, size: Size) -> None:
        self.lengths = self.source_lengths = self.target_lengths = np.full(size.rows, size.length, np.int32)

    def __len__(self) -> int:
        return len(self.lengths)


@contextmanager
def ours(size: Size, device: str, **settings: Any) -> Any:
    """Yield regard's function that makes an update with a batch, and one that returns a batch's loss per word."""
    named = {"data.train": ["none.tsv"], "device": device, "training.max_steps": 100_000, **size.settings, **settings}
    config = load_preset(size.preset, named)
    kind = TrainableTranslator if size.translates else TrainableLanguageModel
    model: Any = (
        build_translator(config.model, source_size=size.words, target_size=size.words)
        if size.translates
        else build_language_model(config.model, vocabulary_size=size.words)
    )
    machine, data = resolve_machine(config), SimpleNamespace(train=Rows(size), dev=())
    training = config.training
    layers = running_layers(model, compiled=training.compile_layers, recomputed=training.recompute_layers)
    with TemporaryDirectory() as folder, prepared(machine, deterministic=training.deterministic), layers:
        run = Run(kind(config, data, model, None), folder=RunFolder(Path(folder)), machine=machine)
        updater = Updater(run)
        run.model.train()

        def make(batch: Batch) -> None:
            updater.make(Update([batch], [1.0], size.rows * size.length, 1, last=False))

        def loss(batch: Batch) -> float:
            with torch.no_grad(), machine.autocast():
                moved = type(batch)(**{name: one.to(machine.device) for name, one in vars(batch).items()})
                return float(run.task.nll(moved)) / (size.rows * size.length)

        yield make, loss


@contextmanager
def plain(size: Size, device: str, *, mode: str) -> Any:
    """Yield the same two functions of the plain loop: bfloat16, fused AdamW, clipping; `mode` is eager or torch.compile's."""
    config: Any = load_preset(size.preset, {"data.train": ["none.tsv"], **size.settings})
    model = build_plain(size, config).to(device)
    called: Callable[[Any], Tensor] = model if mode == "eager" else torch.compile(model, mode=mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.training.learning_rate, fused=True)

    def loss_of(batch: Batch) -> Tensor:
        moved = type(batch)(**{name: one.to(device) for name, one in vars(batch).items()})
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            return called(moved)

    def make(batch: Batch) -> None:
        if mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        loss_of(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def loss(batch: Batch) -> float:
        with torch.no_grad():
            return loss_of(batch).item()

    yield make, loss


def measure(size: Size, device: str, seconds: float, loop: Any) -> dict[str, float]:
    """Return tokens per second, the median time of an update, peak memory, MFU and the loss after `seconds` of updates."""
    batches = [make_batch(size, seed) for seed in range(8)]
    on_gpu = torch.device(device).type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with loop as (make, loss):
        began = time.perf_counter()
        for batch in batches[:3]:  # recording and compiling
            make(batch)
        wait()
        before, times = time.perf_counter() - began, [0.0]
        while sum(times) < seconds or len(times) == 1:
            start = time.perf_counter()
            make(batches[len(times) % len(batches)])
            wait()
            times.append(time.perf_counter() - start)
        last = loss(make_batch(size, 1_000))
    tokens = size.rows * size.length / statistics.median(times[1:])
    peak = next((speed for name, speed in PEAK.items() if on_gpu and name in torch.cuda.get_device_name()), None)
    found = {"tokens_per_second": tokens, "ms": 1e3 * statistics.median(times[1:]), "first_updates_s": before, "loss": last}
    if on_gpu:
        found["gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
    if peak is not None:
        found["mfu"] = operations(size) * tokens / peak
    return found


def operations(size: Size) -> float:
    """Return the floating-point operations of training for one target token: 6 for each weight of a map, and attention's."""
    model: Any = load_preset(size.preset, {"data.train": ["none.tsv"], **size.settings}).model
    width, inner, output = model.hidden_size, model.feed_forward_size, size.words * model.hidden_size
    layer, attention = 4 * width**2 + 2 * width * inner, 2 * size.length * width
    if size.translates:  # a source token for each target token; a decoder's layer has a second attention
        weights = model.encoder_layers * layer + model.decoder_layers * (layer + 4 * width**2) + output
        return 6.0 * (weights + (model.encoder_layers + 1.5 * model.decoder_layers) * attention)
    return 6.0 * (model.num_layers * (layer + attention / 2) + output)


def loops_of(size: Size, device: str, *, small: bool) -> dict[str, Callable[[], Any]]:
    """Return what begins each loop, by its name; tiny sizes have none that compiles."""
    half: dict[str, Any] = {"training.precision": "bfloat16"}
    loops: dict[str, Callable[[], Any]] = {
        "regard": lambda: ours(size, device, **half),
        "plain, eager": lambda: plain(size, device, mode="eager"),
    }
    if small:
        return loops
    return loops | {
        "regard, compiled layers": lambda: ours(size, device, **{"training.compile_layers": True, **half}),
        "plain, compiled": lambda: plain(size, device, mode="default"),
        "plain, compiled in CUDA graphs": lambda: plain(size, device, mode="reduce-overhead"),
    }


def compare(name: str, device: str, seconds: float, *, small: bool = False, only: Sequence[str] = ()) -> dict[str, Any]:
    """Train a size with regard and with plain loops in turn, and return what was measured of each, and regard's ratio."""
    size = tiny(SIZES[name]) if small else SIZES[name]
    found: dict[str, Any] = {}
    for loop, begin in loops_of(size, device, small=small).items():
        if only and loop not in only:
            continue
        torch.manual_seed(0)
        try:
            found[loop] = measure(size, device, seconds, begin())
        except Exception as error:  # one loop that fails must not end a session on a GPU
            found[loop] = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        torch.compiler.reset()
    speeds = {loop: row["tokens_per_second"] for loop, row in found.items() if "error" not in row}
    best = max((speed for loop, speed in speeds.items() if loop.startswith("plain")), default=None)
    mine = max((speed for loop, speed in speeds.items() if loop.startswith("regard")), default=None)
    return {"size": name, "loops": found, "ratio_to_the_fastest": mine / best if mine and best else None}
