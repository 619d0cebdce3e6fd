"""Comparison of two translators on the same pairs, with tests of significance."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.evaluation.comparison import CERTAIN, describe_p
from regard.evaluation.tables import shorten, table
from regard.plurals import counted
from regard.tasks.requests import check_alike
from regard.tasks.translation.metrics import suitable_metrics
from regard.tasks.translation.predict import Translator


@dataclass(frozen=True)
class TranslationScore:
    """Scores of two translators in one metric, from sacrebleu's paired bootstrap."""

    name: str
    first: float
    """Score of the first translator, from 0 to 100."""
    first_interval: float
    """Half the width of the score's 95% confidence interval."""
    second: float
    second_interval: float
    p: float
    """p-value of the difference."""
    signature: str
    """sacrebleu's signature, which describes how the scores were computed; quote it with them."""


@dataclass(frozen=True)
class TranslatorComparison:
    """Comparison of two translators on the same pairs."""

    names: tuple[str, str]
    pairs: int
    scores: tuple[TranslationScore, ...]
    decoding: tuple[str, str] = ("", "")
    """Description of each translator's search: `greedy` or the beam size, then the other settings that matter."""

    @property
    def conclusion(self) -> str:
        """One sentence on which translator is better: a score is significantly higher, and none is significantly lower."""
        sure = [score for score in self.scores if score.p < CERTAIN and score.first != score.second]
        told = ", ".join(f"{score.second - score.first:+.2f} {score.name}, {describe_p(score.p)}" for score in self.scores)
        if not sure:
            return f"These {self.pairs:,} pairs show no significant difference ({told})."
        if len({score.second > score.first for score in sure}) > 1:
            return f"Each translator is significantly better by one score and worse by another ({told})."
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
    resamples: int = 1000,
    progress: bool = False,
    **settings: Any,
) -> TranslatorComparison:
    """Test whether one translator is better than another with sacrebleu's paired bootstrap of BLEU and chrF.

    Args:
        first: A translator.
        second: Another translator. If either of the two produces lower-case text, the scores ignore case.
        sources: Sources that are not in the training data of either translator.
        targets: A reference translation of each source.
        names: Names of the two translators.
        resamples: Number of samples of the bootstrap.
        progress: Whether to show bars on standard error.
        settings: Settings of the search, as for `Translator.translate`.

    Raises:
        RequestError: If there are no pairs, or the numbers of sources and targets differ.

    Reference:
        Koehn 2004, Statistical Significance Tests for Machine Translation Evaluation.
    """
    from sacrebleu.significance import PairedTest

    check_alike("compare", sources=sources, targets=targets)
    found = [
        [one.text for one in each.translate(sources, record=(), progress=progress, **settings)] for each in (first, second)
    ]
    # Case is ignored if either output is in lower case, so the metrics are built for such a tokenizer.
    tokenizers = [each.tokenizers.target for each in (first, second)]
    bleu, chrf = suitable_metrics(tokenizers[tokenizers[1].lowercase and not tokenizers[0].lowercase], targets)
    test = PairedTest(
        [("first", found[0]), ("second", found[1])], {"BLEU": bleu, "chrF": chrf}, [list(targets)], "bs", n_samples=resamples
    )
    signatures, results = test()
    return TranslatorComparison(
        names=names,
        pairs=len(sources),
        scores=tuple(_score(name, str(signature), *results[name]) for name, signature in signatures.items()),
        decoding=(first.decoding(**settings).describe(), second.decoding(**settings).describe()),
    )


def _score(name: str, signature: str, first: Any, second: Any) -> TranslationScore:
    """Convert the results of one metric; sacrebleu calls chrF `chrF2`, because β is 2."""
    return TranslationScore(
        name=name.rstrip("2"),
        first=float(first.score),
        first_interval=float(first.ci),
        second=float(second.score),
        second_interval=float(second.ci),
        p=float(second.p_value),
        signature=signature,
    )
