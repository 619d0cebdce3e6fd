"""The class of records: a model's attention weights for each output token, and the words that the tokens belong to."""

from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from regard import disk
from regard.errors import DataError, RegardError, RequestError, nearest
from regard.records import checks, encoding, views
from regard.records.alignment import Link, format_pharaoh
from regard.records.segments import Segment
from regard.records.through_layers import rollout_of
from regard.rendering import PAGE, PICTURES, Over, Theme, Units, renderer

if TYPE_CHECKING:
    from regard.rendering import Figure

START = "<s>"
"""Name of the symbol that a decoder reads first, for records whose target tokens do not include it."""

Step = Literal["produce", "consume"]
"""Decoder step whose attention belongs to an output word: `produce` for the step that predicts the word, or `consume` for the
next step, which reads it. The layers of a Transformer also process the word that they read, so this step can align it better
(Kobayashi et al. 2020, section 5; Chen et al. 2020, section 3.2, "shift").
"""

P_GEN = "p_gen"
"""Name under which models that copy source words record the probability of generating a word instead."""

NOTE = "Attention weights do not prove which words the model's output depends on."


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AttentionRecord:
    """The attention of one prediction: a translation, a text of a language model, or the label of a classification.

    The raw weights in `weights` refer to tokens, including end symbols and padding. The views `matrix`, `alignment` and
    `pharaoh` refer to words: they sum the source columns of a word, average the output rows of a word, and leave out special
    symbols. On a side whose tokens are characters, they refer to characters; their argument `units` chooses other units.

    Raises:
        ShapeError: If the numbers of weights and tokens differ.
        DataError: If a word index is out of range, a weight is not finite, or a probability is not between 0 and 1.
    """

    source_tokens: tuple[str, ...]
    """The S source tokens, including special symbols."""
    target_tokens: tuple[str, ...]
    """The T target tokens."""
    source_words: tuple[str, ...]
    """The words of the source, which consist of its tokens."""
    target_words: tuple[str, ...]
    """The words of the target, which consist of its tokens."""
    source_word_of: tuple[int, ...]
    """Index of each source token's word, from 0; −1 for special symbols such as the end symbol."""
    target_word_of: tuple[int, ...]
    """Index of each target token's word, from 0; −1 for special symbols."""
    weights: dict[str, np.ndarray]
    """Weights (T,S) by site, or (H,T,S) with heads, in float32 and read-only. If a site's name begins with `encoder`, its
    weights are (S,S); if it begins with `decoder`, they are (T,T), see `target_is_read`.
    """
    source_text: str = ""
    """The original sentence; by default its words joined by spaces."""
    target_text: str = ""
    """The original target; by default its words joined by spaces."""
    score: float | None = None
    """Score by which the search ranked its outputs, with length reward and penalty; it may be above 0."""
    log_probability: float | None = None
    """Natural logarithm of the output's probability, ≤ 0."""
    reference: str | None = None
    """The right output for comparison: a human translation, or the true label."""
    probabilities: dict[str, float] = field(default_factory=dict)
    """Probability by label for a classification, else empty. If a text can have several labels, they need not sum to one."""
    target_is_read: bool = False
    """If True, decoder step t reads target token t, as in records of language models. If False, step t predicts token t and
    reads the previous prediction, so column t of a `decoder` site is target token t − 1; column 0 is the start symbol, which
    is not a word.
    """
    source_scheme: str = ""
    """How the source's tokens spell its text: `characters` if each is a character; `bytes` or `sentencepiece` (see
    `join_subwords`); `tokens` if the record's words are its tokens (`in_units`); otherwise empty.
    """
    target_scheme: str = ""
    """The same for the target."""
    note: str = NOTE
    """Last sentence of captions (`viz.caption`), on what the weights prove and what they do not prove."""
    source_segments: tuple[Segment, ...] = ()
    """Runs of source tokens that are the patches of an image, the frames of a sound, or one of several texts, in order. They
    need not cover all tokens.
    """
    target_segments: tuple[Segment, ...] = ()
    """The same for the target."""
    p_gen: tuple[float, ...] = ()
    """Probability of each of the T steps to generate a word from the vocabulary instead of copying a source word by the weights
    of `cross` (See et al. 2017, eq. 8); empty for models that do not copy.
    """

    def __post_init__(self) -> None:
        """Convert the fields to tuples and arrays, and check them."""
        for name, value in checks.convert(vars(self)).items():
            object.__setattr__(self, name, value)  # the dataclass is frozen; this is its constructor

    @property
    def is_classification(self) -> bool:
        """Whether the output is a label with a probability, not a text."""
        return bool(self.probabilities)

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the recorded attention sites, such as `cross` or `encoder.2`."""
        return tuple(self.weights)

    def site(self, name: str | None = None) -> str:
        """Return the name of a site after checking that it exists; by default `cross`, `pool` or `tag`, else the only site.

        Raises:
            RequestError: If there is no such site, or several exist and none is named.
        """
        if name is None:
            for usual in ("cross", "pool", "tag", *(self.sites if len(self.weights) == 1 else ())):
                if usual in self.weights:
                    return usual
            raise RequestError(
                f"the record has several sites: name one of {', '.join(self.sites)}, as in site={self.sites[0]!r}; for a "
                f"picture of all layers and heads, give the beginning of their names: site={self.sites[0].partition('.')[0]!r}"
            )
        if name not in self.weights:
            raise RequestError(f"the record has no site {name!r}, only {', '.join(self.sites)}{nearest(name, self.sites)}")
        return name

    def num_heads(self, site: str | None = None) -> int | None:
        """Return the number of heads of a site; None if its weights have no head axis."""
        array = self.weights[self.site(site)]
        return array.shape[0] if array.ndim == 3 else None

    def words(self, site: str | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the words of a site's rows and columns, as in `matrix`: output and source words, or those of one side."""
        rows, columns = self._axes(self.site(site))
        return tuple(rows.words), tuple(columns.words)

    def in_units(self, units: Units) -> "AttentionRecord":
        """Return the record in other units: its `words` are then tokens, characters or words, which views and pictures show.

        Args:
            units: `tokens`; `characters` for the sides whose tokens are characters, with words on the other side; `words`; or
                `auto`, which is `characters` if there is such a side, and else `words`.

        Raises:
            RequestError: If there is no such unit, or `characters` are requested and the tokens of no side are characters.
        """
        if units not in get_args(Units):
            raise RequestError(f"units is {units!r}, expected {', '.join(get_args(Units))}{nearest(units, get_args(Units))}")
        if units == "characters" and "characters" not in (self.source_scheme, self.target_scheme):
            raise RequestError(
                "units 'characters' were requested, but the model's tokens are words or subwords, whose weights cannot be "
                "divided; use 'tokens'"
            )
        changed: dict[str, Any] = {}
        for side in ("source", "target"):
            axis = self._side(side).in_units(units)
            changed |= {f"{side}_words": axis.words, f"{side}_word_of": axis.word_of, f"{side}_scheme": axis.scheme}
        return self if all(getattr(self, name) == value for name, value in changed.items()) else replace(self, **changed)

    def unit(self, side: str) -> str:
        """Return the unit of a side (`source` or `target`) in views: `character`, `token`, `word`, `patch` or `frame`."""
        return self._side(side).unit

    def _side(self, side: str) -> views.Axis:
        return views.Axis(*(getattr(self, f"{side}_{name}") for name in ("tokens", "words", "word_of", "scheme", "segments")))

    def _axes(self, site: str) -> tuple[views.Axis, views.Axis]:
        """Return the axes of a site's weights, in the units that are drawn by default."""
        rows, columns = (self._side(side).in_units("auto") for side in views.sides(site))
        if views.sides(site) == ("target", "target") and not self.target_is_read:  # step t reads the word of step t − 1
            moved = [each.moved(1) for each in columns.segments if each.end < len(columns.tokens)]
            columns = replace(
                columns, tokens=(START, *columns.tokens)[:-1], word_of=(-1, *columns.word_of)[:-1], segments=moved
            )
        return rows, columns

    def columns(self, word: str) -> tuple[int, ...]:
        """Return the indices of a source word's tokens, from 0, for `regard.reweight`; the first such word counts.

        Raises:
            RequestError: If the source has no such word.
        """
        if word not in self.source_words:
            raise RequestError(
                f"columns: the source has no word {word!r}, only {', '.join(map(repr, self.source_words))}"
                f"{nearest(word, self.source_words)}"
            )
        number = self.source_words.index(word)
        return tuple(place for place, owner in enumerate(self.source_word_of) if owner == number)

    def matrix(
        self, site: str | None = None, head: int | None = None, *, step: Step = "produce", units: Units = "auto"
    ) -> Float[np.ndarray, "rows columns"]:
        """Return the weights over words, or other units, with output words as rows and source words as columns.

            m[i, j] = mean over tokens t of word i of (Σ over tokens s of word j of w[t, s])

        At `sentence`, a site of hierarchical classifiers, the weights of a word's tokens are not summed, but averaged.

        Args:
            site: Name of the site; by default `cross`, `pool` or `tag`, else the only one.
            head: Number of the head, from 0; by default the mean over heads.
            step: `produce` for the step that predicts a token, w[t]; `consume` for the step that reads it, w[t + 1].
            units: As for `in_units`.

        Returns:
            A float32 matrix. A row sums to one minus the weight on special tokens. Words without tokens have zeros. With
            `consume`, the last token also has zeros if the record does not include the end symbol.

        Raises:
            RequestError: If there is no such site or head, or `consume` is not possible for the site.
        """
        site = self.site(site)
        rows, columns = views.sides(site)
        raw = views.pick_head(self.weights[site], site, head)
        if step not in ("produce", "consume"):
            raise RequestError(f"step is {step!r}, expected produce or consume")
        if step == "consume":
            if (rows, columns) != ("target", "source") or self.target_is_read:
                raise RequestError(
                    f"step 'consume' was requested at site {site!r}, expected a cross-attention site in which each row "
                    "predicts a target token; use 'produce'"
                )
            raw = np.concatenate([raw[1:], np.zeros_like(raw[:1])])
        down, across = self.in_units(units)._axes(site)
        raw = self._summable(site, raw, across)
        return views.merge(raw, down.word_of, across.word_of, (len(down.words), len(across.words)))

    def _summable(self, site: str, raw: np.ndarray, columns: views.Axis) -> np.ndarray:
        """Return weights over tokens whose sum over the tokens of a word is the weight of the word."""
        # At `sentence`, each token has the weight of its whole sentence.
        return views.split(raw, columns.word_of) if site == "sentence" and self.is_classification else raw

    def word_weights(self, site: str | None = None, head: int | None = None) -> Float[np.ndarray, " columns"]:
        """Return the weight of each source word: the only row of a classification's `matrix`, or the mean of several rows.

        Args:
            site: As for `matrix`.
            head: As for `matrix`.

        Returns:
            Float32 weights; zeros if there is no row.
        """
        return self.view(site, head).means.astype(np.float32)

    def view(
        self,
        site: str | None = None,
        head: int | None = None,
        *,
        special: bool = False,
        between: tuple[str, str] | None = None,
    ) -> views.WordView:
        """Return the weights over words, or other units, as pictures show them, with the share of weight that is not shown.

        Args:
            site: As for `matrix`.
            head: As for `matrix`.
            special: If True, special tokens have their own rows and columns, at their positions in the text.
            between: Names of two segments: only the rows of the first and the columns of the second are returned, which is
                attention from the first to the second. An empty name stands for all.

        Raises:
            RequestError: If there is no such site, head or segment.
        """
        if between is not None and (not isinstance(between, tuple | list) or len(between) != 2):
            raise RequestError(f"between is {between!r:.60}, expected the names of two segments: ('answer', 'question')")
        site = self.site(site)
        rows, columns = self._axes(site)
        raw = self._summable(site, views.pick_head(self.weights[site], site, head), columns)
        view = views.word_view(raw, rows, columns, special=special)
        if self.p_gen and site == "cross":
            word_of = rows.with_special().word_of if special else rows.word_of
            shares = views.merge(np.reshape(self.p_gen, (-1, 1)), word_of, [0], (len(view.rows), 1))
            view = replace(view, p_gen=tuple(shares[:, 0].tolist()))
        return view if between is None else view.between(*between)

    def alignment(
        self, site: str | None = None, head: int | None = None, *, threshold: float | None = None, **options: Any
    ) -> list[Link]:
        """Return the links (source word, output word), from 0, sorted.

        Args:
            site: As for `matrix`.
            head: As for `matrix`.
            threshold: If given, each output word links to all source words with at least this weight. By default, it links to
                the source word with the most weight (the first of equal ones).
            options: `step` and `units`, as for `matrix`.

        Raises:
            RequestError: As for `matrix`, or if the site is within the source or within the output.
        """
        site = self.site(site)
        if views.sides(site) != ("target", "source"):
            raise RequestError(
                f"links between source and output were requested for site {site!r}, whose rows and columns are "
                "words of the same side; use a site from the output to the source, such as 'cross'"
            )
        return views.links(self.matrix(site, head, **options), threshold)

    def pharaoh(self, site: str | None = None, head: int | None = None, **options: Any) -> str:
        """Return the links of `alignment`, which has the same arguments, in Pharaoh format, source first: `"0-0 1-2"`."""
        return format_pharaoh(self.alignment(site, head, **options))

    def rollout(self, family: str = "encoder") -> "AttentionRecord":
        """Return a copy of the record with a further site, such as `encoder.rollout`: the attention through all layers.

        Args:
            family: `encoder`, `decoder`, or `cross`, which goes through decoder and encoder to the source words (see
                `regard.rollout`).

        Raises:
            RequestError: If the family is unknown, or the record lacks the site of a layer.

        Reference:
            Abnar and Zuidema 2020.
        """
        return replace(self, weights={**self.weights, f"{family}.rollout": rollout_of(self.weights, family)})

    def to_json(self) -> str:
        """Return the whole record as JSON, without any loss of float32 precision."""
        return encoding.to_json(vars(self))

    def to_npz(self) -> bytes:
        """Return the whole record as an NPZ file."""
        return encoding.to_npz(vars(self))

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = "from_json") -> "AttentionRecord":
        """Read a record from JSON; see `to_json`.

        Args:
            text: The JSON.
            where: Prefix of error messages.

        Raises:
            DataError: If it is not a record.
        """
        return cls._from_fields(encoding.from_json(text, where), where)

    @classmethod
    def from_npz(cls, content: bytes, *, where: str = "from_npz") -> "AttentionRecord":
        """Read a record from an NPZ file; see `to_npz`."""
        return cls._from_fields(encoding.from_npz(content, where), where)

    @classmethod
    def _from_fields(cls, data: object, where: str) -> "AttentionRecord":
        """Build a record from fields that are not trusted."""
        needed = [each.name for each in fields(cls) if each.default is each.default_factory is MISSING]
        known = [each.name for each in fields(cls)]
        checked = encoding.check_fields(data, where, known, needed)
        try:
            return cls(**checked)
        except RegardError as error:
            raise DataError(f"{where}: {error}") from error

    def save(
        self,
        path: str | Path,
        *,
        site: str | None = None,
        head: int | None = None,
        special: bool = False,
        caption: bool = True,
        units: Units = "auto",
        theme: Theme = "light",
        scale: float | None = None,
        word: str | int | None = None,
        image: Over = "patches",
        between: tuple[str, str] | None = None,
    ) -> None:
        """Write data (.json .npz), a picture (.png .svg .pdf) or a web page (.html), depending on the file's ending.

        Args:
            path: The file, which is written completely or not at all.
            site: Site for a picture, which a page shows first; data and pages contain all sites.
            head: Head for a picture; data and pages contain all heads.
            special: If True, pictures and pages also show special tokens such as [CLS] and the end of the sentence.
            caption: If False, pictures and pages have no text below them, for example for a paper with its own captions.
            units: Units of pictures, as for `in_units`; pages show these first, and data contain the tokens and the words.
            theme: Colours of a picture: `light` (on white), `dark` (for dark slides), or `transparent` (dark letters without a
                background). A page has the reader's.
            scale: Weight that gets the darkest colour of a picture, so that pictures can be compared; None for the smallest of
                …, 0.1, 0.12, 0.16, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1 that no weight exceeds.
            word: Row of a picture over images or sounds: an output word, its number from 0, or a patch such as
                `row 3, column 5`; by default all words, but their mean in a picture of all heads.
            image: How a picture shows weights on an image: `patches` or `smooth`, over the image; `beside` it; or as a `matrix`
                of words and patches.
            between: Names of two segments, such as `("answer", "question")`, for a picture of attention from the first to the
                second.

        Raises:
            RequestError: If the file has another ending, a weight exceeds the scale, data would be too large to be read, or
                a page or data get an option that only pictures have.
            DataError: If the file cannot be written.
        """
        path = Path(path)
        ending = path.suffix.lower()
        endings = (".json", ".npz", *PICTURES, PAGE)
        if ending not in endings:
            raise RequestError(
                f"{path}: cannot save as '{ending}', expected one of {' '.join(endings)}{nearest(ending, endings)}"
            )
        options: dict[str, Any] = {"site": site, "head": head, "special": special, "caption": caption, "units": units}
        drawn: dict[str, Any] = {"theme": theme, "scale": scale, "word": word, "image": image, "between": between}
        if ending in PICTURES:
            renderer().write(self, path, **drawn, **options)
        elif tuple(drawn.values()) != ("light", None, None, "patches", None):
            raise RequestError(f"{path}: {', '.join(drawn)} are for pictures ({' '.join(PICTURES)}), not for pages and data")
        elif ending == PAGE:
            renderer().write(self, path, **options)
        else:
            content = self.to_json().encode() if ending == ".json" else self.to_npz()
            encoding.check_size(vars(self), path, content)
            disk.save(path, content)

    def plot(
        self,
        *,
        site: str | None = None,
        head: int | None = None,
        title: str | None = None,
        special: bool = False,
        caption: bool = True,
        units: Units = "auto",
        theme: Theme = "light",
        scale: float | None = None,
        word: str | int | None = None,
        image: Over = "patches",
        between: tuple[str, str] | None = None,
    ) -> "Figure":
        """Draw a heatmap, a grid of heads, the coloured words of a classification, or weights over an image or a sound.

        Args:
            site: The site to draw; by default as for `matrix`, but if all sites are of one kind, such as `decoder.0` and
                `decoder.1`, all their heads. The beginning of several names, such as `encoder`, draws all heads of these sites.
            head: The head to draw, from 0; by default the mean over heads.
            title: Text above the picture.
            special: As for `save`.
            caption: As for `save`.
            units: As for `in_units`.
            theme: As for `save`.
            scale: As for `save`.
            word: As for `save`.
            image: As for `save`.
            between: As for `save`.

        Returns:
            The figure, which a notebook shows.
        """
        asked: dict[str, Any] = {"title": title, "special": special, "caption": caption, "units": units}
        drawn: dict[str, Any] = {"theme": theme, "scale": scale, "word": word, "image": image, "between": between}
        return renderer().draw(self, site=site, head=head, **drawn, **asked)

    def _repr_html_(self) -> str:
        return renderer().embed(self)

    def __repr__(self) -> str:
        """Return one line with the texts and the sizes of the weights."""
        sites = ", ".join(f"{site} {'×'.join(map(str, array.shape))}" for site, array in self.weights.items())
        texts = " → ".join(repr(text) for text in (self.source_text, self.target_text) if text)
        return f"AttentionRecord({texts or repr('')}; {sites})"

    def __eq__(self, other: object) -> bool:
        """Return whether all fields of two records are equal, including the weights."""
        if not isinstance(other, AttentionRecord):
            return NotImplemented
        one, two = (
            {**vars(record), "weights": [(site, array.tolist()) for site, array in record.weights.items()]}
            for record in (self, other)
        )
        return one == two

    __hash__ = None  # type: ignore[assignment]
