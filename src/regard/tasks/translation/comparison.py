"""Two translators on the same pairs: which is better, and whether that is more than chance."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.errors import RequestError
from regard.evaluation.comparison import CERTAIN, describe_p
from regard.evaluation.tables import shorten, table
from regard.plurals import counted
from regard.tasks.translation.metrics import suitable_metrics
from regard.tasks.translation.predictor import Translator


@dataclass(frozen=True)
class TranslationScore:
    """A score of two translators, as sacrebleu's paired bootstrap has it."""

    name: str
    first: float
    """From 0 to 100."""
    first_interval: float
    """Half of the 95% interval around it."""
    second: float
    second_interval: float
    p: float
    """Of the difference."""
    signature: str
    """How sacrebleu computed it; quote it with the scores."""


@dataclass(frozen=True)
class TranslatorComparison:
    """Two translators on the same pairs."""

    names: tuple[str, str]
    pairs: int
    scores: tuple[TranslationScore, ...]
    decoding: tuple[str, str] = ("", "")
    """Search of each translator: `greedy`, or the beam size and how it ranks translations."""

    @property
    def conclusion(self) -> str:
        """One sentence: better by a score that chance explains badly, and worse by none."""
        sure = [score for score in self.scores if score.p < CERTAIN and score.first != score.second]
        told = ", ".join(f"{score.second - score.first:+.2f} {score.name}, {describe_p(score.p)}" for score in self.scores)
        if not sure:
            return f"These {self.pairs:,} pairs show no difference ({told})."
        if len({score.second > score.first for score in sure}) > 1:
            return f"Each is better by one score and worse by another ({told})."
        scores = "" if len(sure) == len(self.scores) else f", by {sure[0].name} alone,"
        return f"{self.names[sure[0].second > sure[0].first]} is better{scores} on these pairs ({told})."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {**asdict(self), "conclusion": self.conclusion}

    def render(self) -> str:
        """Return a table, the signatures and the conclusion, for a terminal."""
        rows = [
            [
                score.name,
                f"{score.first:.2f} ± {score.first_interval:.2f}",
                f"{score.second:.2f} ± {score.second_interval:.2f}",
                f"{score.second - score.first:+.2f}",
                f"{score.p:.4f}",
            ]
            for score in self.scores
        ]
        header = [counted(self.pairs, "pair"), *(shorten(name, 24) for name in self.names), "difference", "p"]
        signatures = "\n".join(f"{score.name}: {score.signature}" for score in self.scores)
        each = [f"{shorten(name, 24)}: {how}" for name, how in zip(self.names, self.decoding, strict=True)]
        decoding = self.decoding[0] if self.decoding[0] == self.decoding[1] else "; ".join(each)
        return f"{table(header, rows)}\n\nSearch for BLEU and chrF: {decoding}\n{signatures}\n\n{self.conclusion}"


def compare_translators(
    first: Translator,
    second: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    names: tuple[str, str] = ("the first", "the second"),
    beam_size: int | None = None,
    resamples: int = 1000,
    progress: bool = False,
) -> TranslatorComparison:
    """Test whether one translator is better than another, by sacrebleu's paired bootstrap of BLEU and chrF.

    Args:
        first: One.
        second: The other. Where one of the two writes in lower case, both are compared without case.
        sources: Sources that neither was trained on.
        targets: A reference of each.
        names: What to call the two.
        beam_size: As for `Translator.translate`.
        resamples: Of the bootstrap.
        progress: Whether to show bars on standard error.

    Raises:
        RequestError: If there are no pairs, or not as many targets as sources.

    Reference:
        Koehn 2004, Statistical Significance Tests for Machine Translation Evaluation.
    """
    from sacrebleu.significance import PairedTest

    if not sources or len(sources) != len(targets):
        raise RequestError(
            f"compare: got {len(sources):,} sources and {len(targets):,} targets, expected as many, at least one"
        )
    found = [
        [one.text for one in each.translate(sources, beam_size=beam_size, record=(), progress=progress)]
        for each in (first, second)
    ]
    tokenizers = [each.bundle.target_tokenizer for each in (first, second)]
    bleu, chrf = suitable_metrics(tokenizers[tokenizers[1].lowercase and not tokenizers[0].lowercase], targets)
    test = PairedTest(
        [("first", found[0]), ("second", found[1])], {"BLEU": bleu, "chrF": chrf}, [list(targets)], "bs", n_samples=resamples
    )
    signatures, results = test()
    return TranslatorComparison(
        names=names,
        pairs=len(sources),
        scores=tuple(_score(name, str(signature), *results[name]) for name, signature in signatures.items()),
        decoding=(first.decoding(beam_size=beam_size).describe(), second.decoding(beam_size=beam_size).describe()),
    )


def _score(name: str, signature: str, first: Any, second: Any) -> TranslationScore:
    """Return one metric of sacrebleu's results; it calls chrF chrF2, by its β."""
    return TranslationScore(
        name=name.rstrip("2"),
        first=float(first.score),
        first_interval=float(first.ci),
        second=float(second.score),
        second_interval=float(second.ci),
        p=float(second.p_value),
        signature=signature,
    )
