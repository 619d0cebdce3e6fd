"""The operation `faithfulness` of several tasks. Nothing here imports torch at once."""

from dataclasses import dataclass
from typing import Any, ClassVar

from regard.config.fields import Count
from regard.rendering import PICTURES
from regard.task.operation import FileOperation


@dataclass(frozen=True, kw_only=True)
class Measure(FileOperation):
    """Measure whether the words that a model attends to are those that its predictions depend on."""

    texts: Count = 500
    """Maximum number of texts or sentences; if there are more, a random sample is measured."""
    permutations: Count = 100
    """Number of permutations of the weights of each text or sentence."""
    picture: str = ""
    """File for a picture of the decreases in probability, as bars."""

    name: ClassVar[str] = "faithfulness"
    pictures: ClassVar = {"picture": PICTURES}

    @property
    def sizes(self) -> dict[str, Any]:
        """The arguments of a measuring function that all tasks share."""
        return {"max_texts": self.texts, "permutations": self.permutations, "progress": True}

    def draw(self, predictor: Any, result: Any, *, caption: bool) -> None:
        """Draw the bars, if a file is named for them."""
        if self.picture:
            result.draw(self.picture, caption=caption)
