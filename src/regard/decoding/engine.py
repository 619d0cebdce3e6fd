"""CTranslate2 as the engine of a search, which runs only if it is asked for by name.

CTranslate2 is a fast C++ runtime. It searches by other rules than `regard.decoding.search`: the score of a translation with
|Y| symbols is log p / |Y|^α, there is no length reward, and hypotheses that end are replaced in the beam at once. It computes
no attention and no probabilities of single words; if attention is asked for, the model scores the translations with `force`.
"""

import copy
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.config import DecodingConfig
from regard.config.fields import facts_of
from regard.decoding.force import force
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import length_limits
from regard.errors import RequestError, install_command
from regard.inference.ctranslate2 import LONGEST, check_convertible, write_ctranslate2
from regard.models.seq2seq import Seq2Seq
from regard.text.symbols import END, PAD, START

# CTranslate2's names of the number formats.
_TYPES = {"float32": "float32", "int8": "int8_float32"}
# Settings that the engine supports; the diversity has no effect without groups.
_SETTINGS = ("beam_size", "length_penalty", "max_length", "batch_tokens", "precision", "diversity")


class CTranslate2Engine:
    """A model converted to CTranslate2.

    The converted files are written to a temporary folder and deleted at once. Files of this format in a model's folder are
    never loaded. The tokens of both sides are given by their spellings, in the order of ids.
    """

    def __init__(self, model: Seq2Seq, source_tokens: Sequence[str], target_tokens: Sequence[str], precision: str) -> None:
        if find_spec("ctranslate2") is None:
            raise RequestError(f"ctranslate2 not installed; install the extra with: {install_command('ctranslate2')}")
        if precision not in _TYPES:
            raise RequestError(f"engine ctranslate2 computes in {' or '.join(_TYPES)}, not in {precision}; change precision")
        if next(model.parameters()).device.type != "cpu":
            raise RequestError("engine ctranslate2 works on a CPU only; load the model with the device cpu (--device cpu)")
        import ctranslate2

        converted = copy.deepcopy(check_convertible(model)).float()
        self._model, self._source, self._ids = model, source_tokens, {token: n for n, token in enumerate(target_tokens)}
        with TemporaryDirectory(prefix="regard-engine-") as folder:
            write_ctranslate2(converted, Path(folder), source_tokens=source_tokens, target_tokens=target_tokens)
            threads = torch.get_num_threads()
            self._engine = ctranslate2.Translator(folder, compute_type=_TYPES[precision], intra_threads=threads)

    def search(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        decoding: DecodingConfig,
        *,
        n_best: int = 1,
        record: Collection[str] = (),
    ) -> list[list[Hypothesis]]:
        """Search for the `n_best` targets with the best scores, with a plain beam or greedily; see `beam_search`.

        The longest limit of a sentence in the batch is the limit of all. If no sites are recorded, the log probabilities of the
        words are NaN.
        """
        for name, facts in facts_of(DecodingConfig).items():
            if name not in _SETTINGS and (value := getattr(decoding, name)) != facts.default:
                raise RequestError(
                    f"engine ctranslate2 does not support {name}, which is {value}; set it to {facts.default}, or search "
                    "without the engine"
                )
        if n_best > decoding.beam_size:
            raise RequestError(f"n_best is {n_best}, expected 1 to beam_size, which is {decoding.beam_size}; raise beam_size")
        texts = [[self._source[word] for word in row if word not in (PAD, END)] for row in source.tolist()]
        limit = min(int(length_limits(source_mask, decoding).amax()), LONGEST) if texts else 1
        alpha = decoding.length_penalty
        results = self._engine.translate_batch(
            texts,
            beam_size=decoding.beam_size,
            num_hypotheses=n_best,
            length_penalty=alpha,
            min_decoding_length=0,
            max_decoding_length=limit,
            return_scores=True,
        )
        found = []
        for row, result in enumerate(results):
            hypotheses = [
                self._hypothesis([self._ids[token] for token in tokens], score, alpha, limit)
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            found.append(self._forced(source[row], source_mask[row], hypotheses, record) if record else hypotheses)
        return found

    def _hypothesis(self, tokens: list[int], score: float, alpha: float, limit: int) -> Hypothesis:
        finished = len(tokens) < limit  # CTranslate2 does not say whether it wrote the end symbol
        length = len(tokens) + finished
        return Hypothesis(tokens, score * length**alpha, score, finished, np.full(length, np.nan, dtype=np.float32))

    def _forced(self, source: Tensor, mask: Tensor, found: list[Hypothesis], record: Collection[str]) -> list[Hypothesis]:
        """Return the hypotheses of one sentence with the attention and the log probabilities of the model."""
        size, rows = int(mask.sum()), []
        for one in found:
            target = torch.tensor([[START, *one.written]])
            whole, each = source[None, :size], mask[None, :size]
            # One pass over a known target gives the same weights as a search that writes it.
            [forced] = force(self._model, whole, each, target[:, :-1], target[:, 1:], record=record)
            rows.append(replace(forced, tokens=one.tokens, score=one.score, finished=one.finished))
        return rows
