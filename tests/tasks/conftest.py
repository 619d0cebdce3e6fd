"""A translator whose every output is known: it says the source again, looking at each word as it says it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.config.loading import load_config
from regard.models.seq2seq import AttentionMaps, Seq2Seq
from regard.reweight import ReweightBySite, for_site, for_steps
from regard.task import Bundle
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.predict import Translator
from regard.text.symbols import PAD
from regard.text.tokenizers.tokenizer import build_tokenizers

TEXTS = ["one two three four five six seven eight nine ten . ! ? ,", "Anna saw Ben and the cat ."]


@dataclass(frozen=True)
class EchoState:
    source: Tensor  # (B,S)
    position: int = 0

    def select(self, beam: Tensor) -> EchoState:
        return self

    def keep(self, rows: Tensor) -> EchoState:
        return EchoState(self.source[rows], self.position)


class EchoTranslator(Seq2Seq):
    """Word t of the target is word t of the source, with a probability of about one; the vocabulary is joint."""

    sites = ("cross",)
    feeds_back = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.sharpness = torch.nn.Parameter(torch.tensor(20.0))
        self.recorded: list[Collection[str]] = []
        self.shapes: list[tuple[int, ...]] = []

    def encode(
        self, source: Tensor, source_mask: Tensor, *, record: Collection[str] = (), reweight: ReweightBySite | None = None
    ) -> EchoState:
        assert bool((source[source_mask] != PAD).all())
        self.recorded.append(record)
        self.shapes.append(tuple(source.shape))
        return EchoState(source)

    def step(
        self, tokens: Tensor, state: EchoState, *, record: Collection[str] = (), reweight: ReweightBySite | None = None
    ) -> tuple[Tensor, AttentionMaps, EchoState]:
        place = min(state.position, state.source.shape[1] - 1)
        weights = torch.zeros(*tokens.shape, state.source.shape[1])
        weights[..., place] = 1
        change = for_steps(for_site(reweight, "cross"), place)
        if change is not None:
            weights = change(weights, (state.source != PAD)[:, None])
        logits = weights @ torch.nn.functional.one_hot(state.source, self.size).float()
        maps = {"cross": weights} if "cross" in record else {}
        return self.sharpness * logits, maps, EchoState(state.source, place + 1)

    def decode(
        self,
        target_in: Tensor,
        state: EchoState,
        *,
        use_gold: Tensor | None = None,
        record: Collection[str] = (),
        reweight: ReweightBySite | None = None,
    ) -> tuple[Tensor, AttentionMaps]:
        steps = []
        for tokens in target_in.split(1, 1):
            logits, maps, state = self.step(tokens, state, record=record, reweight=reweight)
            steps.append((logits, maps))
        return torch.cat([x for x, _ in steps], 1), {site: torch.cat([m[site] for _, m in steps], 1) for site in record}

    def logits(self, features: Tensor) -> Tensor:
        return features

    def output_weight(self) -> tuple[Tensor, Tensor | None]:
        return torch.eye(self.size), None


def make(kind: str = "whitespace", **settings) -> Translator:
    tokenizer = {"kind": kind, **settings.pop("tokenizer", {})}
    tokenizers = {"source": tokenizer, "target": tokenizer, "joint": True}
    config = load_config({"data": {"source": "en", "target": "en"}, "tokenizers": tokenizers}, settings)
    both, _ = build_tokenizers([(TEXTS, TEXTS)], config.tokenizers, config.data)
    model = EchoTranslator(both.size)
    bundle = Bundle(
        config=config,
        model=model,
        parts=Tokenizers(both, both),
        custom="model",
        signature={"seed": 1},
    )
    return Translator(bundle)


@pytest.fixture
def echo() -> Callable[..., Translator]:
    return make
