"""Build records from any matrix, or from the attentions of models of Hugging Face's `transformers`.

The library `transformers` is not imported: an output is any object that has the same fields for attentions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regard.errors import RequestError, ShapeError
from regard.records import checks
from regard.records.data import NOTE, AttentionRecord
from regard.records.subwords import SPELLED_IN_BYTES, Scheme, join
from regard.rendering import Units


def record(
    weights: Any,
    source_words: Iterable[str],
    target_words: Iterable[str],
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
        source_words: S words, for the columns.
        target_words: T words, for the rows.
        source_text: The original sentence; by default its words joined by spaces.
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
    """
    source, target = checks.strings("source_words", source_words), checks.strings("target_words", target_words)
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
    )


_FAMILIES = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


def from_huggingface(
    output: Any,
    tokens: Sequence[str],
    target_tokens: Sequence[str] | None = None,
    *,
    batch: int = 0,
    subwords: Scheme = "auto",
    units: Units = "auto",
    special: Collection[str] | None = None,
    source_text: str = "",
    target_text: str = "",
    target_is_read: bool = False,
    note: str = NOTE,
) -> AttentionRecord:
    """Build a record of the attention of a `transformers` model.

        output = model(**tokenizer(text, return_tensors="pt"), output_attentions=True)
        record = regard.from_huggingface(output, tokenizer.tokenize(text, add_special_tokens=True))

    For a model with only an encoder, the sites are `encoder.i` for each layer from 0; for one with only a decoder, in which no
    token attends to later ones, they are `decoder.i`. For an encoder–decoder, or a decoder that attends to states of another
    model, the sites are those of `encoder.i`, `decoder.i` and `cross.i` that the output contains. The result of `generate` with
    `output_attentions=True, return_dict_in_generate=True` is accepted too, beam search included.

    Args:
        output: Output of the model, a dict of its fields, or the tuple `output.attentions`.
        tokens: The S tokens, including special ones and padding (`tokenizer.convert_ids_to_tokens(ids)`).
        target_tokens: The T target tokens, for an encoder–decoder. Row t belongs to the step that reads decoder input t and
            predicts word t. If you called the model with `labels`, give the tokens of the labels. For a result of `generate`,
            give those of `sequences[batch, 1:]`; if it is from a beam search, leave out the padding at the end.
        batch: Index of the sentence in the batch, from 0; for a result of a beam search, index of the hypothesis in
            `sequences`.
        subwords: How tokens mark the beginning of a word; see `join_subwords`.
        units: Units of pictures and alignments; see `AttentionRecord.in_units`.
        special: Tokens that belong to no word; see `join_subwords`.
        source_text: The original text; by default its words joined by spaces.
        target_text: The original target; by default its words joined by spaces.
        target_is_read: Whether `target_tokens` are the tokens that the decoder reads (`decoder_input_ids`), not those that it
            predicts.
        note: Last sentence of captions, on what the weights prove and what they do not prove.

    Returns:
        A record with one site per layer, (H,S,S), (H,T,T) or (H,T,S).

    Raises:
        RequestError: If the output has no attentions, or no sentence with the index `batch`.
        ShapeError: If the sizes of the attentions and the numbers of tokens differ.
    """
    get = output.get if isinstance(output, Mapping) else lambda name: getattr(output, name, None)
    families: dict[str, Sequence[Any]]
    if isinstance(output, Sequence):
        families = {"encoder": output}
    else:
        # A field may be an empty tuple, such as `cross_attentions` of BERT.
        families = {family: layers for family, name in _FAMILIES.items() if (layers := get(name) or ())}
        if families.keys() <= {"cross"}:  # with cross-attention, `attentions` are those of a decoder
            families = {"decoder" if families else "encoder": get("attentions") or (), **families}
    rows = _rows(get("beam_indices"), batch, families)
    weights: dict[str, np.ndarray] = {}
    for family, layers in families.items():
        weights.update(_by_layer(family, layers, rows[family]))
    if not weights:
        raise RequestError(
            "from_huggingface: the output has no attentions: call the model with output_attentions=True, and load it with "
            "attn_implementation='eager', because the fused implementations return no weights"
        )
    if target_tokens is None and {"decoder", "cross"} & families.keys():
        raise RequestError(
            "from_huggingface: the output has decoder_attentions or cross_attentions; give its tokens as target_tokens"
        )
    if target_tokens is None and _is_decoder(families["encoder"], weights):
        weights = {f"decoder.{site.partition('.')[2]}": layer for site, layer in weights.items()}
        tokens, target_tokens, target_is_read = (), tokens, True
        source_text, target_text = "", target_text or source_text
    return record_of_tokens(
        tokens,
        target_tokens,
        weights,
        subwords=subwords,
        units=units,
        special=special,
        source_text=source_text,
        target_text=target_text,
        target_is_read=target_is_read,
        note=note,
    )


def record_of_tokens(
    tokens: Sequence[str],
    target_tokens: Sequence[str] | None,
    weights: Mapping[str, Any],
    *,
    subwords: Scheme = "auto",
    units: Units = "auto",
    special: Collection[str] | None = None,
    **settings: Any,
) -> AttentionRecord:
    """Build the record of a model whose tokens are parts of words.

    Args:
        tokens: Tokens of the source.
        target_tokens: Tokens of the target; None if the record has no target.
        weights: Weights by site, as in a record.
        subwords: As for `join_subwords`.
        units: As for `AttentionRecord.in_units`.
        special: As for `join_subwords`.
        settings: Other fields of `AttentionRecord`.
    """
    if subwords == "none":
        subwords, units = "auto", "tokens"  # with readable labels, also if letters stand for bytes
    sides = {"source": checks.strings("tokens", tokens)}
    sides["target"] = () if target_tokens is None else checks.strings("target_tokens", target_tokens)
    for side, side_tokens in sides.items():
        words, word_of, scheme = join(side_tokens, subwords, special)
        settings |= {f"{side}_tokens": side_tokens, f"{side}_words": words, f"{side}_word_of": word_of}
        settings[f"{side}_scheme"] = scheme if side_tokens and scheme in SPELLED_IN_BYTES else ""
    return AttentionRecord(weights=dict(weights), **settings).in_units(units)


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


def _is_decoder(layers: Sequence[Any], weights: Mapping[str, np.ndarray]) -> bool:
    """Return whether no query attends to a later key, in any sentence; from `generate`, only the weights of one are joined."""
    whole = [checks.to_float32("attentions", each) for layer in layers if hasattr(layer, "shape") for each in layer]
    return {shows_causal(each) for each in whole or weights.values()} - {None} == {True}


def _rows(beams: Any, batch: int, families: Mapping[str, Sequence[Any]]) -> dict[str, int | list[int]]:
    """Return for each family (`encoder`, `decoder`, `cross`) the number of the batch's row to read.

    Without a beam search, this is `batch`. In a beam search, a hypothesis moves between the rows: at each step, it continues
    the row `beams[h, step]`, which is negative after its end. Then a family has a list with one row for each step before the
    end. The encoder of a model with a decoder runs only once, so it has a single row.
    """
    if beams is None:
        return dict.fromkeys(families, batch)
    if not 0 <= batch < len(beams):
        raise RequestError(
            f"from_huggingface: batch is {batch}, and there are {len(beams)} hypotheses: choose one of 0 to {len(beams) - 1}"
        )
    steps = [row for row in beams[batch].tolist() if row >= 0]
    rows: dict[str, int | list[int]] = dict.fromkeys(families, steps)
    if "cross" in families or "decoder" in families:  # the encoder ran once for each sentence
        rows["encoder"] = batch * len(families["encoder"][0]) // len(beams) if "encoder" in families else 0
    return rows


def _by_layer(family: str, layers: Sequence[Any], rows: int | list[int]) -> dict[str, np.ndarray]:
    """Return the weights (H,Q,K) of each layer.

    The result of `generate` is ordered by step, then by layer; each step contains only its own queries.
    """
    if not layers or not isinstance(layers[0], Sequence):
        assert isinstance(rows, int)
        # Hybrid models also have layers without attention.
        present = {f"{family}.{number}": layer for number, layer in enumerate(layers) if layer is not None}
        return {site: _sentence(layer, rows, site) for site, layer in present.items()}
    joined = {}
    indices = rows if isinstance(rows, list) else [rows] * len(layers)
    for number in range(len(layers[0])):
        site = f"{family}.{number}"
        steps = [_sentence(step[number], row, site) for step, row in zip(layers, indices, strict=False)]
        joined[site] = _join(steps, is_cross=family == "cross")
    return joined


def _join(steps: Sequence[np.ndarray], *, is_cross: bool) -> np.ndarray:
    """Join the queries (H,Q,K) of the steps of `generate`.

    The keys of a step are those up to its last query. A layer with a sliding window has only the last of them in its cache, and
    a cache of a fixed size has empty places after them.
    """
    first = steps[0]
    end = (
        0 if is_cross or not first[..., first.shape[1] :].any() else first.shape[2] - first.shape[1]
    )  # keys of an earlier call
    last, rows = end + sum(step.shape[1] for step in steps), []
    for step in steps:
        end += step.shape[1]
        if is_cross:
            rows.append(step)
            continue
        known = step[..., :end]
        before = end - known.shape[-1]
        rows.append(np.pad(known, ((0, 0), (0, 0), (before, last - end))))
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
