"""A trained tagger, which predicts the tags of words."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.errors import RequestError
from regard.evaluation.calibration import softmax
from regard.evaluation.spans import TagScores, are_spans, score_tags
from regard.models.taggers import TextTagger
from regard.reweight import Reweight, ReweightBySite
from regard.tasks.predictor import LabellingPredictor
from regard.tasks.requests import block_diagonal, check_same_length, check_texts, pad, padded_batches
from regard.tasks.tagging.config import TaggingConfig
from regard.tasks.tagging.data import TaggerParts
from regard.tasks.tagging.results import TaggedText, build_record
from regard.text.labelled.labels import Labels
from regard.text.tagged.prepare import EncodedWords, encode_words
from regard.text.tokenizers.schemes import WordsScheme


class Tagger(LabellingPredictor):
    """A trained model that gives each word of a sentence a tag.

    Args:
        bundle: The model, its tokenizer and its tags. The model is put into evaluation mode and stays on its device.
    """

    usage = "tagger.tag([text]) tags the words of a text"
    noun = "tags"
    config: TaggingConfig
    model: TextTagger
    parts: TaggerParts
    main_sites = ("tag",)

    @property
    def tags(self) -> Labels:
        """Tags of the tagger."""
        return self.parts.tags

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tags."""
        return self.tags.names

    def facts(self) -> dict[str, Any]:
        """Return the tags."""
        return {"tags": list(self.tags.names)}

    def tag(
        self,
        sentences: Sequence[str | Sequence[str]],
        *,
        spaces: bool = False,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] | None = None,
        progress: bool = False,
    ) -> list[TaggedText]:
        """Tag the words of sentences, and return the results in the same order.

        Every word gets a tag. A sentence with more than `data.max_tokens` tokens is split between words into parts, which the
        model reads one by one.

        Args:
            sentences: Texts, which are split into words and punctuation marks, or lists of words.
            spaces: If True, words are separated by spaces in the texts, and are not split further.
            reweight: Function that computes new weights for the words' attention, or functions by site; see `regard.reweight`.
            record: Attention sites to record, `tag` by default; an empty tuple for none.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If the model lacks one of the sites, a sentence is not of these types, or scores are not finite.
        """
        texts = check_texts("tag", sentences if isinstance(sentences, str) else list(map(_as_text, sentences)))
        split = str.split if spaces else WordsScheme().split
        words = [split(text) if isinstance(given, str) else list(given) for text, given in zip(texts, sentences, strict=True)]
        sites = self.check_sites(record)
        encoded = encode_words(self.tokenizer, words, self.config.data.max_tokens)
        logits, attention = self._run(encoded, len(words), sites, reweight=reweight, progress=progress)
        names, spans, found, first = self.tags.names, are_spans(self.tags.names), [], 0
        (flat, offsets), owners = encoded.tokens, encoded.word_of
        borders = offsets[np.searchsorted(encoded.sentence, np.arange(len(words) + 1))]
        for number, (text, own, scores, maps) in enumerate(zip(texts, words, logits, attention, strict=True)):
            probabilities = softmax(scores.astype(np.float64))
            best = probabilities.argmax(axis=-1)
            tags = tuple(names[place] for place in best.tolist())
            chosen = probabilities[np.arange(len(own)), best]
            one = TaggedText(text, tuple(own), tags, chosen, _places(text, own), spans)
            if sites and own:
                read = slice(borders[number], borders[number + 1])
                word_of = np.where(owners[read] < 0, -1, owners[read] - first)
                one = replace(one, _build=partial(build_record, one, self.tokenizer, flat[read], word_of, maps))
            found.append(one)
            first += len(own)
        return found

    def evaluate(
        self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]], *, progress: bool = False
    ) -> TagScores:
        """Score the tagger on sentences with known tags: loss, accuracy, F1 of spans by type, and confusions.

        Args:
            sentences: The words of each sentence.
            tags: The tag of each word. Tags that the model does not know count as mistakes, and not in the loss.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If there are no sentences, the numbers of words and tags differ, or scores are not finite.
        """
        sentences, tags = ([list(row) for row in rows] for rows in (sentences, tags))
        check_same_length("evaluate", sentences=sentences, tags=tags)
        for number, (own, named) in enumerate(zip(sentences, tags, strict=True), 1):
            if len(own) != len(named) or not own:
                raise RequestError(
                    f"evaluate: sentence {number} has {len(own)} words and {len(named)} tags, expected the same number of "
                    "both, at least 1"
                )
        encoded = encode_words(self.tokenizer, sentences, self.config.data.max_tokens)
        logits, _ = self._run(encoded, len(sentences), [], progress=progress)
        names, flat = self.tags.names, [tag for row in tags for tag in row]
        numbers = np.array([names.index(tag) if tag in names else -1 for tag in flat])
        log_p = np.log(np.maximum(softmax(np.concatenate(logits).astype(np.float64)), 1e-300))
        known = numbers >= 0
        loss = -float(log_p[known, numbers[known]].mean()) if known.any() else None
        predicted = [[names[place] for place in row.argmax(axis=-1).tolist()] for row in logits]
        found = score_tags(tags, predicted, spans=are_spans(names))
        return replace(found, loss=loss, unknown=tuple(sorted(set(flat) - set(names))))

    @torch.inference_mode()
    def _run(
        self,
        encoded: EncodedWords,
        count: int,
        sites: list[str],
        *,
        reweight: Reweight | ReweightBySite | None = None,
        progress: bool,
    ) -> tuple[list[Float[np.ndarray, "W C"]], list[dict[str, np.ndarray]]]:
        """Return the scores and the attention of each of `count` sentences."""
        tokens, places = (
            [flat[start:stop] for start, stop in pairwise(offsets.tolist())]
            for flat, offsets in (encoded.tokens, encoded.places)
        )
        logits: list[list[np.ndarray]] = [[np.zeros((0, len(self.tags)), np.float32)] for _ in range(count)]
        maps: list[list[dict[str, np.ndarray]]] = [[] for _ in range(count)]
        parts: dict[int, tuple[np.ndarray, dict[str, np.ndarray]]] = {}
        with padded_batches("tagging", tokens, self.device, shown=progress) as batches:
            for numbers, ids, mask in batches:
                own, _ = pad([places[number] for number in numbers], self.device)
                scores, attention = self.model(ids, mask, own, reweight=reweight, record=sites)
                arrays = {site: weights.float().cpu().numpy() for site, weights in attention.items()}
                for row, number in enumerate(numbers.tolist()):
                    sizes = {False: len(places[number]), True: len(tokens[number])}
                    cut = {
                        site: each[row, ..., : sizes[site.startswith("encoder")], : sizes[True]]
                        for site, each in arrays.items()
                    }
                    parts[number] = scores[row, : sizes[False]].float().cpu().numpy(), cut
        for number, sentence in enumerate(encoded.sentence.tolist()):
            logits[sentence].append(parts[number][0])
            maps[sentence].append(parts[number][1])
        if not all(np.isfinite(each).all() for each, _ in parts.values()):  # otherwise an arbitrary tag would be returned
            raise RequestError("the tagger's scores are not finite: its weights are damaged, or its training diverged")
        joined = [{site: block_diagonal([part[site] for part in own]) for site in sites if own} for own in maps]
        return [np.concatenate(own) for own in logits], joined


def _as_text(sentence: Any) -> Any:
    """Return the text of a list of words; anything else is returned as it is."""
    words = isinstance(sentence, list | tuple) and all(isinstance(word, str) for word in sentence)
    return " ".join(sentence) if words else sentence


def _places(text: str, words: Sequence[str]) -> tuple[int, ...]:
    """Return the position in the text at which each word begins."""
    places, end = [], 0
    for word in words:
        places.append(text.index(word, end))
        end = places[-1] + len(word)
    return tuple(places)
