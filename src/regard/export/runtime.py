"""Exported models in onnxruntime, with the same interfaces as the original models.

`OnnxSeq2Seq` is a `Seq2Seq`, so all searches and samplers of `regard.decoding` work with it. `OnnxClassifier` is a
`TextClassifier`. Neither has PyTorch weights.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.errors import RequestError, install_command
from regard.models.seq2seq import AttentionMaps, Seq2Seq
from regard.models.text_classifier import Classified, TextClassifier
from regard.reweight import Reweight, ReweightBySite

NEXT = "next_"
"""Prefix of the names of those outputs of a step that are inputs of the next step."""

Arrays = dict[str, np.ndarray]


class Session:
    """A graph in onnxruntime, on the CPU; `threads` is 0 for the number of cores."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ModuleNotFoundError as error:
            raise RequestError(f"onnxruntime is not installed; install it with: {install_command('onnx')}") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Errors only: warnings are about optimisations of the graph.
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs = {node.name: node.shape for node in self._session.get_inputs()}
        self.outputs = [node.name for node in self._session.get_outputs()]

    def __call__(self, given: Mapping[str, np.ndarray]) -> Arrays:
        """Return the outputs of the graph for the given arrays; arrays that are not inputs of the graph are ignored."""
        found = self._session.run(None, {name: given[name] for name in self.inputs})
        return dict(zip(self.outputs, found, strict=True))


@dataclass(frozen=True)
class OnnxState:
    """Decoding state of B sentences with N hypotheses each."""

    memory: Arrays
    """Arrays (B, …): the encoder's `key` and `value`, and the source mask; empty for a model without an encoder."""
    steps: Arrays
    """Arrays (B, N, …): the decoder's state, which each step reads and replaces."""
    encoder: AttentionMaps
    """Weights of the encoder's attention; empty if the encoder returns none."""

    def select(self, beam: Tensor) -> "OnnxState":
        """Return the state of new hypotheses; `beam` holds the number of the hypothesis that each one continues."""
        rows = np.arange(len(beam))[:, None]
        return replace(self, steps={name: array[rows, beam.numpy()] for name, array in self.steps.items()})

    def keep(self, rows: Tensor) -> "OnnxState":
        """Return the state of the sentences `rows` only."""
        kept = rows.numpy()
        return OnnxState(
            {name: array[kept] for name, array in self.memory.items()},
            {name: array[kept] for name, array in self.steps.items()},
            {site: weights[rows] for site, weights in self.encoder.items()},
        )


class OnnxSeq2Seq(Seq2Seq[OnnxState]):
    """A translator or language model in onnxruntime. It decodes step by step; it has no weights and cannot be trained.

    Args:
        folder: Folder with `step.onnx`, and `encoder.onnx` if the model has an encoder.
        threads: Number of threads; 0 for the number of cores.
    """

    feeds_back = True

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        super().__init__()
        encoder = folder / "encoder.onnx"
        self._encoder = Session(encoder, threads=threads) if encoder.exists() else None
        self._step = Session(folder / "step.onnx", threads=threads)
        self._state = [name.removeprefix(NEXT) for name in self._step.outputs if name.startswith(NEXT)]
        with_heads = [name for name in self._step.outputs if name.endswith("_heads")]
        self.sites = tuple(name for name in ("cross", *with_heads) if name in self._step.outputs)

    def encode(
        self, source: Tensor, source_mask: Tensor, *, record: Collection[str] = (), reweight: ReweightBySite | None = None
    ) -> OnnxState:
        _refuse_reweight(reweight)
        given = {"source": source.numpy(), "source_mask": source_mask.numpy()}
        if self._encoder is None:  # before the first token, all dynamic axes after those of B and N = 1 have length 0
            shapes = {name: [size if isinstance(size, int) else 0 for size in self._step.inputs[name]] for name in self._state}
            first = {name: np.zeros([len(source), 1, *shape[2:]], np.float32) for name, shape in shapes.items()}
            return OnnxState({}, first, {})
        found = self._encoder(given)
        within = {"encoder_heads": torch.from_numpy(found["encoder"])} if "encoder" in found else {}
        memory = {name: array for name, array in found.items() if name in self._step.inputs and name not in self._state}
        first = {name: found[name] for name in self._state}
        return OnnxState({**memory, "source_mask": given["source_mask"]}, first, within)

    def step(
        self, tokens: Tensor, state: OnnxState, *, record: Collection[str] = (), reweight: ReweightBySite | None = None
    ) -> tuple[Tensor, AttentionMaps, OnnxState]:
        """Feed one token to each hypothesis. The scores are log probabilities."""
        _refuse_reweight(reweight)
        given = {"tokens": tokens.numpy(), **state.memory, **state.steps}
        if "override" in self._step.inputs:
            given |= self._nothing_overridden(tokens, state)
        found = self._step(given)
        after = replace(state, steps={name: found[NEXT + name] for name in self._state})
        maps = {name: torch.from_numpy(found[name]) for name in self.sites if name in record}
        return torch.from_numpy(found["log_probabilities"]), maps, after

    def _nothing_overridden(self, tokens: Tensor, state: OnnxState) -> Arrays:
        # Without overridden weights, an overridable step still needs both inputs.
        fixed = [size for size in self._step.inputs["override"][2:] if isinstance(size, int)]
        rows = (*tokens.shape, *fixed)
        length = state.memory["source_mask"].shape[1] if self._encoder else state.steps["own_key"].shape[4] + 1
        return {"override": np.zeros((*rows, length), np.float32), "overridden": np.zeros(rows, bool)}

    def decode(
        self,
        target_in: Tensor,
        state: OnnxState,
        *,
        use_gold: Tensor | None = None,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Tensor, AttentionMaps]:
        """Read a whole target step by step; the features are log probabilities, and no attention is recorded."""
        scores = []
        for tokens in target_in.split(1, 1):
            found, _, state = self.step(tokens, state, reweight=reweight)
            scores.append(found)
        return torch.cat(scores, 1), {}

    def logits(self, features: Tensor) -> Tensor:
        """Return the features of `decode`, which are log probabilities."""
        return features

    def output_weight(self) -> tuple[Tensor, Tensor | None]:
        """Raise an error, because the graphs end in log probabilities."""
        raise RequestError("an exported model has no separate output layer; use the model that it was exported from")


def _refuse_reweight(reweight: Reweight | ReweightBySite | None) -> None:
    if reweight:
        raise RequestError(
            "an exported model cannot apply functions to its weights; give weights as the inputs override and "
            "overridden of step.onnx, or use the model that it was exported from"
        )


class OnnxClassifier(TextClassifier):
    """A classifier in onnxruntime, from a folder with `classifier.onnx`; it has no weights and cannot be trained."""

    def __init__(self, folder: Path, *, sites: Sequence[str], threads: int = 1) -> None:
        super().__init__()
        self._session = Session(folder / "classifier.onnx", threads=threads)
        self.sites = tuple(sites)

    def embed(self, tokens: Tensor) -> Tensor:
        """Raise an error, because the graph begins with tokens."""
        raise RequestError("an exported model has no separate embeddings; use the model that it was exported from")

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor,
        *,
        embedded: Tensor | None = None,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        _refuse_reweight(reweight)
        found = self._session({"tokens": tokens.numpy(), "mask": mask.numpy()})
        attention = {site: torch.from_numpy(found[output_name(site)]) for site in self.sites if site in record}
        return Classified(torch.from_numpy(found["logits"]), attention)


def output_name(site: str) -> str:
    """Return the name of the output with the weights of a classifier's site: `encoder_0` for `encoder.0`."""
    return site.replace(".", "_")
