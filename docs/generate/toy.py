"""The toy problem of the pictures: a model copies, reverses or sorts a sequence of letters.

The source has eight of twelve letters, each at most once, in random order. Keys and values are a letter's embedding plus the
embedding of its position: they contain nothing about their neighbours. The decoder is a GRU over the earlier letters (teacher
forcing), which starts from zeros and does not see the context; its states are the queries. One linear layer predicts each
letter from its context, so that only the attention determines which letter is next. (With a hidden layer over context and
state, even an attention that ignores its query copies 97% of the letters: the average of eight vectors still contains the
whole sequence, and a hidden layer can decode it.)
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionOutput, AttentionPooling

TASKS = ("copy", "reverse", "sort")
LETTERS = "abcdefghijkl"
LENGTH, WIDTH, BATCH, STEPS, RATE, SEED = 8, 32, 64, 250, 1e-2, 1
HELD_OUT = 512


@dataclass(frozen=True)
class Result:
    """Weights and output of a trained model for one new sequence, and its accuracy on 512 new sequences."""

    accuracy: float
    """Share of the letters that the model predicts correctly, given the correct letters before them."""
    attended: float
    """Share of the steps in which the correct letter has the largest weight of the source, averaged over heads."""
    source: str
    target: str
    output: str
    weights: np.ndarray
    """Weights (H,T,S); H is 1 without heads."""


class Everywhere(nn.Module):
    """A pooling as the attention of a decoder: every query gets the same context."""

    def __init__(self, pooling: AttentionPooling) -> None:
        super().__init__()
        self.pooling = pooling

    def forward(self, query: Tensor, key: Tensor) -> AttentionOutput:
        """Return the pooled keys and their weights, repeated for each query."""
        context, weights = self.pooling(key)
        return AttentionOutput(*(x[:, None].expand(-1, query.shape[1], -1) for x in (context, weights)))


class Toy(nn.Module):
    """A model that consists of embeddings, a decoder, the attention that is tested, and an output layer."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS) + 1, WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.attention = attention
        self.readout = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, AttentionOutput]:
        """Return the logits (B,T,V) of each letter of the target, given the earlier ones, and the output of the attention."""
        begin = torch.full_like(target[:, :1], len(LETTERS))
        query, _ = self.decoder(self.letter(torch.cat([begin, target[:, :-1]], 1)))
        out = self.attention(query, self.letter(source) + self.place.weight)
        return self.readout(out.context), out


def draw_batch(task: str, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return sources and targets, both (size, LENGTH)."""
    source = torch.rand(size, len(LETTERS), generator=generator).argsort(1)[:, :LENGTH]
    return source, {"copy": source, "reverse": source.flip(1), "sort": source.sort(1).values}[task]


def train(build: Callable[[], nn.Module], task: str, *, steps: int = STEPS) -> Toy:
    """Return a trained model; the same arguments give the same model."""
    torch.manual_seed(SEED)
    attention = build()
    model = Toy(Everywhere(attention) if isinstance(attention, AttentionPooling) else attention)
    generator = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.1)
    for _ in range(steps):
        source, target = draw_batch(task, BATCH, generator)
        logits, out = model(source, target)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        (loss if out.loss is None else loss + out.loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def look(model: Toy, task: str) -> Result:
    """Evaluate the model on 512 sequences that training did not draw; the picture shows the first of them."""
    source, target = draw_batch(task, HELD_OUT, torch.Generator().manual_seed(SEED + 1))
    logits, out = model(source, target)
    output = logits.argmax(-1)
    assert out.weights is not None
    heads = out.weights.flatten(1, -3) if out.weights.ndim == 4 else out.weights[:, None]
    largest = source.gather(1, heads.mean(1).argmax(-1))
    weights = heads[0].double().numpy()
    letters = ["".join(LETTERS[i] for i in row[0].tolist()) for row in (source, target, output)]
    return Result(
        accuracy=round((output == target).double().mean().item(), 3),
        attended=round((largest == target).double().mean().item(), 3),
        source=letters[0],
        target=letters[1],
        output=letters[2],
        weights=weights,
    )


def run(build: Callable[[], nn.Module], task: str, *, steps: int = STEPS) -> list[Result]:
    """Train a mechanism and evaluate it; if it has a hard form, evaluate that too, with the trained parameters."""
    model = train(build, task, steps=steps)
    results = [look(model, task)]
    hard: Callable[[], Attention] | None = getattr(model.attention, "hard", None)
    if hard is not None:
        model.attention = hard().eval()
        results.append(look(model, task))
    return results
