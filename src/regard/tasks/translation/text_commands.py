"""The operations of translators on texts: translate, and look at attention. Nothing here imports torch at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from regard.config.fields import facts_of
from regard.config.language import SamplingSettings
from regard.config.training import DecodingConfig
from regard.errors import RequestError
from regard.evaluation.tables import finite
from regard.task.operation import Look, Sites, Text, TextOperation
from regard.tasks.reading import AttributingOperation

if TYPE_CHECKING:
    from regard.tasks.translation.predict import Translator
    from regard.tasks.translation.results import Translation


class SearchOptions:
    """Settings of the search as options of an operation."""

    part: ClassVar[str] = "decoding"
    part_class: ClassVar[type | None] = DecodingConfig
    flags: ClassVar[Mapping[str, str]] = {"beam_size": "--beam"}


@dataclass(frozen=True)
class TranslationAnswer:
    """A translation as data for JSON."""

    source: str
    """The text that was translated."""
    text: str
    """The translation."""
    score: float | None
    """Score that ranks translations: log probability with length reward and penalty."""
    log_probability: float | None
    """Natural logarithm of the translation's probability."""
    finished: bool
    """False if the length limit cut the translation off."""
    alternatives: list[TranslationAnswer] = field(default_factory=list)
    """The other translations of `n_best`, by decreasing score."""
    source_words: list[str] = field(default_factory=list)
    """The words of the source, if `alignment` was requested."""
    target_words: list[str] = field(default_factory=list)
    """The words of the translation, if `alignment` was requested."""
    alignment: str = ""
    """Links between words, such as `0-0 1-2` (source word-target word, from 0), if `alignment` was requested."""


@dataclass(frozen=True, kw_only=True)
class Translate(SearchOptions, SamplingSettings, TextOperation):
    """Translate texts. Settings that are left out are those of the model."""

    n_best: Annotated[int, Ge(1), Le(1000)] = 1
    """Number of translations of each text. They are printed one per line: number of the text, log probability and translation,
    separated by tabs, in the order of the search's score."""
    prefix: str = ""
    """Beginning of every translation."""
    constraints: tuple[str, ...] = ()
    """Word or phrase that every translation contains; may be given several times (works best with a large beam)."""
    sample: Annotated[int, Ge(0), Le(1000)] = 0
    """Number of samples of each text, which are drawn instead of searching for the best translation; 0 to search."""
    minimum_risk: Literal["", "chrf", "bleu"] = ""
    """Of the translations of `sample` or `n_best`, return the one that is most similar to all others by this measure."""
    engine: Literal["", "ctranslate2"] = ""
    """Engine that searches instead of regard: `ctranslate2` is faster on a CPU, and has other rules: the score of a translation
    is log p / length^α, and there is no length reward. For Transformers, with a plain beam or greedy search."""
    live_words: bool = False
    """Whether to translate each line of standard input while its words arrive, for models that do not need the whole source
    (`--model.wait_k 3`); a word is written when the next one begins."""
    alignment: bool = False
    """Whether to return the words and their alignment in Pharaoh format too."""

    name: ClassVar = "translate"
    chosen: ClassVar = tuple(name for name in DecodingConfig.__dataclass_fields__ if name != "batch_tokens")
    flags: ClassVar = {**SearchOptions.flags, "constraints": "--constraint"}
    help: ClassVar = """\
Translate the given sentences, the lines of --input FILE, or the lines of standard input.
For each sentence, one line is printed, in order."""
    examples: ClassVar = """\
  regard translate runs/mine "The old man sang." --heatmap map.png
  regard translate runs/mine --input test.en > test.de
  regard translate runs/mine --input phrases.csv --output translated.csv
  cat test.en | regard translate runs/mine --beam 5 --n-best 3 --json
  regard translate runs/wait --live-words
  regard translate runs/mine --input test.en --ensemble runs/other --ensemble runs/third
  regard translate runs/mine --input test.en --sample 32 --minimum-risk chrf
  regard translate runs/mine "The old man sang." --beam 6 --groups 3 --n-best 3
  regard translate runs/mine "The old man sang." --prefix "Der" --constraint "alte Mann\""""
    text: ClassVar = "sentence"
    answers: ClassVar = "translations"
    answer: ClassVar = TranslationAnswer
    example: ClassVar = "The old man sang."
    per_text: ClassVar = {"prefix": "", "constraints": ""}
    caps: ClassVar = {
        **dict.fromkeys(("beam_size", "n_best"), "beam"),
        **dict.fromkeys(("max_length", "min_length"), "tokens"),
        "prefix": "attention_characters",
    }
    kept: ClassVar = 2048  # translating a line of more than 65,536 characters as a whole would take minutes
    command_only: ClassVar = frozenset(
        {"precision", "constraints", "sample", *facts_of(SamplingSettings), "minimum_risk", "engine", "live_words"}
    )
    service_only: ClassVar = frozenset({"alignment"})
    picture: ClassVar = "the attention"
    columns: ClassVar = ("translation",)
    ensembles: ClassVar = True

    def __post_init__(self) -> None:
        for name, facts in facts_of(SamplingSettings).items():
            if not self.sample and getattr(self, name) != facts.default:
                raise RequestError(f"translate: {name} is for sampling; set sample to the number of samples")
        for name in ("n_best", "prefix", "constraints", "sample", "minimum_risk", "engine") if self.live_words else ():
            if getattr(self, name) != facts_of(type(self))[name].default:
                raise RequestError(f"translate: {name} needs the whole source; leave out {name}, or --live-words")
        if self.live_words and self.settings.get("beam_size", 1) > 1:
            raise RequestError("translate: beam search revises words that --live-words has written; set the beam to 1")

    def run(
        self, predictor: Translator, texts: Sequence[Text], *, record: Sites = (), progress: bool = False
    ) -> list[Translation]:
        wide = {"beam_size": self.setting(predictor, "beam_size")} if self.n_best > 1 else {}
        options: dict[str, Any] = {**wide, **self.settings}
        if self.sample:
            from regard.decoding import Sampling

            drawing: dict[str, Any] = {name: getattr(self, name) for name in facts_of(SamplingSettings)}
            options["sampling"] = Sampling(count=self.sample, first=texts[0].number if texts else 0, **drawing)
        for name in ("prefix", "constraints"):
            values = [one.values.get(name, getattr(self, name)) for one in texts]
            options |= {name: values} if any(values) else {}
        return predictor.translate(
            [one.text for one in texts],
            n_best=self.n_best,
            minimum_risk=self.minimum_risk or None,
            engine=self.engine or None,
            record=None if self.alignment else record,
            progress=progress,
            **options,
        )

    @property
    def reads_words(self) -> bool:
        return self.live_words

    def process_words(self, predictor: Translator, words: Iterator[str], write: Callable[[str], object]) -> None:
        predictor.translate_live(words, write, **{name: one for name, one in self.settings.items() if name != "beam_size"})

    def setting(self, predictor: Any, name: str) -> Any:
        """Return the value of a setting. The beam is at least as wide as the number of translations to return."""
        own = super().setting(predictor, name)
        return max(own, self.n_best) if name == "beam_size" and name not in self.settings else own

    @property
    def _lists(self) -> bool:
        return not self.minimum_risk and max(self.n_best, self.sample) > 1

    def plain(self, result: Translation, units: Any = "auto") -> dict[str, Any]:
        """Return a translation with its scores, the other translations, and, if attention was recorded, words and alignment."""
        names = ("source", "text", "score", "log_probability", "finished")
        plain: dict[str, Any] = finite({name: getattr(result, name) for name in names})
        if self._lists:
            single = replace(self, n_best=1, sample=0)
            plain["alternatives"] = [single.plain(other, units) for other in result.alternatives]
        if result.attention is not None:
            record = result.attention.in_units(units)  # so that the alignment counts the words of the lists
            plain |= {"source_words": record.source_words, "target_words": record.target_words, "alignment": record.pharaoh()}
        return plain

    def check_cells(self) -> None:
        """Raise a `RequestError` if several translations of each text are wanted."""
        if self._lists:
            raise RequestError("translate: a row of a table has one translation; leave out n-best and sample, or add --json")

    def cells(self, result: Translation) -> tuple[str]:
        return (result.text,)

    def text_columns(self, config: Any) -> Any:
        from regard.text.column_rules import PairColumns

        return PairColumns(config.data)

    def render(self, result: Translation, number: int) -> str:
        """Return a translation, or all of them, one per line."""
        if not self._lists:
            return result.text
        return "\n".join(f"{number}\t{one.log_probability:.4f}\t{one.text}" for one in (result, *result.alternatives))


@dataclass(frozen=True, kw_only=True)
class LookAtTranslation(SearchOptions, AttributingOperation):
    """Return the attention of translations, or of given translations."""

    target: str | None = None
    """Translation whose attention is shown, instead of the model's own."""

    chosen: ClassVar = ("beam_size", "max_length")
    example: ClassVar = "The old man sang."
    per_text: ClassVar = {"target": "targets"}
    caps: ClassVar = {"beam_size": "beam", "max_length": "tokens"}

    def run(self, predictor: Translator, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Look]:
        sources, targets = [one.text for one in texts], [one.values.get("target", self.target) for one in texts]
        sites = self.sites or None
        if any(target is not None for target in targets):
            results = predictor.force(sources, [target or "" for target in targets], record=sites)
        else:
            results = predictor.translate(sources, record=sites, **self.settings)
        scored = "{0.source}\n{0.text}   (log probability {0.log_probability:.2f})"
        looks = [Look(scored.format(one), one.attention) for one in results]
        return self.attributed(looks, lambda: predictor.attribute_results(results, self.attribution))

    def cost(self, predictor: Translator, text: Text, limits: Mapping[str, int]) -> int:
        """Estimate the work of the search; without one, the size of the texts."""
        return text.size if "target" in text.values else super().cost(predictor, text, limits)
