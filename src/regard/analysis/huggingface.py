"""The attention of a model of Hugging Face's `transformers`, in one call.

record = regard.from_huggingface(model, tokenizer, "She kissed him again.")

The library is not imported: any model and tokenizer with the same methods can be used.
"""

import json
from collections.abc import Collection, Mapping
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from regard.analysis.capture import capture
from regard.errors import RequestError
from regard.machine import evaluating
from regard.records import AttentionRecord
from regard.records import from_huggingface as from_output
from regard.records.data import NOTE
from regard.records.subwords import Scheme
from regard.rendering import Units

_EXPECTED = (
    "from_huggingface: a model needs its tokenizer and a text, got {} and {}: from_huggingface(model, tokenizer, text), where "
    "the text may also be an encoding, ids, or chat messages"
)


@singledispatch
def from_huggingface(model: Any, tokenizer: Any, text: Any = None, **settings: Any) -> AttentionRecord:
    """Build a record of the attention of a `transformers` model, from the model or from its output.

        regard.from_huggingface(model, tokenizer, text)          # see record_of_model
        regard.from_huggingface(output, tokens, target_tokens)   # see regard.records.from_huggingface

    Args:
        model: A model; or its output, a dict of its fields, or the tuple `output.attentions`.
        tokenizer: The model's tokenizer; or the tokens that an output belongs to.
        text: The text that the model reads; or the target tokens of an output.
        settings: The other arguments of `regard.analysis.huggingface.record_of_model` or `regard.records.from_huggingface`.
    """
    return from_output(model, tokenizer, text, **settings)


@from_huggingface.register(nn.Module)
@torch.no_grad()
def record_of_model(
    model: nn.Module,
    tokenizer: Any,
    text: Any,
    target: Any = None,
    *,
    generation: Mapping[str, Any] | None = None,
    subwords: Scheme = "auto",
    special: Collection[str] | None = None,
    units: Units = "auto",
    note: str = NOTE,
) -> AttentionRecord:
    """Run a model on a text and return the record of its attention.

    If no `target` is given, an encoder–decoder first writes its target with `generate`, which can use beam search. It then runs
    once on source and target, and the record has the sites `encoder.i`, `decoder.i` and `cross.i` of this run. A decoder, such
    as GPT-2 or Llama, has sites `decoder.i`, and an encoder has sites `encoder.i`. The model runs in evaluation mode, with the
    attention implementation that it was loaded with.

    Args:
        model: A model of `transformers` that reads text.
        tokenizer: The model's tokenizer.
        text: The text to read; or its encoding (what the tokenizer returns), its ids, or a list of chat messages, to which the
            tokenizer's chat template is applied. A start symbol that the text begins with is not added a second time.
        target: The target text of an encoder–decoder, or its ids; None for the text that the model writes.
        generation: Arguments of `model.generate`, such as `{"num_beams": 4}`. If they are given, a decoder first continues the
            text.
        subwords: How tokens mark the beginning of a word; see `regard.join_subwords`. `auto` asks the tokenizer.
        special: Tokens that belong to no word and are left out of pictures; None for the tokenizer's special tokens, `()` to
            keep them as words.
        units: Units of pictures and alignments; see `AttentionRecord.in_units`.
        note: Last sentence of captions, on what the weights prove and what they do not prove.

    Raises:
        RequestError: If the tokenizer or the text has the wrong type, the text has no tokens, a target is given to a model that
            reads one text, the model has to generate a text but cannot, or `capture` finds no attention in it.

    Example:
        >>> record = regard.from_huggingface(model, tokenizer, "A good day.")  # doctest: +SKIP
        >>> record.save("heads.png", site="encoder")  # doctest: +SKIP
    """
    if not callable(tokenizer):
        raise RequestError(_EXPECTED.format(type(tokenizer).__name__, type(text).__name__))
    pair = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    if target is not None and not pair:
        raise RequestError(f"from_huggingface: {type(model).__name__} reads one text, and a target was given: leave it out")
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    inputs = {name: value.to(device) for name, value in _encode(tokenizer, text).items()}
    if not inputs["input_ids"].numel():
        raise RequestError("from_huggingface: the text has no tokens, expected at least one")
    with evaluating(model):
        written = None
        if pair and target is None:
            sequence = _generate(model, inputs, generation or {})
            inputs["decoder_input_ids"], written = sequence[:, :-1], sequence[0, 1:]
        elif pair:
            labels = _encode(tokenizer, target, "text_target")["input_ids"].to(device)
            ask: Any = model.prepare_decoder_input_ids_from_labels
            inputs["decoder_input_ids"], written = ask(labels=labels), labels[0]
        elif generation is not None:
            inputs = {"input_ids": _generate(model, inputs, generation)}
        with capture(model) as caught:
            model(**inputs, use_cache=False) if pair or hasattr(model, "generate") else model(**inputs)
    ids = [inputs["input_ids"][0], *([] if written is None else [written])]
    tokens = [list(tokenizer.convert_ids_to_tokens(each.tolist())) for each in ids]
    texts = [str(tokenizer.decode(each, skip_special_tokens=True)) for each in ids]
    return caught.to_record(
        *tokens,
        target_is_read=False,
        subwords=scheme_of(tokenizer) if subwords == "auto" else subwords,
        units=units,
        special=tokenizer.all_special_tokens if special is None else special,
        source_text=text if isinstance(text, str) and (pair or generation is None) else texts[0],
        target_text="" if written is None else texts[1],
        note=note,
    )


def scheme_of(tokenizer: Any) -> Scheme:
    """Return how a tokenizer's tokens mark words; `auto` if this is unknown, for example without a `backend_tokenizer`."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return "auto"
    described = json.loads(backend.to_str())
    decoder = json.dumps(described.get("decoder"), ensure_ascii=False)
    marks: dict[str, Scheme] = {'"ByteLevel"': "bytes", "▁": "sentencepiece", '"WordPiece"': "wordpiece", '"BPEDecoder"': "end"}
    return next((scheme for mark, scheme in marks.items() if mark in decoder), "auto")


def _encode(tokenizer: Any, text: Any, side: str = "text") -> dict[str, Tensor]:
    """Return the inputs (1,S) for a text, an encoding, ids or chat messages; `side` is `text_target` for a target."""
    if isinstance(text, str):
        encoded = dict(tokenizer(**{side: text}, return_tensors="pt"))
        ids, starts = encoded["input_ids"][0].tolist(), {tokenizer.bos_token_id, tokenizer.cls_token_id} - {None}
        if len(ids) > 1 and ids[0] == ids[1] in starts:  # the text may begin with the symbol that the tokenizer adds
            plain = tokenizer(**{side: text}, add_special_tokens=False)["input_ids"]
            if plain[0] == ids[0] and len(plain) < len(ids):
                encoded = {name: value[:, 1:] for name, value in encoded.items()}
    elif isinstance(text, Mapping):
        encoded = dict(text)
    elif isinstance(text, list | tuple) and text and all(isinstance(each, Mapping) for each in text):
        if not getattr(tokenizer, "chat_template", None):
            raise RequestError("from_huggingface: got chat messages, but the tokenizer has no chat template: give a text")
        encoded = dict(tokenizer.apply_chat_template(list(text), tokenize=True, return_dict=True, return_tensors="pt"))
    else:
        encoded = {"input_ids": text}
    try:
        tensors = {name: torch.as_tensor(value) for name, value in encoded.items()}
        ids = tensors["input_ids"]
        if ids.is_floating_point() and ids.numel():
            raise TypeError
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise RequestError(_EXPECTED.format(type(tokenizer).__name__, type(text).__name__)) from None
    if ids.ndim > 2 or (ids.ndim == 2 and len(ids) != 1):
        raise RequestError(f"from_huggingface: the ids have shape {tuple(ids.shape)}, expected one text: (1, S) or (S,)")
    return {name: value[None] if value.ndim == 1 else value for name, value in tensors.items()}


def _generate(model: Any, inputs: dict[str, Tensor], generation: Mapping[str, Any]) -> Tensor:
    """Return the best sequence (1,T) that the model generates."""
    if not hasattr(model, "generate"):
        raise RequestError(
            f"from_huggingface: {type(model).__name__} cannot generate text: give a target, or load the model with its head, "
            "for example with AutoModelForSeq2SeqLM or AutoModelForCausalLM"
        )
    sequences: Tensor = model.generate(**inputs, **generation)
    return sequences[:1]
