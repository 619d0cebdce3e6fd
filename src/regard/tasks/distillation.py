"""Distillation: a model learns from the word probabilities of trained models, its teachers, in addition to the gold words.

At target token t, the model learns from p(y), the mean of the teachers' probabilities. Only the most probable words y are kept,
and their probabilities are rescaled to sum to one. Without label smoothing, the loss is

    loss_t = (1 − λ)·(−log q(gold)) + λ·(−Σ_y p(y) log q(y)).

The teachers read the training data once, before the first update. Their probabilities are kept in a memory-mapped file, in the
cache of prepared data, so that a second student of the same teachers on the same data can start at once.

Reference:
    Hinton, Vinyals, Dean 2015, Distilling the Knowledge in a Neural Network; Kim & Rush 2016, Sequence-Level Knowledge
    Distillation, section 3.1 (word level).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.bundle import load_bundle, read_start
from regard.bundle.bundle import WEIGHTS
from regard.config import DistillationConfig
from regard.config.fields import Role, settings_with
from regard.config.loading import Layer
from regard.errors import ConfigError, RequestError
from regard.layers.cross_entropy import CHUNK_ELEMENTS, SoftTargets
from regard.machine import resolve_machine, to_device
from regard.models.ensemble import Ensemble
from regard.plurals import counted
from regard.processes.ranks import read_ranks
from regard.task import Bundle, find_task
from regard.text.bars import late_bars
from regard.text.batching import Batch, length_batches
from regard.text.cache import hash_files, is_whole, publish, workspace
from regard.text.corpora import EncodedCorpus, TextCorpus
from regard.text.pairs.gold import AlignedBatch

FORMAT_VERSION = 2
"""Version of the file of probabilities. Increase it when a change of the code gives another file for the same teachers and
data."""

_WORD = np.dtype([("word", np.int32), ("probability", np.float16)])
_FILE = "words.npy"


def load_teachers(config: Any) -> list[Bundle]:
    """Load the teachers of a run, if its settings (`distillation`) name any, and check that they fit each other."""
    folders = config.distillation.teachers
    bundles: list[Bundle] = []
    for folder in folders:
        try:
            bundle = load_bundle(folder)
        except RequestError as error:
            raise ConfigError(
                f"the teacher in '{folder}' has a part that is your own object, which cannot be loaded from its folder; a "
                "teacher must be a model that regard can build from its folder alone"
            ) from error
        _check_task(folder, bundle.config.task, config.task)
        if bundles and bundle.model.vocabulary != bundles[0].model.vocabulary:
            raise ConfigError(
                f"the teacher in '{folder}' has another vocabulary than the one in '{folders[0]}'; teachers must share "
                "their vocabularies, so train them on the same data with the same tokenizers and a file of dev data "
                "(--data.dev), without which another seed trains on other lines"
            )
        bundles.append(bundle)
    return bundles


def _check_task(folder: str | Path, task: str, expected: str) -> None:
    if task != expected:
        theirs, ours = (find_task(name).words.predictor for name in (task, expected))
        raise ConfigError(f"the teacher in '{folder}' is {theirs}, expected {ours}")


def teaching_layer(folder: str | Path, task: str) -> Layer:
    """Return the settings that a student takes from its first teacher: the tokenizers, and how text is read."""
    config = read_start(folder).config
    _check_task(folder, config.task, task)
    return Layer({"task": task, **settings_with(Role.VOCABULARY, config), **settings_with(Role.READING, config)})


@dataclass(frozen=True)
class TaughtWords:
    """The teachers' most probable words at each target token of the training data."""

    table: npt.NDArray[Any]
    """The K words and their probabilities for each of N target tokens, (N,K), in a memory-mapped file, in the order of the
    corpus."""
    starts: npt.NDArray[np.int64]
    """Row of `table` at which each example begins; the last number is N, the number of rows."""
    weight: float
    """λ, the share of the teachers in the loss."""

    @property
    def kept(self) -> float:
        """Total probability that the teachers give to the kept words of a token, averaged over tokens."""
        return float(self.table["probability"].sum(dtype=np.float64) / len(self.table))

    def add_to(self, batch: Batch) -> "TaughtBatch":
        """Return a copy of a batch with the teachers' words and probabilities added. The batch must be on the CPU."""
        rows = np.concatenate([np.arange(self.starts[one], self.starts[one + 1]) for one in batch.index.tolist()])
        found = self.table[rows]
        words = torch.zeros(*batch.target_mask.shape, found.shape[1], dtype=torch.long)
        probabilities = torch.zeros(words.shape)
        words[batch.target_mask] = torch.from_numpy(found["word"].astype(np.int64))
        kept = torch.from_numpy(found["probability"].astype(np.float32))
        probabilities[batch.target_mask] = kept / kept.sum(-1, keepdim=True)  # float16 has rounded them, too
        kind = TaughtAlignedBatch if isinstance(batch, AlignedBatch) else TaughtBatch
        return kind(**vars(batch), words=words, probabilities=probabilities)

    def targets(self, batch: Batch) -> SoftTargets:
        """Return the soft targets of a batch that `add_to` returned, with a row for each position, including padding."""
        assert isinstance(batch, TaughtBatch)
        return SoftTargets(batch.words.flatten(0, 1), batch.probabilities.flatten(0, 1), self.weight)


@dataclass(frozen=True)
class TaughtBatch(Batch):
    """A batch with the teachers' most probable words and their probabilities."""

    words: Int[Tensor, "B T K"]
    """The words at each target token; those at padding have no meaning."""
    probabilities: Float[Tensor, "B T K"]
    """Probabilities of `words`, which sum to one at each target token; those at padding have no meaning."""


@dataclass(frozen=True)
class TaughtAlignedBatch(AlignedBatch, TaughtBatch):
    """A batch with gold alignments, and with the teachers' most probable words and their probabilities."""


def hash_teachers(teachers: Sequence[Bundle]) -> list[str]:
    """Return a hash of each teacher's weights."""
    return [bundle.signature["files"][WEIGHTS] for bundle in teachers]


def describe_teachers(config: DistillationConfig, words: TaughtWords) -> str:
    """Describe in one line the teachers and the share of their probability that the kept words have."""
    return (
        f"learning from {counted(len(config.teachers), 'teacher')} ({', '.join(config.teachers)}), with weight "
        f"{config.weight:g}: the {counted(words.table.shape[1], 'most probable word')} at each token hold {words.kept:.1%} of "
        "the probability on average"
    )


def read_with_teachers(
    teachers: Sequence[Bundle],
    corpus: EncodedCorpus | TextCorpus,
    lengths: npt.NDArray[np.int32],
    config: Any,
    *,
    progress: bool,
) -> TaughtWords:
    """Compute the teachers' probabilities at the target tokens (`lengths` of each example), or read them from the cache.

    Raises:
        DataError: If the cache cannot be written or read back.
    """
    machine = resolve_machine(config, read_ranks())
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    named = {
        "format": FORMAT_VERSION,
        "corpus": hash_files([str(corpus.path)]),
        "teachers": hash_teachers(teachers),
        "words": config.distillation.words,
        "precision": machine.precision,
    }
    name = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:32]
    entry = corpus.path.parent.with_name(f"teachers-{name}")

    def load() -> npt.NDArray[Any] | None:
        return np.load(entry / _FILE, mmap_mode="r", allow_pickle=False) if is_whole(entry) else None

    def make(folder: Path) -> None:
        models: list[Any] = [bundle.model for bundle in teachers]
        model, size = Ensemble(models).to(machine.device).eval(), models[0].output_weight()[0].shape[0]
        shape = (int(starts[-1]), min(config.distillation.words, size))
        table = np.lib.format.open_memmap(folder / _FILE, mode="w+", dtype=_WORD, shape=shape)
        batches = length_batches(lengths, config.training.batch_tokens)
        with torch.no_grad(), late_bars(shown=progress) as bars:
            bar = bars.add_task("reading the data with the teachers", total=len(batches))
            for indices in batches:  # by length; the rows of an example stay together, in the order of the corpus
                batch = to_device(corpus.batch(indices), machine.device)
                with machine.autocast():
                    probabilities, words = _most_probable(model, batch, shape[1], size)
                rows = np.concatenate([np.arange(starts[one], starts[one + 1]) for one in indices])
                found = np.empty((len(rows), shape[1]), _WORD)
                found["word"], found["probability"] = words.cpu().numpy(), probabilities.cpu().numpy()
                table[rows] = found
                bars.advance(bar)
        table.flush()

    table = load()
    if table is None:
        with workspace(entry.parent) as work:
            make(work)
            table = publish(work, entry, load)
    return TaughtWords(table, starts, config.distillation.weight)


def _most_probable(model: Ensemble, batch: Batch, count: int, size: int) -> tuple[Float[Tensor, "M K"], Int[Tensor, "M K"]]:
    """Return the `count` highest probabilities of `size` words at each token except padding, and their words."""
    # Padding is removed, and the output layer works in chunks, so that no matrix of all tokens and words is in memory.
    real = batch.target_mask.flatten().nonzero().squeeze(1)
    features, _ = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    rows = features.flatten(0, 1).index_select(0, real)
    found = [model.logits(part).exp().topk(count) for part in rows.split(max(1, CHUNK_ELEMENTS // size))]
    return torch.cat([one.values for one in found]), torch.cat([one.indices for one in found])
