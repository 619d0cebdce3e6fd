"""Validation of a translator on pairs that it is not trained on."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from regard.config import DecodingConfig
from regard.decoding import search
from regard.evaluation.words import exact_match
from regard.machine import Machine
from regard.models.seq2seq import Seq2Seq
from regard.plurals import counted
from regard.task import LikelihoodScores, Validator
from regard.tasks.objective import mean_nll
from regard.tasks.translation.metrics import suitable_metrics
from regard.text.batching import length_batches
from regard.text.corpora import EncodedCorpus
from regard.text.tokenizers.tokenizer import Tokenizer
from regard.training.contexts import evaluating
from regard.training.data import to_device

NUM_SAMPLES = 3
_DECODING = "greedy"
"""Name of the search that translates the dev pairs, shown with BLEU and chrF."""


@dataclass(frozen=True)
class Sample:
    """One validation pair with the model's translation."""

    source: str
    prediction: str
    reference: str


@dataclass(frozen=True)
class TranslationScores(LikelihoodScores):
    """Scores of one validation; `nll` is the mean of −log p per target token over all dev pairs."""

    bleu: float
    """BLEU of greedy translations, from 0 to 100."""
    chrf: float
    """chrF of greedy translations, from 0 to 100."""
    exact_match: float
    """Share of greedy translations that equal their references, from 0 to 1."""
    bleu_signature: str
    """sacrebleu's signature of `bleu`, which describes how the score was computed; empty if nothing was translated."""
    chrf_signature: str
    num_pairs: int
    """Number of pairs over which `nll` was computed."""
    num_translated: int
    """Number of pairs that were translated for `bleu`, `chrf` and `exact_match`."""
    samples: tuple[Sample, ...] = ()

    def to_dict(self) -> dict[str, float | int | str]:
        """Return plain data for a bundle's signature."""
        return {
            "loss": self.nll,
            "perplexity": self.perplexity,
            "bleu": self.bleu,
            "chrf": self.chrf,
            "exact_match": self.exact_match,
            "bleu_signature": self.bleu_signature,
            "chrf_signature": self.chrf_signature,
            "pairs": self.num_pairs,
            "translated_pairs": self.num_translated,
            "decoding": _DECODING,
        }

    def to_row(self) -> dict[str, float]:
        """Return the columns of the logs."""
        likelihood = {"dev_nll": self.nll, "dev_perplexity": self.perplexity}
        return likelihood | {"bleu": self.bleu, "chrf": self.chrf, "exact_match": self.exact_match}

    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """Return a line with the scores, and lines with a few translations."""
        head = f"dev loss {self.nll:.3f} (perplexity {self.perplexity:,.2f})"
        lines = []
        if self.num_translated:
            head += f", BLEU {self.bleu:.1f} ({_DECODING}), chrF {self.chrf:.1f} ({_DECODING}), exact {self.exact_match:.1%}"
            if first:
                how = f"BLEU {self.bleu_signature}, chrF {self.chrf_signature}"
                lines.append(f"  signatures for {counted(self.num_translated, 'pair')}: {how}")
        for sample in self.samples:
            lines += [
                "",
                f"  source      {sample.source}",
                f"  prediction  {sample.prediction}",
                f"  reference   {sample.reference}",
            ]
        return head, [*lines, ""] if self.samples else lines


class TranslationValidator(Validator[Seq2Seq]):
    """Validation of models on the dev pairs."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        target_tokenizer: Tokenizer,
        decoding: DecodingConfig,
        machine: Machine,
        *,
        num_translated: int,
        batch_tokens: int,
    ) -> None:
        """Choose the pairs to translate, evenly over the corpus.

        Args:
            corpus: The dev pairs.
            target_tokenizer: Tokenizer that converts the output to text, and selects the options of the metrics
                (`suitable_metrics`).
            decoding: Settings of the search. Validation decodes greedily, and ignores the beam size, the length reward, the
                precision and `replace_unknown`.
            machine: Device and number format.
            num_translated: Maximum number of pairs to translate.
            batch_tokens: Maximum number of tokens in a batch for the loss, including padding; the longer side counts.
        """
        self._corpus, self._tokenizer, self._machine = corpus, target_tokenizer, machine
        self._decoding = replace(decoding, beam_size=1, length_reward=0.0)
        self._loss_batches = length_batches(np.maximum(corpus.source_lengths, corpus.target_lengths), batch_tokens)
        count = min(num_translated, len(corpus))
        self._chosen = np.arange(count) * len(corpus) // max(count, 1)
        cut = length_batches(corpus.source_lengths[self._chosen], self._decoding.batch_tokens)
        self._translated_batches = [self._chosen[places] for places in cut]
        self._sources, self._references = corpus.texts(self._chosen)
        self._bleu, self._chrf = suitable_metrics(target_tokenizer, self._references)

    @property
    def num_batches(self) -> int:
        """Number of batches of one validation, for progress bars."""
        return len(self._loss_batches) + len(self._translated_batches)

    def validate(self, model: Seq2Seq, *, after_batch: Callable[[], None] = lambda: None) -> TranslationScores:
        """Compute the loss over all pairs, and translate the chosen ones.

        Args:
            model: The model; its mode (training or evaluation) is the same afterwards.
            after_batch: Function that is called after each batch; an exception from it ends the validation.

        Returns:
            The scores; if the loss is not finite, nothing is translated.

        Raises:
            RequestError: If the model's scores for a next word are not finite.
        """
        with evaluating(model):
            nll = mean_nll(model, self._corpus, self._loss_batches, self._machine, after_batch)
            predictions = self._translate(model, after_batch) if math.isfinite(nll) else []
        sources, references = self._sources, self._references
        bleu = self._bleu.corpus_score(predictions, [references]) if predictions else None
        chrf = self._chrf.corpus_score(predictions, [references]) if predictions else None
        num_samples = min(NUM_SAMPLES, len(predictions))
        shown = [number * len(predictions) // num_samples for number in range(num_samples)]
        return TranslationScores(
            nll=nll,
            bleu=bleu.score if bleu else 0.0,
            chrf=chrf.score if chrf else 0.0,
            exact_match=exact_match(predictions, references[: len(predictions)], lowercase=self._bleu.lowercase),
            bleu_signature=str(self._bleu.get_signature()) if bleu else "",
            chrf_signature=str(self._chrf.get_signature()) if chrf else "",
            num_pairs=len(self._corpus),
            num_translated=len(predictions),
            samples=tuple(Sample(sources[place], predictions[place], references[place]) for place in shown),
        )

    def _translate(self, model: Seq2Seq, after_batch: Callable[[], None]) -> list[str]:
        texts: dict[int, str] = {}
        for indices in self._translated_batches:
            batch = to_device(self._corpus.batch(indices), self._machine.device)
            with self._machine.autocast():
                found = search(model, batch.source, batch.source_mask, self._decoding)
            for index, hypotheses in zip(indices, found, strict=True):
                texts[int(index)] = self._tokenizer.decode(hypotheses[0].tokens)
            after_batch()
        return [texts[int(index)] for index in self._chosen]
