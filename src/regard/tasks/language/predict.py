"""A trained language model, which continues texts."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import DecodingConfig, GenerationConfig
from regard.config.fields import facts_of
from regard.config.language import SamplingSettings
from regard.config.settings import override
from regard.decoding import Guidance, Hypothesis, Sampling, greedy, sample
from regard.decoding.search import MOST_STEPS
from regard.errors import RequestError
from regard.evaluation.words import LanguageEvaluation, evaluate_language
from regard.models.seq2seq import Seq2Seq
from regard.reweight import Reweight, ReweightBySite
from regard.tasks.language.config import LanguageConfig
from regard.tasks.language.results import Generation, build_record
from regard.tasks.predictor import Predictor
from regard.tasks.requests import (
    block_diagonal,
    check_texts,
    counting_bar,
    force_rows,
    reweight_by_site,
    with_settings,
)
from regard.text.corpora import cut_blocks
from regard.text.symbols import END, START, UNKNOWN, restore_space, show_space
from regard.text.tokenizers.tokenizer import Tokenizer

# Maximum number of texts that are generated together, counting each sample. A prompt with more samples is continued alone.
_TEXTS_AT_ONCE = 64


class LanguageModel(Predictor):
    """A trained model that continues texts and computes the probability of given texts.

    Args:
        bundle: The model and its tokenizer. The model is put into evaluation mode and stays on its device.
    """

    usage = "model.generate([prompt]) continues a text"
    config: LanguageConfig
    model: Seq2Seq

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the texts."""
        return self.bundle.parts

    input_tokenizer = tokenizer

    def rows(self) -> list[tuple[str, str]]:
        return [*super().rows(), ("vocabulary", f"{self.tokenizer.size:,} symbols")]

    @with_settings(GenerationConfig)
    def generate(
        self,
        prompts: Sequence[str] = ("",),
        *,
        samples: int = 1,
        seed: int = 0,
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
            numbers: Numbers of the prompts; None for 0, 1, … For a part of a file, begin with the number of prompts before this
                part; then the samples are the same as if the whole file were processed at once.
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
        named = list(range(len(prompts)) if numbers is None else numbers)
        if len(named) != len(prompts):
            raise RequestError(
                f"generate: got {len(prompts)} prompts and {len(named)} numbers, expected the same number of each"
            )
        ids, offsets = self.tokenizer.encode_batch(prompts)
        rows = [ids[start:stop] for start, stop in pairwise(offsets.tolist())]
        found: list[list[Generation]] = [[]] * len(prompts)
        names = facts_of(GenerationConfig).keys()
        drawing = {name: getattr(generation, name) for name in facts_of(SamplingSettings).keys() & names}
        common: dict[str, Any] = {"record": sites, "reweight": reweight_by_site(reweight, "decoder")}
        common |= {name: getattr(generation, name) for name in facts_of(DecodingConfig).keys() & names}
        with counting_bar("generating", len(prompts), shown=progress) as advance:
            for places in _alike(rows, max(1, _TEXTS_AT_ONCE // samples)):
                # Continuations are targets that must begin with the prompts. The source is empty.
                length, own = len(rows[places[0]]), [rows[place].tolist() for place in places]
                source = torch.full((len(places), 1), END, device=self.device)
                limit = generation.max_length or min(self.config.data.max_tokens, MOST_STEPS - length)
                options: dict[str, Any] = {
                    **common,
                    "max_length": length + limit,
                    "guidance": Guidance(prefixes=own, phrases=[()] * len(own)) if length else None,
                    "follow": None if follow is None else self._follower(places, prompts, rows, follow),
                }
                mask = torch.ones_like(source, dtype=torch.bool)
                if generation.temperature:
                    sampling = Sampling(count=samples, seed=seed, **drawing)
                    drawn = sample(self.model, source, mask, sampling, numbers=[named[place] for place in places], **options)
                else:
                    drawn = [[hypothesis] for hypothesis in greedy(self.model, source, mask, **options)]
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
    ) -> list[Generation]:
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
        rows = np.split(flat, starts[1:-1])
        changes = reweight_by_site(reweight, "decoder")
        found = force_rows(
            self.model,
            [np.array([END])] * len(rows),
            rows,
            progress=progress,
            record=sites,
            reweight=changes,
        )
        blocks: list[list[Hypothesis]] = [[] for _ in texts]
        for place, one in zip(owner.tolist(), found, strict=True):
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
        if not texts:
            raise RequestError("evaluate: there are no texts, expected at least one")
        scored = self.score(texts, progress=progress)
        # Texts from files of blocks contain symbols for white space; texts from Python contain white space.
        keeps_space = self.tokenizer.keeps_space
        return evaluate_language(
            list(map(restore_space, texts)) if keeps_space else texts,
            shown=list(map(show_space, texts)) if keeps_space else texts,
            log_probability=math.fsum(one.log_probability for one in scored),
            num_tokens=sum(len(one.token_log_probabilities) for one in scored),
            num_unknown=int((self.tokenizer.encode_batch(texts)[0] == UNKNOWN).sum()),
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

    def _generation(self, prompt: str, row: np.ndarray, hypothesis: Hypothesis) -> Generation:
        tokens, length = hypothesis.tokens, len(row)
        read = [START, *tokens][: len(hypothesis.token_log_probabilities)]
        added, text = hypothesis.token_log_probabilities[length:], self._joined(prompt, row, tokens)
        log_probability = float(added.sum(dtype=np.float64))
        build = partial(build_record, self.tokenizer, read, hypothesis.attention, prompt, text, log_probability)
        return Generation(
            prompt, text, log_probability, added, hypothesis.finished, _build=build if hypothesis.attention else None
        )

    def _joined(self, prompt: str, row: np.ndarray, tokens: Sequence[int]) -> str:
        """Return the original prompt followed by the added text.

        The prompt is not decoded from its tokens, because the model may not know all its words, or may read it in lower case.
        If the added tokens change the spelling of the prompt (a second quotation mark can), only they are decoded.
        """
        known, whole = self.tokenizer.decode(row.tolist()), self.tokenizer.decode(tokens)
        if whole.startswith(prompt):  # with the white space at the end of the prompt
            return whole
        if whole.startswith(known):
            return prompt.rstrip() + whole[len(known) :]
        # "a" stands for the prompt, so that the decoder writes a space before the first added word if one belongs there.
        return prompt.rstrip() + self.tokenizer.decode([UNKNOWN, *tokens[len(row) :]], replace={0: "a"}).removeprefix("a")

    def _scored(self, text: str, row: np.ndarray, blocks: list[Hypothesis]) -> Generation:
        each = np.concatenate([block.token_log_probabilities for block in blocks])
        attention = {site: block_diagonal([block.attention[site] for block in blocks]) for site in blocks[0].attention}
        total = sum(block.log_probability for block in blocks)
        build = partial(build_record, self.tokenizer, [START, *row.tolist()], attention, text, text, total, text)
        return Generation("", text, total, each, _build=build if attention else None)


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
