"""The graph of a classifier: it takes tokens, and returns the scores of the labels and all attention weights."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.errors import RequestError
from regard.export.graphs import Graph
from regard.export.recurrence import with_native_layers
from regard.export.runtime import output_name
from regard.models.classifiers.hierarchical import HierarchicalClassifier
from regard.models.text_classifier import TextClassifier


class ClassifierGraph(nn.Module):
    """A classifier that returns its scores and all its attention."""

    def __init__(self, model: TextClassifier) -> None:
        super().__init__()
        self.model = with_native_layers(model)

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Return logits, and the weights of each site in the order of `model.sites`."""
        found = self.model(tokens, mask, record=self.model.sites)
        return found.logits, *(found.attention[site] for site in self.model.sites)


class HierarchicalGraph(nn.Module):
    """A hierarchical classifier, with the sentences of a batch in one padded tensor instead of a list.

    The model computes one row for each of the M sentences of a batch. The graph computes B·N rows instead: each of the B texts
    has N sentences of W words, where N and W are the largest numbers in the batch, and the rest is padding.
    """

    def __init__(self, model: HierarchicalClassifier) -> None:
        super().__init__()
        self.model = with_native_layers(model)

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Return logits, and the weights of each site in the order of `model.sites`."""
        model, batch = self.model, tokens.shape[0]
        number = self._numbers(tokens, mask)  # (B,S): the sentence of each token
        num_sentences: Any = number.max().item()  # a symbolic size during the export
        torch._check(num_sentences >= 0)
        every = torch.arange(num_sentences + 1)[:, None]
        size = ((number[:, None] == every) & mask[:, None]).sum(-1)  # (B,N)
        start = ((number[:, None] < every) & mask[:, None]).sum(-1)
        longest: Any = size.max().item()
        torch._check(longest >= 1)  # without these two, the exporter cannot compare the symbolic sizes with 0 and 1
        word = torch.arange(longest)
        place = (start[..., None] + word).clamp(max=tokens.shape[1] - 1).flatten(1)  # (B,N·W)
        embedded = model.embed(tokens)
        words = embedded.gather(1, place[..., None].expand(-1, -1, embedded.shape[-1])).view(-1, longest, embedded.shape[-1])
        word_mask = (word < size[..., None]).flatten(0, 1)
        sentences, word_weights = model.word_pooling(model.word_layer.states(words, word_mask), key_mask=word_mask)
        sentences, sentence_mask = sentences.unflatten(0, (batch, -1)), size > 0
        states = model.sentence_layer.states(sentences, sentence_mask)
        document, sentence_weights = model.sentence_pooling(states, key_mask=sentence_mask)
        within = torch.arange(tokens.shape[1]) - start.gather(1, number)
        by_word = word_weights.unflatten(0, (batch, -1)).movedim(1, -2).flatten(-2)  # (B,[H,]N·W)
        found = _at(by_word, number * longest + within, mask), _at(sentence_weights, number, mask)
        pool = found[1] * (found[0] if found[0].ndim == 2 else found[0].mean(1, keepdim=True))
        return model.output(document), pool, *found

    def _numbers(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the number of each token's sentence in its text, from 0 (sentences as in `cut_sentences`); 0 for padding."""
        ends = self.model.ends_sentence[tokens]  # type: ignore[index]
        position = torch.arange(tokens.shape[1])
        begins = nn.functional.pad(ends[:, :-1] & ~ends[:, 1:], (1, 0)) | (position == 0)
        before = begins[:, None] & (position <= position[:, None])  # (B,S,S): beginnings up to each token
        offset = position - position.where(before, 0).amax(-1)
        starts = (offset % self.model.max_sentence == 0) & mask
        return (starts.long().cumsum(1) - 1).where(mask, 0)


def _at(weights: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    """Return the weight of each token: the one at the token's index (B,S) in `weights` (B,[H,]K); zero for padding."""
    if weights.ndim == 3:
        index, mask = index[:, None].expand(-1, weights.shape[1], -1), mask[:, None]
    return weights.gather(-1, index.clamp(min=0)).where(mask, 0)


def classifier_graphs(model: TextClassifier, *, overridable: bool = False) -> list[Graph]:
    """Return the graph of a classifier, which cannot be `overridable`, because it has no decoder."""
    if overridable:
        raise RequestError("overridable is for translators and language models, which have a decoder; leave it out")
    tokens, mask = torch.arange(21).remainder(4).view(3, 7), torch.ones(3, 7, dtype=torch.bool)
    mask[1, 5:] = False
    with torch.no_grad():
        attention = model.eval()(tokens, mask, record=model.sites).attention
    shapes = {2: "BS", 3: "BHS", 4: "BHSS"}
    outputs = {output_name(site): shapes[cast(Tensor, attention[site]).ndim] for site in model.sites}
    graph = HierarchicalGraph(model) if isinstance(model, HierarchicalClassifier) else ClassifierGraph(model)
    example, inputs = {"tokens": tokens, "mask": mask}, {"tokens": "BS", "mask": "BS"}
    return [Graph("classifier", graph, example, inputs, {"logits": "BC", **outputs})]
