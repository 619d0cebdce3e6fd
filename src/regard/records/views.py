"""Compute weights over words from weights over tokens, for the views of a record."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from regard.errors import RequestError, nearest
from regard.records.alignment import Link
from regard.records.segments import Segment, TextSegment
from regard.records.subwords import join_bytes, token_label
from regard.rendering import Units
from regard.scripts import is_spaceless

UNKNOWN_TOKENS = ("<unk>", "[UNK]")
"""Tokens that replace what is not in a vocabulary."""


def sides(site: str) -> tuple[str, str]:
    """Return the sides (`source` or `target`) of a site's rows and columns; for an encoder site, both are the source."""
    if site.startswith("encoder"):
        return "source", "source"
    if site.startswith("decoder"):
        return "target", "target"
    return "target", "source"


def pick_head(weights: np.ndarray, site: str, head: int | None) -> Float[np.ndarray, "T S"]:
    """Return the weights of a head of a site, or the mean over its heads if none is given."""
    heads = len(weights) if weights.ndim == 3 else None
    if head is None:
        return weights if heads is None else weights.mean(0, dtype=np.float64)
    if heads is None or not 0 <= head < heads:
        have = f"{heads} heads: choose one of 0 to {heads - 1}" if heads else "no heads: leave head out, or name a layer"
        raise RequestError(f"head {head} was requested at site {site!r}, which has {have}")
    return weights[head]


def split(weights: Float[np.ndarray, "T S"], column_of: Sequence[int]) -> Float[np.ndarray, "T S"]:
    """Divide the weight of each token by the number of tokens of its word, so that `merge` averages columns."""
    column = np.asarray(column_of, int)
    sizes = np.bincount(column + 1, minlength=1)
    sizes[0] = 1  # special tokens are not merged
    return weights / sizes[column + 1]


def merge(
    weights: Float[np.ndarray, "T S"], row_of: Sequence[int], column_of: Sequence[int], num_words: tuple[int, int]
) -> Float[np.ndarray, "rows columns"]:
    """Sum the columns of each word and average the rows of each word; tokens with word index −1 are left out."""
    # The result is float32; words without tokens have zeros.
    row, column = np.asarray(row_of, int), np.asarray(column_of, int)
    keep_row, keep_column = row >= 0, column >= 0
    tokens = np.asarray(weights, np.float64)[keep_row][:, keep_column]
    summed = _add(tokens.T, column[keep_column], num_words[1])
    result = _add(summed.T, row[keep_row], num_words[0])
    count = np.bincount(row[keep_row], minlength=num_words[0])
    greatest = np.finfo(np.float32).max  # so that sums of the largest weights stay finite
    return (result / np.maximum(count, 1)[:, None]).clip(-greatest, greatest).astype(np.float32)


def _add(values: np.ndarray, owners: np.ndarray, count: int) -> np.ndarray:
    """Return the sum of the rows of each of `count` owners."""
    sums = np.zeros((count, values.shape[1]))
    if len(np.unique(owners)) == len(owners):  # much faster, for the thousands of patches of an image
        sums[owners] = values
    else:
        np.add.at(sums, owners, values)
    return sums


def links(matrix: Float[np.ndarray, "T S"], threshold: float | None = None) -> list[Link]:
    """Return the links (source, output): the largest weight of each row, or all weights that reach a given threshold."""
    # Without a threshold, the first of equal weights is used, and rows without weight have no links.
    if threshold is not None:
        rows, columns = np.nonzero(matrix >= threshold)
    else:
        rows = np.flatnonzero(matrix.any(axis=1)) if matrix.size else np.zeros(0, int)
        columns = matrix[rows].argmax(axis=1) if len(rows) else rows
    return sorted(zip(columns.tolist(), rows.tolist(), strict=True))


@dataclass(frozen=True)
class Span:
    """A segment as a run of words of a view."""

    segment: Segment
    start: int
    end: int


@dataclass(frozen=True)
class Axis:
    """The tokens along one axis of raw weights, and the words that they belong to."""

    tokens: Sequence[str]
    words: Sequence[str]
    word_of: Sequence[int]
    """Index of each token's word; −1 for special tokens."""
    scheme: str = ""
    """How the tokens spell the text; see `AttentionRecord.source_scheme`."""
    segments: Sequence[Segment] = ()
    """Runs of tokens with a layout of their own; see `AttentionRecord.source_segments`."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """The segments that have words, with the places of these words."""
        places = [(each, [w for w in self.word_of[each.start : each.end] if w >= 0]) for each in self.segments]
        return tuple(Span(each, min(words), max(words) + 1) for each, words in places if words)

    @property
    def times(self) -> tuple[tuple[float, float] | None, ...]:
        """For each word, the seconds at which it begins and ends in a sound; None if unknown."""
        times: list[tuple[float, float] | None] = [None] * len(self.words)
        for each in self.segments:
            for token, (begin, end) in enumerate(each.times if isinstance(each, TextSegment) else (), each.start):
                if (word := self.word_of[token]) >= 0:
                    known = times[word] or (begin, end)
                    times[word] = min(begin, known[0]), max(end, known[1])
        return tuple(times)

    @property
    def unit(self) -> str:
        """The unit of the words: `character`, `token` or `word`; `patch` or `frame` if there is nothing else."""
        placed = [span for span in self.spans if span.segment.has_places]
        if placed and sum(span.end - span.start for span in placed) == len(self.words):
            return placed[0].segment.unit
        # A model may read each letter of a script without spaces as a word.
        letters = [word for word in self.words if len(word) == 1 and is_spaceless(word)]
        default = "character" if 2 * len(letters) > len(self.words) else "word"
        return {"characters": "character", "tokens": "token"}.get(self.scheme, default)

    @property
    def unknown(self) -> tuple[bool, ...]:
        """For each word, whether it or a part of it is not in the model's vocabulary."""
        lost = {owner for token, owner in zip(self.tokens, self.word_of, strict=True) if token in UNKNOWN_TOKENS}
        return tuple(place in lost for place in range(len(self.words)))

    def in_units(self, units: Units) -> "Axis":
        """Return an axis whose words are the given units; tokens that are bytes of one character are joined."""
        spells = self.scheme == "characters"
        if units != "tokens" and (units == "words" or not spells):
            return replace(self, scheme="") if spells else self
        # The tokens of an image or a sound spell nothing, and keep the names of their places.
        named = {each.start + i: place for each in self.segments for i, place in enumerate(each.places())}
        spelled = ["" if index in named else token for index, token in enumerate(self.tokens)]
        groups, group_of = join_bytes(spelled, [index >= 0 for index in self.word_of], self.scheme)
        words = [token_label(self.scheme, group) for group in groups]
        # The words contain the original letters, also those that are unknown to the model.
        places = {self.word_of[index] for index in named}
        letters = "".join(word for index, word in enumerate(self.words) if index not in places)
        if spells and len(letters) == sum(word not in ("", " ") for word in words):
            remaining = iter(letters)
            words = [word if word in ("", " ") else next(remaining) for word in words]
        for index, place in named.items():
            words[group_of[index]] = place
        converted = replace(self, words=tuple(words), word_of=tuple(group_of), scheme=self.scheme if spells else "tokens")
        return (
            self if self.scheme == "tokens" or (converted.words, converted.word_of) == (self.words, self.word_of) else converted
        )

    def with_special(self) -> "Axis":
        """Return an axis on which each special token is a separate word, at its position."""
        words: list[str] = []
        place_of: dict[int, int] = {}
        word_of = []
        for token, index in zip(self.tokens, self.word_of, strict=True):
            if index < 0:
                words.append(token)
                word_of.append(len(words) - 1)
                continue
            for number in range(len(place_of), index + 1):  # words without tokens come before the next word with tokens
                place_of[number] = len(words)
                words.append(self.words[number])
            word_of.append(place_of[index])
        return Axis(self.tokens, (*words, *self.words[len(place_of) :]), word_of, segments=self.segments)


@dataclass(frozen=True, eq=False)
class WordView:
    """Weights over words as a picture shows them, and the weight that is left out."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    matrix: Float[np.ndarray, "rows columns"]
    totals: Float[np.ndarray, " rows"]
    """Sum of the absolute weights of each row, including those that are not shown."""
    hidden: Float[np.ndarray, " rows"]
    """Share of each row's total that fell on special tokens and is not shown; 0 for rows without weight."""
    special: tuple[str, ...]
    """The different special tokens whose columns are not shown."""
    unknown_rows: tuple[bool, ...]
    """For each row, whether its word is not in the model's vocabulary."""
    unknown_columns: tuple[bool, ...]
    with_special: bool
    """Whether special tokens are shown if there are any."""
    row_spans: tuple[Span, ...] = ()
    """The segments of the rows."""
    column_spans: tuple[Span, ...] = ()
    row_times: tuple[tuple[float, float] | None, ...] = ()
    """For each row, the seconds at which its word begins and ends in a sound; None if unknown."""
    outside: Float[np.ndarray, " rows"] | None = None
    """Share of each row's total that fell on columns that `select` left out; None if it left out none."""
    p_gen: tuple[float, ...] = ()
    """For each row, the probability that its word was generated, not copied; see `AttentionRecord.p_gen`."""

    def with_p_gen(self) -> "WordView":
        """Return the view with p_gen as a further last column, if there is p_gen."""
        if not self.p_gen or not self.matrix.size:
            return self
        matrix = np.concatenate([self.matrix, np.array(self.p_gen, np.float32)[:, None]], axis=1)
        return replace(self, columns=(*self.columns, "p_gen"), matrix=matrix, unknown_columns=(*self.unknown_columns, False))

    def select(self, rows: Iterable[int] | None = None, columns: Iterable[int] | None = None) -> "WordView":
        """Return a view of some rows and columns, by their indices in increasing order; None for all."""
        down = list(range(len(self.rows)) if rows is None else rows)
        across = list(range(len(self.columns)) if columns is None else columns)
        dropped = np.delete(np.abs(self.matrix.astype(np.float64)), across, axis=1).sum(axis=1)
        share = np.divide(dropped, self.totals, out=np.zeros_like(dropped), where=self.totals > 0)
        outside = share if self.outside is None else share + self.outside
        return replace(
            self,
            rows=tuple(self.rows[index] for index in down),
            columns=tuple(self.columns[index] for index in across),
            matrix=self.matrix[down][:, across],
            totals=self.totals[down],
            hidden=self.hidden[down],
            unknown_rows=tuple(self.unknown_rows[index] for index in down),
            p_gen=tuple(self.p_gen[index] for index in down) if self.p_gen else (),
            unknown_columns=tuple(self.unknown_columns[index] for index in across),
            row_spans=_within(self.row_spans, down),
            row_times=tuple(self.row_times[index] for index in down) if self.row_times else (),
            column_spans=_within(self.column_spans, across),
            outside=outside[down] if len(across) < len(self.columns) or self.outside is not None else None,
        )

    def between(self, rows: str, columns: str) -> "WordView":
        """Return the view of the rows of one segment and the columns of another, by their names; empty for all.

        Raises:
            RequestError: If there is no segment with this name.
        """
        chosen = []
        for spans, name in ((self.row_spans, rows), (self.column_spans, columns)):
            named = [span.segment.name for span in spans if span.segment.name]
            names = {span.segment.name: span for span in spans if span.segment.name}
            if name and name not in names:
                known = ", ".join(map(repr, names)) or "none: name the texts, as in regard.record(weights, {'A': words, …})"
                raise RequestError(f"between: there is no segment {name!r:.60}, only {known}{nearest(name, names)}")
            if named.count(name) > 1:
                raise RequestError(f"between: {named.count(name)} segments are named {name!r:.60}; give each its own name")
            chosen.append(range(names[name].start, names[name].end) if name else None)
        return self.select(*chosen)

    @property
    def means(self) -> Float[np.ndarray, " columns"]:
        """Mean weight of each column over the rows; zeros if there is no row."""
        return self.matrix.sum(axis=0, dtype=np.float64) / max(1, len(self.matrix))


def _within(spans: Iterable[Span], kept: Sequence[int]) -> tuple[Span, ...]:
    """Return the spans of which all words are kept, at their new places."""
    new = {old: index for index, old in enumerate(kept)}
    whole = [span for span in spans if all(index in new for index in range(span.start, span.end))]
    return tuple(Span(span.segment, new[span.start], new[span.end - 1] + 1) for span in whole)


def word_view(weights: Float[np.ndarray, "T S"], rows: Axis, columns: Axis, *, special: bool) -> WordView:
    """Combine weights over tokens into weights over words, and compute the share that is left out."""
    # If `special`, special tokens are separate words.
    if special:
        rows, columns = rows.with_special(), columns.with_special()
    size = (len(rows.words), len(columns.words))
    left_out = tuple(0 if index < 0 else -1 for index in columns.word_of)
    magnitudes = np.abs(np.asarray(weights, np.float64))
    trimmed = merge(magnitudes, rows.word_of, left_out, (size[0], 1))[:, 0].astype(np.float64)
    totals = trimmed + merge(magnitudes, rows.word_of, columns.word_of, size).sum(axis=1, dtype=np.float64)
    names = (token for token, index in zip(columns.tokens, columns.word_of, strict=True) if index < 0)
    return WordView(
        rows=tuple(rows.words),
        columns=tuple(columns.words),
        matrix=merge(weights, rows.word_of, columns.word_of, size),
        totals=totals,
        hidden=np.divide(trimmed, totals, out=np.zeros_like(trimmed), where=totals > 0),
        special=tuple(dict.fromkeys(names)),
        unknown_rows=rows.unknown,
        unknown_columns=columns.unknown,
        with_special=special,
        row_spans=rows.spans,
        row_times=rows.times,
        column_spans=columns.spans,
    )
