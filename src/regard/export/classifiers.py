"""The graph of a classifier: it takes tokens, and returns the scores of the labels and all attention weights."""

from typing import cast

import torch
from torch import Tensor, nn

from regard.errors import RequestError
from regard.export.graphs import Graph
from regard.export.recurrence import with_native_layers
from regard.export.runtime import output_name
from regard.models.text_classifier import TextClassifier


class ClassifierGraph(nn.Module):
    """A classifier that returns its scores and all its attention.

    Args:
        model: The classifier.
    """

    def __init__(self, model: TextClassifier) -> None:
        super().__init__()
        self.model = with_native_layers(model)

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Return logits, and the weights of each site in the order of `model.sites`."""
        found = self.model(tokens, mask, record=self.model.sites)
        return found.logits, *(found.attention[site] for site in self.model.sites)


def classifier_graphs(model: TextClassifier, *, overridable: bool = False) -> list[Graph]:
    """Return the graph of a classifier.

    Raises:
        RequestError: If `overridable` is True, which is for translators and language models only.
    """
    return [describe_graph(model, ClassifierGraph(model), overridable=overridable)]


def describe_graph(model: TextClassifier, graph: nn.Module, *, overridable: bool) -> Graph:
    """Return the graph of a classifier with its inputs, outputs and example inputs.

    Args:
        model: The classifier.
        graph: The module to export, which returns logits and the weights of each site.
        overridable: Must be False, because a classifier has no decoder.

    Raises:
        RequestError: If `overridable` is True.
    """
    if overridable:
        raise RequestError("overridable is for translators and language models, which have a decoder; leave it out")
    tokens, mask = torch.arange(21).remainder(4).view(3, 7), torch.ones(3, 7, dtype=torch.bool)
    mask[1, 5:] = False
    with torch.no_grad():
        attention = model.eval()(tokens, mask, record=model.sites).attention
    shapes = {2: "BS", 3: "BHS", 4: "BHSS"}
    outputs = {output_name(site): shapes[cast(Tensor, attention[site]).ndim] for site in model.sites}
    inputs = {"tokens": "BS", "mask": "BS"}
    return Graph("classifier", graph, {"tokens": tokens, "mask": mask}, inputs, {"logits": "BC", **outputs})
