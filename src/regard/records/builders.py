"""Build records from any matrix, from a file, or from the attentions of models of Hugging Face's `transformers`.

The library `transformers` is not imported: an output is any object that has the same fields for attentions.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from regard.errors import ArgumentError, DataError, RequestError, ShapeError, nearest
from regard.records import checks, encoding, layouts
from regard.records.data import NOTE, AttentionRecord
from regard.records.segments import Segment
from regard.records.segments import check as check_segments
from regard.records.subwords import SPELLED_IN_BYTES, Scheme, join
from regard.rendering import Units


def record(
    weights: Any,
    source_words: layouts.Side,
    target_words: layouts.Side,
    *,
    source_text: str = "",
    target_text: str = "",
    score: float | None = None,
    reference: str | None = None,
    probabilities: dict[str, float] | None = None,
    target_is_read: bool = False,
    note: str = NOTE,
) -> AttentionRecord:
    """Build a record from any matrix and two lists of words.

    Args:
        weights: (T,S), or (H,T,S) with heads: a numpy array, a torch tensor, nested lists, or a dict of these by site.
        source_words: S words, for the columns. The patches of an image (`regard.patches`) and the frames of a sound
            (`regard.frames`) may be among them or stand alone. For several texts, give a dict: their words by their names.
        target_words: T words, for the rows, in the same forms.
        source_text: The original sentence; by default its words joined by spaces, with the names of images and sounds.
        target_text: The original target; by default its words joined by spaces.
        score: Score by which the output was ranked.
        reference: Reference text, written by a person.
        probabilities: Probability of each label, for a classification. `target_words` is then the chosen label.
        target_is_read: If True, decoder step t reads target word t; if False, it predicts this word. See
            `AttentionRecord.target_is_read`.
        note: Last sentence of captions, on what the weights prove and what they do not prove.

    Returns:
        A record with one token per word. Unless `weights` is a dict, its site is `cross`, or `pool` for a classification.

    Raises:
        ShapeError: If the sizes of the matrix and of the lists differ.
        DataError: If a weight is not a finite number.

    Example:
        >>> record([[0.9, 0.1], [0.2, 0.8]], ["good", "day"], ["guten", "tag"]).pharaoh()
        '0-0 1-1'
        >>> looked = record([[0.1, 0.7, 0.1, 0.1]], regard.patches(2, 2, "dog.jpg"), ["dog"])
        >>> pair = record({"encoder.0": [[0.9, 0.1], [0.2, 0.8]]}, {"question": ["who"], "answer": ["she"]}, [])
    """
    source, source_segments = layouts.side("source_words", source_words)
    target, target_segments = layouts.side("target_words", target_words)
    return AttentionRecord(
        source_tokens=source,
        target_tokens=target,
        source_words=source,
        target_words=target,
        source_word_of=tuple(range(len(source))),
        target_word_of=tuple(range(len(target))),
        weights=dict(weights) if isinstance(weights, Mapping) else {"pool" if probabilities else "cross": weights},
        source_text=source_text,
        target_text=target_text,
        score=score,
        reference=reference,
        probabilities={} if probabilities is None else probabilities,
        target_is_read=target_is_read,
        note=note,
        source_segments=source_segments,
        target_segments=target_segments,
    )


def load_record(path: str | Path) -> AttentionRecord:
    """Read a record from a .json or .npz file.

    Args:
        path: A file that `AttentionRecord.save` wrote.

    Raises:
        RequestError: If the file has another ending.
        DataError: If the file cannot be read, is too large, or contains no record.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (".json", ".npz"):
        raise RequestError(
            f"{path}: records are read from .json and .npz files, not from '{ending}'{nearest(ending, ('.json', '.npz'))}"
        )
    try:
        with open(path, "rb") as file:
            content = file.read(encoding.MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: the record cannot be read: {error.strerror}") from error
    if len(content) > encoding.MAX_BYTES:
        raise DataError(f"{path}: the file has more than {encoding.MAX_BYTES} bytes, too many for a record")
    read = AttentionRecord.from_json if ending == ".json" else AttentionRecord.from_npz
    return read(content, where=str(path))


_FAMILIES = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


class TokenOptions(TypedDict, total=False):
    """Options of the functions that build records of tokens."""

    subwords: Scheme
    """How tokens mark the beginning of a word; see `join_subwords`. The default is `auto`."""
    units: Units
    """Units of pictures and alignments; see `AttentionRecord.in_units`. The default is `auto`."""
    special: Collection[str] | None
    """Tokens that belong to no word; see `join_subwords`."""
    source_text: str
    """The original source text; by default its words joined by spaces."""
    target_text: str
    """The original target text; by default its words joined by spaces."""
    note: str
    """Last sentence of captions, on what the weights prove and what they do not prove."""
    source_segments: Sequence[Segment]
    """Runs of tokens that are the patches of an image, the frames of a sound, or one of several texts. Each token of an image
    or a sound is a word of its own, which is named after its place.
    """
    target_segments: Sequence[Segment]
    """The same for the target."""


def from_huggingface(
    output: Any,
    tokens: Sequence[str],
    target_tokens: Sequence[str] | None = None,
    *,
    batch: int = 0,
    target_is_read: bool = False,
    **options: Unpack[TokenOptions],
) -> AttentionRecord:
    """Build a record of the attention that a `transformers` model returned.

        output = model(**tokenizer(text, return_tensors="pt"), output_attentions=True)
        record = regard.from_huggingface(output, tokenizer.tokenize(text, add_special_tokens=True))

    For a model with only an encoder, the sites are `encoder.i` for each layer from 0; for one with only a decoder, in which no
    token attends to later ones, they are `decoder.i`. For an encoder–decoder, or a decoder that attends to states of another
    model, the sites are those of `encoder.i`, `decoder.i` and `cross.i` that the output contains. The output of `generate` with
    `output_attentions=True, return_dict_in_generate=True` is accepted too, beam search included.

    Args:
        output: Output of the model, a dict of its fields, or the tuple `output.attentions`.
        tokens: The S tokens, including special ones and padding (`tokenizer.convert_ids_to_tokens(ids)`).
        target_tokens: The T target tokens, for an encoder–decoder. Row t belongs to the step that reads decoder input t and
            predicts word t. If you called the model with `labels`, give the tokens of the labels. For an output of `generate`,
            give the generated tokens without padding.
        batch: Index of the sentence in the batch, from 0; after a beam search, that of the hypothesis in `sequences`.
        target_is_read: Whether `target_tokens` are the tokens that the decoder reads (`decoder_input_ids`), not those that it
            predicts.
        options: `subwords`, `units`, `special`, `source_text`, `target_text`, `note`, `source_segments` and `target_segments`;
            see `TokenOptions`.

    Returns:
        A record with one site per layer, (H,S,S), (H,T,T) or (H,T,S).

    Raises:
        RequestError: If the output has no attentions, or no sentence with the index `batch`.
        ShapeError: If the sizes of the attentions and the numbers of tokens differ.
    """
    get = output.get if isinstance(output, Mapping) else lambda name: getattr(output, name, None)
    families: dict[str, Sequence[Any]]
    beams = None
    if isinstance(output, Sequence):
        families = {"encoder": output}
    else:
        # A field may be an empty tuple, such as `cross_attentions` of BERT.
        families = {family: layers for family, name in _FAMILIES.items() if (layers := get(name) or ())}
        if families.keys() <= {"cross"}:  # with cross-attention, `attentions` are those of a decoder
            families = {"decoder" if families else "encoder": get("attentions") or (), **families}
        beams = get("beam_indices")
    weights: dict[str, np.ndarray] = {}
    for family, rows in _rows(beams, batch, families).items():
        weights |= _by_layer(family, families[family], rows)
    if not weights:
        raise RequestError(
            "from_huggingface: the output has no attentions: call the model with output_attentions=True, and load it with "
            "attn_implementation='eager', because the fused implementations return no weights"
        )
    if target_tokens is None and {"decoder", "cross"} & families.keys():
        raise RequestError(
            "from_huggingface: the output has decoder_attentions or cross_attentions; give its tokens as target_tokens"
        )
    if target_tokens is None:
        # All sentences are looked at; from `generate`, only the weights of one are joined.
        layers = [layer for layer in families["encoder"] if hasattr(layer, "shape")]
        whole = [checks.to_float32("attentions", each) for layer in layers for each in layer]
        if {shows_causal(each) for each in whole or weights.values()} - {None} == {True}:  # no token attends to later ones
            weights = {site.replace("encoder", "decoder"): layer for site, layer in weights.items()}
    return record_of_tokens(tokens, target_tokens, weights, target_is_read=target_is_read, **options)


def record_of_tokens(
    tokens: Sequence[str],
    target_tokens: Sequence[str] | None,
    weights: Mapping[str, Any],
    *,
    target_is_read: bool = False,
    **options: Unpack[TokenOptions],
) -> AttentionRecord:
    """Build the record of a model whose tokens are parts of words."""
    if unknown := options.keys() - TokenOptions.__annotations__.keys():
        raise ArgumentError(f"a record has no option {min(unknown)!r}{nearest(min(unknown), TokenOptions.__annotations__)}")
    # If there is no target, and all sites are those of a decoder, the tokens are the target, which the model reads.
    subwords, units = options.get("subwords", "auto"), options.get("units", "auto")
    if subwords == "none":
        subwords, units = "auto", "tokens"  # with readable labels, also if letters stand for bytes
    texts = {"source": options.get("source_text", ""), "target": options.get("target_text", "")}
    segments = {"source": options.get("source_segments", ()), "target": options.get("target_segments", ())}
    sides = {"source": checks.strings("tokens", tokens)}
    sides["target"] = () if target_tokens is None else checks.strings("target_tokens", target_tokens)
    if target_tokens is None and all(site.startswith("decoder") for site in weights):
        sides, target_is_read = {"source": (), "target": sides["source"]}, True
        texts = {"source": "", "target": texts["target"] or texts["source"]}
        segments = {"source": (), "target": segments["target"] or segments["source"]}
    fields: dict[str, Any] = {}
    for side, side_tokens in sides.items():
        checked = check_segments(f"{side}_segments", segments[side], range(len(side_tokens)))
        words, word_of, scheme = _words_of(side_tokens, checked, subwords, options.get("special"))
        fields |= {f"{side}_tokens": side_tokens, f"{side}_words": words, f"{side}_word_of": word_of}
        fields[f"{side}_segments"] = checked
        fields |= {f"{side}_scheme": scheme if side_tokens and scheme in SPELLED_IN_BYTES else "", f"{side}_text": texts[side]}
    note = options.get("note", NOTE)
    return AttentionRecord(weights=dict(weights), target_is_read=target_is_read, note=note, **fields).in_units(units)


def _words_of(
    tokens: Sequence[str], segments: Sequence[Segment], scheme: str, special: Collection[str] | None
) -> tuple[list[str], list[int], str]:
    """Join tokens into words as `join` does, but name the words of places, and end words at the borders of segments."""
    placed = {index for each in segments if each.has_places for index in range(each.start, each.end)}
    written = [token for index, token in enumerate(tokens) if index not in placed]
    words, word_of, scheme = join(written, scheme, special)
    if not segments:
        return words, word_of, scheme
    words, word_of = [], []
    borders = sorted({0, len(tokens), *(border for each in segments for border in (each.start, each.end))})
    places = {each.start: each.places() for each in segments if each.has_places}
    for start, end in pairwise(borders):
        named = places.get(start, ())
        part, part_of = (named, range(len(named))) if named else join(tokens[start:end], scheme, special)[:2]
        word_of += [len(words) + index if index >= 0 else -1 for index in part_of]
        words += part
    return words, word_of, scheme


def shows_causal(weights: np.ndarray) -> bool | None:
    """Return whether the weights (…,Q,K) of a sentence are those of causal attention; None if both kinds have them."""
    if weights.shape[-2] != weights.shape[-1]:
        return None
    # Eager models spread the weight of a padding token equally over all keys, which says nothing about the module.
    known = weights.max(-1, keepdims=True) != weights.min(-1, keepdims=True)
    seen = np.where(known, weights, 0)
    if np.triu(seen, 1).any():
        return False
    return True if (known[..., :-1, :].any((-2, -1)) & seen[..., 1:].any((-2, -1))).any() else None


def _rows(beams: Any, batch: int, families: Mapping[str, Sequence[Any]]) -> dict[str, int | list[int]]:
    """Return for each family (`encoder`, `decoder`, `cross`) the number of the batch's row to read, or one for each step.

    In a beam search, a hypothesis moves between the rows: at each step, it continues the row `beams[h, step]`, which is
    negative after its end.
    """
    if beams is None:
        return dict.fromkeys(families, batch)
    if not 0 <= batch < len(beams):
        raise RequestError(
            f"from_huggingface: batch is {batch}, and there are {len(beams)} hypotheses: choose one of 0 to {len(beams) - 1}"
        )
    steps = [row for row in beams[batch].tolist() if row >= 0]
    rows: dict[str, int | list[int]] = dict.fromkeys(families, steps)
    if "encoder" in families and len(families) > 1:  # the encoder ran once for each sentence
        rows["encoder"] = batch * len(families["encoder"][0]) // len(beams)
    return rows


def _by_layer(family: str, layers: Sequence[Any], rows: int | list[int]) -> dict[str, np.ndarray]:
    """Return the weights (H,Q,K) of each layer; the output of `generate` is ordered by step, then by layer."""
    if not layers or not isinstance(layers[0], Sequence):
        assert isinstance(rows, int)
        # Hybrid models also have layers without attention.
        given = {f"{family}.{number}": layer for number, layer in enumerate(layers) if layer is not None}
        return {site: _sentence(layer, rows, site) for site, layer in given.items()}
    indices = rows if isinstance(rows, list) else [rows] * len(layers)
    joined = {}
    for number in range(len(layers[0])):
        site = f"{family}.{number}"
        steps = [_sentence(step[number], row, site) for step, row in zip(layers, indices, strict=False)]
        joined[site] = np.concatenate(steps, axis=1) if family == "cross" else _join(steps)
    return joined


def _join(steps: Sequence[np.ndarray]) -> np.ndarray:
    """Join the queries (H,Q,K) of the steps of `generate`, whose keys are those up to the step's last query.

    A layer with a sliding window has only the last of them in its cache, and a cache of a fixed size has empty places after
    them.
    """
    first = steps[0]
    earlier = first.shape[2] - first.shape[1] if first[..., first.shape[1] :].any() else 0  # keys of an earlier call
    ends = earlier + np.cumsum([step.shape[1] for step in steps])
    rows = []
    for step, end in zip(steps, ends.tolist(), strict=True):
        known = step[..., :end]
        rows.append(np.pad(known, ((0, 0), (0, 0), (end - known.shape[-1], int(ends[-1]) - end))))
    return np.concatenate(rows, axis=1)


def _sentence(layer: Any, batch: int, site: str) -> np.ndarray:
    """Return the weights (H,Q,K) of one sentence."""
    shape = tuple(getattr(layer, "shape", ()))
    if len(shape) != 4:
        raise ShapeError(
            f"from_huggingface: the attention of {site} has shape {shape}, expected (B, H, Q, K): the weights of one layer for "
            "each sentence and head"
        )
    if not 0 <= batch < shape[0]:
        raise RequestError(
            f"from_huggingface: batch is {batch}, and there are {shape[0]} sentences: choose one of 0 to {shape[0] - 1}"
        )
    return checks.to_float32(site, layer[batch])
