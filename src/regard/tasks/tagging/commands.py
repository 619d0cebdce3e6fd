"""The operations of taggers: tag, look at attention and evaluate. Nothing here imports torch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from regard.evaluation.spans import TaggedSpan
from regard.task.operation import AttentionOperation, FileOperation, Files, Sites, Text, TextOperation
from regard.tasks.reading import read_all, read_files

if TYPE_CHECKING:
    from regard.evaluation.spans import TagScores
    from regard.tasks.tagging.predict import Tagger
    from regard.tasks.tagging.results import TaggedText


@dataclass(frozen=True)
class TaggingAnswer:
    """A sentence with the tags of its words as data for JSON."""

    text: str
    """The sentence."""
    words: list[str]
    """Its words and punctuation marks."""
    tags: list[str]
    """The tag of each word."""
    probabilities: list[float]
    """Probability of each word's tag."""
    spans: list[TaggedSpan]
    """The spans that tags such as `B-LOC` and `I-LOC` mark; empty for other tags."""


@dataclass(frozen=True, kw_only=True)
class Tag(TextOperation):
    """Tag the words of texts."""

    spaces: bool = False
    """Whether the texts have spaces between all words and punctuation marks. If False, texts are split into words and
    punctuation marks by the rules of Unicode."""

    name: ClassVar = "tag"
    help: ClassVar = """\
Tag each word of the given texts, of the lines of --input FILE, or of the lines of standard input.
For each word, one line is printed: the word, a tab and its tag. An empty line follows each text, so `regard evaluate` and
`regard train tagging` can read the output. A table gets the tags and the spans that they mark as columns."""
    examples: ClassVar = """\
  regard tag runs/names "Ada Lovelace lived in London."
  regard tag runs/names "Ada Lovelace lived in London." --heatmap map.png
  regard tag runs/names --input sentences.txt --spaces > tagged.conll
  regard tag runs/names --input letters.csv --column text --output names.csv
  cat sentences.txt | regard tag runs/names --json"""
    answer: ClassVar = TaggingAnswer
    example: ClassVar = "Ada Lovelace lived in London."
    picture: ClassVar = "the attention of each tag"
    columns: ClassVar = ("tags", "spans")

    def run(self, predictor: Tagger, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[TaggedText]:
        return predictor.tag([one.text for one in texts], spaces=self.spaces, record=record, progress=progress)

    def plain(self, result: TaggedText, units: Any = "auto") -> dict[str, Any]:
        """Return the text, its words with their tags and probabilities, and the spans."""
        words = {"words": list(result.words), "tags": list(result.tags), "probabilities": result.probabilities.tolist()}
        return {"text": result.text, **words, "spans": [asdict(span) for span in result.spans]}

    def render(self, result: TaggedText, number: int) -> str:
        """Return one word and its tag per line, and an empty line."""
        return "".join(f"{word}\t{tag}\n" for word, tag in zip(result.words, result.tags, strict=True))

    def cells(self, result: TaggedText) -> tuple[str, str]:
        """Return the tags, and the spans with their types."""
        return " ".join(result.tags), "; ".join(f"{' '.join(span.text.split())} ({span.label})" for span in result.spans)

    def text_columns(self, config: Any) -> Any:
        from regard.config import LabelledDataConfig
        from regard.text.column_rules import LabelledColumns

        return LabelledColumns(LabelledDataConfig())

    def headline(self, result: TaggedText) -> str:
        """Return the text, in which each word has its tag."""
        return " ".join(f"{word}/{tag}" for word, tag in zip(result.words, result.tags, strict=True))


@dataclass(frozen=True, kw_only=True)
class EvaluateTagger(FileOperation):
    """Score a tagger on tagged sentences: accuracy, F1 of the spans of each type (as seqeval computes it), and confusions."""

    name: ClassVar = "evaluate"
    files: ClassVar = "one file of tagged sentences"
    examples: ClassVar = "  regard evaluate runs/names test.conll"

    def run(self, predictor: Tagger, files: Files) -> TagScores:
        from regard.text.tagged.readers import read_tagged

        tags, words = read_all(*read_files(read_tagged, files, predictor.config, ("columns",)), "source", "target")
        return predictor.evaluate([row.split(" ") for row in words], [row.split(" ") for row in tags], progress=True)


OPERATIONS = (Tag, AttentionOperation, EvaluateTagger)
