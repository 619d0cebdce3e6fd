"""A trained language model, which continues texts."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import GenerationConfig
from regard.decoding import Guidance, Hypothesis, Restrictions, Sampling, force, greedy, sample
from regard.decoding.search import MOST_STEPS
from regard.errors import RequestError
from regard.evaluation.words import LanguageEvaluation, evaluate_language
from regard.models.seq2seq import Seq2Seq
from regard.reweight import Reweight, ReweightBySite
from regard.tasks.language.bundle import LanguageBundle
from regard.tasks.language.config import LanguageConfig
from regard.tasks.language.results import Generation, Origin, ScoredText
from regard.tasks.notebook import count_parameters, table
from regard.tasks.predictor import Predictor
from regard.tasks.requests import check_texts, counting_bar, override, reweight_by_site, with_settings
from regard.text.batching import length_batches
from regard.text.corpora import as_batch, cut_blocks
from regard.text.symbols import END, START, UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer

_BATCH_TOKENS = 8192
_TEXTS_AT_ONCE = 64
"""Maximum number of texts that are generated together, counting each sample. A prompt with more samples is continued alone."""


class LanguageModel(Predictor[LanguageBundle]):
    """A trained model that continues texts and computes the probability of given texts.

    Args:
        bundle: The model and its tokenizer. The model is put into evaluation mode and stays on its device.
    """

    def __init__(self, bundle: LanguageBundle) -> None:
        super().__init__(bundle)
        self.model: Seq2Seq

    def __repr__(self) -> str:
        return (
            f"LanguageModel({type(self.model).__name__}, vocabulary {self.tokenizer.size:,}, {count_parameters(self.model)}, "
            f"on {self.device})"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("model", f"{type(self.model).__name__}, {count_parameters(self.model)}, on {self.device}"),
            ("vocabulary", f"{self.tokenizer.size:,} symbols"),
            ("attention", ", ".join(self.model.sites)),
        ]
        return table("Language model", rows, "model.generate([prompt]) continues a text")

    @property
    def config(self) -> LanguageConfig:
        """Settings of the run."""
        return self.bundle.config

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the texts."""
        return self.bundle.tokenizer

    @with_settings(GenerationConfig)
    def generate(
        self,
        prompts: Sequence[str] = ("",),
        *,
        samples: int = 1,
        seed: int = 0,
        first: int = 0,
        numbers: Sequence[int] | None = None,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] = (),
        progress: bool = False,
        follow: Callable[[int, int, str], None] | None = None,
        **settings: Any,
    ) -> list[list[Generation]]:
        """Continue prompts.

        Args:
            prompts: Beginnings of texts; an empty prompt for a text without a given beginning.
            samples: Number of texts to generate for each prompt.
            seed: Seed of the random draws. It is combined with the number of each prompt.
            first: Number of the first prompt. For a part of a file, give the number of prompts before this part; then the
                samples are the same as if the whole file were processed at once.
            numbers: Numbers of the prompts, to which `first` is added; None for 0, 1, …
            reweight: Function that computes new attention weights in all layers, or functions by site; see `regard.reweight`.
                It also changes the attention at the steps that read the prompt.
            record: Attention sites to record, such as `decoder.0`.
            progress: Whether to show a bar on standard error.
            follow: Function that is called after each token that is added to a prompt, to show a text while it is generated.
                Its arguments are the index of the prompt, the index of the sample, and the text so far.
            settings: Settings of the generation: the fields of `regard.config.GenerationConfig`, such as `temperature`, `top_p`
                or `max_length`. Those that are left out or None have the values of the model's configuration (`generation`).

        Returns:
            A list of samples for each prompt, in the order drawn. The samples of a prompt do not depend on the other prompts.

        Raises:
            RequestError: If an argument is out of range, or the model's scores are not finite.
        """
        prompts, sites = check_texts("generate", prompts), self.check_sites(record)
        generation = override(self.config.generation, settings, "generate")
        if samples < 1:
            raise RequestError(f"generate: samples is {samples}, expected 1 or more for each prompt")
        if not generation.temperature and samples > 1:
            raise RequestError(
                f"generate: at temperature 0 all {samples} samples would be the same; set samples to 1, or raise the "
                "temperature"
            )
        sampling = None
        if generation.temperature:
            sampling = Sampling(
                count=samples,
                temperature=generation.temperature,
                top_k=generation.top_k,
                top_p=generation.top_p,
                seed=seed,
                first=first,
            )
        named = list(range(len(prompts)) if numbers is None else numbers)
        if len(named) != len(prompts):
            raise RequestError(
                f"generate: got {len(prompts)} prompts and {len(named)} numbers, expected the same number of each"
            )
        ids, offsets = self.tokenizer.encode_batch(prompts)
        rows = [ids[start:stop] for start, stop in pairwise(offsets.tolist())]
        found: list[list[Generation]] = [[]] * len(prompts)
        changes = reweight_by_site(reweight, "decoder")
        with counting_bar("generating", len(prompts), shown=progress) as advance:
            for places in _alike(rows, max(1, _TEXTS_AT_ONCE // samples)):
                own, request = [rows[place] for place in places], _Request(generation, sampling, sites, changes)
                if follow is not None:
                    request.follow = self._follower(places, prompts, rows, follow)
                drawn = self._draw(own, [named[place] for place in places], request)
                for place, hypotheses in zip(places, drawn, strict=True):
                    found[place] = [self._generation(prompts[place], rows[place], one) for one in hypotheses]
                advance(len(places))
        return found

    def score(
        self,
        texts: Sequence[str],
        *,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] = (),
        progress: bool = False,
    ) -> list[ScoredText]:
        """Compute the log probability of each token of given texts, and record the attention at the given sites.

        Args:
            texts: The texts. A text of more than `data.max_tokens` tokens, including its end symbol, is read in blocks, as in
                training.
            reweight: As for `generate`.
            record: Attention sites to record, such as `decoder.0`. If a text is read in blocks, tokens attend only to tokens of
                the same block.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If the model lacks one of the sites, or a probability is NaN.
        """
        texts, sites = check_texts("score", texts), self.check_sites(record)
        ids, offsets = self.tokenizer.encode_batch(texts)
        (flat, starts), owner = cut_blocks(ids, offsets, self.config.data.max_tokens)
        lengths = np.diff(starts) - 1
        found: list[Hypothesis | None] = [None] * len(lengths)
        with counting_bar("scoring", len(lengths), shown=progress) as advance:
            for numbers in length_batches(lengths, _BATCH_TOKENS):
                batch = as_batch(flat, starts[numbers], lengths[numbers], numbers)
                given = (batch.source, batch.source_mask, batch.target_in, batch.target_out)
                hypotheses = force(
                    self.model,
                    *(tensor.to(self.device) for tensor in given),
                    record=sites,
                    reweight=reweight_by_site(reweight, "decoder"),
                )
                for number, hypothesis in zip(numbers.tolist(), hypotheses, strict=True):
                    found[number] = hypothesis
                advance(len(numbers))
        blocks: list[list[Hypothesis]] = [[] for _ in texts]
        for place, one in zip(owner.tolist(), found, strict=True):
            assert one is not None
            blocks[place].append(one)
        bounds = offsets.tolist()
        return [
            self._scored(text, ids[start:stop], own)
            for text, (start, stop), own in zip(texts, pairwise(bounds), blocks, strict=True)
        ]

    def evaluate(self, texts: Sequence[str], *, progress: bool = False) -> LanguageEvaluation:
        """Score the model on texts: loss, perplexity per token and per word, and bits per character.

        Args:
            texts: The texts.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If there are no texts, or a probability is NaN.
        """
        texts = check_texts("evaluate", texts)
        scored = self.score(texts, progress=progress)
        return evaluate_language(
            texts,
            log_probability=math.fsum(one.log_probability for one in scored),
            num_tokens=sum(len(one.token_log_probabilities) for one in scored),
            num_unknown=int((self.tokenizer.encode_batch(list(texts))[0] == UNKNOWN).sum()),
        )

    def _follower(
        self, places: list[int], prompts: Sequence[str], rows: Sequence[np.ndarray], follow: Callable[[int, int, str], None]
    ) -> Callable[[Tensor, Tensor], None]:
        """Return a function that collects the new words after each step, and calls `follow` with the texts so far."""
        written: dict[tuple[int, int], list[int]] = {}

        def step(going: Tensor, tokens: Tensor) -> None:
            for at, words in zip(going.tolist(), tokens.tolist(), strict=True):
                place = places[at]
                for number, word in enumerate(words):
                    own = written.setdefault((place, number), [])
                    if own and own[-1] == END:
                        continue
                    own.append(word)
                    if word != END and len(own) > len(rows[place]):
                        follow(place, number, self._joined(prompts[place], rows[place], own))

        return step

    def _draw(self, rows: list[np.ndarray], numbers: list[int], request: "_Request") -> list[list[Hypothesis]]:
        """Continue prompts of equal length: generate targets that must begin with the prompts."""
        source = torch.full((len(rows), 1), END, device=self.device)
        mask, length = torch.ones_like(source, dtype=torch.bool), len(rows[0])
        settings = request.settings
        limit = length + (settings.max_length or min(self.config.data.max_tokens, MOST_STEPS - length))
        guidance = Guidance(prefixes=[row.tolist() for row in rows], phrases=[()] * len(rows)) if length else None
        restrictions = Restrictions(no_repeat_ngrams=settings.no_repeat_ngrams, repetition_penalty=settings.repetition_penalty)
        options: dict[str, Any] = {"max_length": limit, "guidance": guidance, "restrictions": restrictions}
        options |= {"record": request.sites, "reweight": request.reweight, "follow": request.follow}
        if request.sampling is None:
            return [[hypothesis] for hypothesis in greedy(self.model, source, mask, **options)]
        return sample(self.model, source, mask, request.sampling, numbers=numbers, **options)

    def _generation(self, prompt: str, row: np.ndarray, hypothesis: Hypothesis) -> Generation:
        tokens, length = hypothesis.tokens, len(row)
        fed = [START, *tokens][: len(hypothesis.token_log_probabilities)]
        return Generation(
            prompt=prompt,
            text=self._joined(prompt, row, tokens),
            log_probability=float(hypothesis.token_log_probabilities[length:].sum(dtype=np.float64)),
            num_tokens=len(tokens) - length,
            finished=hypothesis.finished,
            _origin=Origin(self.tokenizer, fed, hypothesis.attention) if hypothesis.attention else None,
        )

    def _joined(self, prompt: str, row: np.ndarray, tokens: Sequence[int]) -> str:
        """Return the original prompt followed by the added text.

        The prompt is not decoded from its tokens, because the model may not know all its words, or may read it in lower case.
        But if the added tokens change the spelling of the decoded prompt, the whole text is decoded.
        """
        known, whole = self.tokenizer.decode(row.tolist()), self.tokenizer.decode(tokens)
        if whole.startswith(prompt):  # with the white space at the end of the prompt
            return whole
        return prompt.rstrip() + whole[len(known) :] if whole.startswith(known) else whole

    def _scored(self, text: str, row: np.ndarray, blocks: list[Hypothesis]) -> ScoredText:
        each = np.concatenate([block.token_log_probabilities for block in blocks])
        attention = {site: _in_blocks([block.attention[site] for block in blocks]) for site in blocks[0].attention}
        return ScoredText(
            text=text,
            log_probability=sum(block.log_probability for block in blocks),
            token_log_probabilities=each,
            _origin=Origin(self.tokenizer, [START, *row.tolist()], attention, text) if attention else None,
        )


@dataclass
class _Request:
    """Settings of one generation."""

    settings: GenerationConfig
    sampling: Sampling | None
    sites: list[str]
    reweight: ReweightBySite | None
    follow: Callable[[Tensor, Tensor], None] | None = None


def _alike(rows: Sequence[np.ndarray], most: int) -> Iterator[list[int]]:
    """Yield groups of row indices. The rows of a group have the same length, and a group has at most `most` of them.

    A search has one length limit for all its texts, which includes the prompts, so these must be equally long.
    """
    by_length: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        by_length.setdefault(len(row), []).append(place)
    for places in by_length.values():
        for start in range(0, len(places), most):
            yield places[start : start + most]


def _in_blocks(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join square attention maps (…,T,T), whose T may differ, to one block-diagonal map."""
    if len(parts) == 1:
        return parts[0]
    size = sum(part.shape[-1] for part in parts)
    whole, at = np.zeros((*parts[0].shape[:-2], size, size), dtype=np.float32), 0
    for part in parts:
        whole[..., at : at + part.shape[-2], at : at + part.shape[-1]] = part
        at += part.shape[-1]
    return whole
