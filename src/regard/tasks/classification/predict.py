"""A trained classifier, which predicts the labels of texts."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import RequestError
from regard.evaluation.calibration import sigmoid, softmax
from regard.evaluation.labelled import LabelledEvaluation, evaluate_labels
from regard.models.text_classifier import TextClassifier
from regard.records import AttentionRecord
from regard.records.data import NOTE
from regard.reweight import Reweight, ReweightBySite
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.data import ClassifierParts
from regard.tasks.classification.results import Classification, build_record
from regard.tasks.predictor import LabellingPredictor
from regard.tasks.requests import check_same_length, check_texts, padded_batches, without_each
from regard.text.corpora import cut_rows
from regard.text.labelled.labels import Labels


class Classifier(LabellingPredictor):
    """A trained model that labels texts.

    Args:
        bundle: The model, its tokenizer and its labels. The model is put into evaluation mode and stays on its device.
    """

    usage = "classifier.classify([text]) labels a text"
    noun = "labels"
    config: ClassificationConfig
    model: TextClassifier
    parts: ClassifierParts
    main_sites = ("pool",)

    @property
    def labels(self) -> Labels:
        """Labels of the classifier."""
        return self.parts.labels

    @property
    def temperature(self) -> float:
        """Number by which scores are divided before they become probabilities."""
        return self.parts.temperature

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.labels.names

    def facts(self) -> dict[str, Any]:
        """Return the labels, and whether a text can have several."""
        return {"labels": list(self.labels.names), "multiple": self.labels.multiple}

    def classify(
        self,
        texts: Sequence[str],
        *,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] | None = None,
        progress: bool = False,
    ) -> list[Classification]:
        """Label texts, and return the results in the same order.

        Args:
            texts: The texts. A text without words gets a label too. Of a text with more than `data.max_tokens` tokens, only the
                beginning is read (see `Classification.cut_at`).
            reweight: Function that computes new pooling weights, or functions by site; see `regard.reweight`.
            record: Attention sites to record, `pool` by default; an empty tuple for none.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If the model lacks one of the sites, or its scores are not finite.
        """
        texts = check_texts("classify", texts)
        sites = self.check_sites(record)
        ids, cut = self._encode(texts)
        logits, attention = self._run(ids, sites, reweight=reweight, progress=progress)
        probabilities = self.probabilities(logits)
        names, several, found = self.labels.names, self.labels.multiple, []
        for number, (text, row) in enumerate(zip(texts, probabilities, strict=True)):
            ranked = {names[place]: float(row[place]) for place in np.argsort(-row, kind="stable").tolist()}
            best, length = next(iter(ranked)), len(ids[number])
            chosen = tuple(name for name, value in ranked.items() if value > 0.5) if several else (best,)
            one = Classification(text, best, ranked[best], chosen, ranked, length if cut[number] else None, several)
            if sites:
                build = partial(build_record, self.tokenizer, length, attention[number], self.parts.faithfulness, one)
                one = replace(one, _build=build)
            found.append(one)
        return found

    def attribute(
        self, texts: Sequence[str], names: Sequence[str], *, record: Collection[str] | None = None
    ) -> list[AttentionRecord]:
        """Return records of classifications in which attributions are further sites: values that need not sum to one.

        Args:
            texts: The texts.
            names: Attributions of the log probability of the most probable label: `gradients` (gradient × attention; Chefer et
                al. 2021, eq. 5), `integrated` (integrated gradients over the embeddings, from those of unknown words;
                Sundararajan et al. 2017), `values` (value zeroing; Mohebbi et al. 2023), `leave_one_out`, `rollout` (Abnar and
                Zuidema 2020; its site is `pool.rollout`), or `all` for those that the model has.
            record: Attention sites to record, as for `classify`.

        Raises:
            RequestError: If a text is empty, there is no such attribution, or the model does not have it.

        Example:
            >>> [record] = classifier.attribute(["a gripping film"], ["integrated"])  # doctest: +SKIP
            >>> record.save("words.png", site="integrated")  # doctest: +SKIP
        """
        from regard.tasks.attribution import with_attributions
        from regard.tasks.classification.probe import TextProbe, WordedText

        found = []
        for one in self.classify(texts, record=record):
            text = WordedText.of(self.tokenizer.encode(one.text).first(self.config.data.max_tokens))
            if not text.num_words:
                raise RequestError("attribute: a text contains no word, expected at least one")
            # How far attention can be trusted, if it was measured, says nothing about attributions.
            assert one.attention is not None
            told = replace(one.attention, note=one.attention.note.replace(self.parts.faithfulness or NOTE, NOTE))
            probe = TextProbe(self.model, text, several=self.labels.multiple, temperature=self.temperature)
            found.append(with_attributions(told, probe, names))
        return found

    def disagreement(self, text: str) -> float:
        """Return how far attention and decision are apart; see `Predictor.disagreement`."""
        [found] = self.classify([text])
        record = None if found.attention is None else found.attention.in_units("words")
        if record is None or not record.source_words:
            return 0.0
        others = self.classify(without_each(record.source_words), record=())
        lost = [found.probability - other.probabilities[found.label] for other in others]
        return max(lost) - lost[int(record.word_weights().argmax())]

    def evaluate(
        self, texts: Sequence[str], labels: Sequence[str | float | Collection[str]], *, progress: bool = False
    ) -> LabelledEvaluation:
        """Score the classifier on texts with known labels: accuracy, F1, confusions, calibration, most confident mistakes.

        Args:
            texts: The texts.
            labels: The label of each text, or a list of labels if texts have several. Numbers and booleans mean the
                labels that training reads from them in JSON: 1 means '1', and True means 'true'.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If there are no texts, the numbers of texts and labels differ, or the model's scores are not finite.
            DataError: If the model does not know a label, or needs one label per text and a text has none or several.
        """
        texts, labels = check_texts("evaluate", texts), list(labels)
        check_same_length("evaluate", texts=texts, labels=labels)
        return evaluate_labels(
            self.scores(texts, progress=progress),
            self.labels.encode(labels),
            texts,
            self.labels.names,
            temperature=self.temperature,
            balanced=self.config.training.class_weights == "balanced",
        )

    def scores(self, texts: Sequence[str], *, progress: bool = False) -> Float[np.ndarray, "N C"]:
        """Return the scores of the labels before temperature and softmax (or sigmoid, if texts have several labels)."""
        return self._run(self.encode(check_texts("scores", texts)), [], progress=progress)[0]

    def probabilities(self, scores: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "N C"]:
        """Convert the output of `scores` to probabilities of the labels."""
        scaled = scores.astype(np.float64) / self.temperature
        return sigmoid(scaled) if self.labels.multiple else softmax(scaled)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the model's input for each text: the ids of its first tokens, at least one and at most `data.max_tokens`."""
        return self._encode(texts)[0]

    def _encode(self, texts: Sequence[str]) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the model's input for each text, and an array that is True for truncated texts."""
        (ids, offsets), cut = cut_rows(*self.tokenizer.encode_batch(texts), self.config.data.max_tokens)
        return [ids[start:stop] for start, stop in pairwise(offsets.tolist())], cut

    @torch.inference_mode()
    def _run(
        self,
        ids: list[np.ndarray],
        sites: list[str],
        *,
        reweight: Reweight | ReweightBySite | None = None,
        progress: bool,
    ) -> tuple[Float[np.ndarray, "N C"], list[dict[str, np.ndarray]]]:
        """Return the scores and the attention of each text, computed in batches of texts of similar length."""
        scores = np.empty((len(ids), len(self.labels.names)), np.float32)
        attention: list[dict[str, np.ndarray]] = [{}] * len(ids)
        with padded_batches("classifying", ids, self.device, shown=progress) as batches:
            for numbers, tokens, mask in batches:
                logits, maps = self.model(tokens, mask, reweight=reweight, record=sites)
                scores[numbers] = logits.float().cpu().numpy()
                for number, own in zip(numbers.tolist(), _rows(maps, mask.sum(1).tolist()), strict=True):
                    attention[number] = own
        if not np.isfinite(scores).all():  # otherwise an arbitrary label would be returned
            raise RequestError("the classifier's scores are not finite: its weights are damaged, or its training diverged")
        return scores, attention


def _rows(maps: dict[str, Tensor], lengths: list[int]) -> Iterator[dict[str, np.ndarray]]:
    """Yield the attention of each text in a batch by site, without padding.

    An encoder's weights are (…,S,S) for S tokens. Other weights (…,S) get a row axis for the label: (…,1,S).
    """
    arrays = {site: weights.float().cpu().numpy() for site, weights in maps.items()}
    for row, length in enumerate(lengths):
        own = {}
        for site, weights in arrays.items():
            if site.startswith("encoder"):
                own[site] = weights[row, ..., :length, :length]
            else:
                own[site] = weights[row, ..., None, :length]
        yield own
