"""The attention of a model of Hugging Face's `transformers`, in one call.

record = regard.from_huggingface(model, tokenizer, "She kissed him again.")
record = regard.from_huggingface(model, processor, image="cat.jpg")
record = regard.from_huggingface(model, processor, audio=samples, sampling_rate=16_000)

The library is not imported: any model and processor with the same methods can be used.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import torch
from torch import nn

from regard.analysis.capture import capture
from regard.analysis.inputs import Inputs, read_inputs
from regard.analysis.places import Grid
from regard.analysis.probe import add_attributions
from regard.analysis.reader import Reader
from regard.errors import RequestError
from regard.machine import evaluating
from regard.records import AttentionRecord
from regard.records import from_huggingface as from_output
from regard.records.data import NOTE
from regard.records.subwords import Scheme
from regard.rendering import Units


@singledispatch
def from_huggingface(model: Any, tokenizer: Any, text: Any = None, **settings: Any) -> AttentionRecord:
    """Build a record of the attention of a `transformers` model, from the model or from its output.

        regard.from_huggingface(model, tokenizer, text)          # see record_of_model
        regard.from_huggingface(model, processor, image=image)   # see record_of_model
        regard.from_huggingface(output, tokens, target_tokens)   # see regard.records.from_huggingface

    Args:
        model: A model; or its output, a dict of its fields, or the tuple `output.attentions`.
        tokenizer: The model's tokenizer or processor; or the tokens that an output belongs to.
        text: The text that the model reads; or the target tokens of an output.
        settings: The other arguments of `regard.analysis.huggingface.record_of_model` or `regard.records.from_huggingface`.

    Raises:
        RequestError: If `model` is a name, or comes after the tokenizer.
    """
    if isinstance(tokenizer, nn.Module):
        raise RequestError(
            f"from_huggingface: got {type(model).__name__} and then {type(tokenizer).__name__}, expected the model first: "
            "from_huggingface(model, tokenizer, text)"
        )
    if isinstance(model, str):
        raise RequestError(
            f"from_huggingface: model is the text {model!r:.60}, expected a model or its output: load it first, for example "
            "with transformers.AutoModel.from_pretrained, and its tokenizer with AutoTokenizer.from_pretrained"
        )
    return from_output(model, tokenizer, text, **settings)


@from_huggingface.register(nn.Module)
@torch.no_grad()
def record_of_model(
    model: nn.Module,
    tokenizer: Any,
    text: Any = None,
    target: Any = None,
    *,
    image: Any = None,
    audio: Any = None,
    sampling_rate: int | None = None,
    grid: Grid | None = None,
    batch: int | None = None,
    generation: Mapping[str, Any] | None = None,
    names: Collection[str] | None = None,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    subwords: Scheme = "auto",
    special: Collection[str] | None = None,
    units: Units = "auto",
    note: str = NOTE,
    attributions: Sequence[str] = (),
) -> AttentionRecord:
    """Run a model on a text, an image or a sound, and return the record of its attention.

    The model runs once (more often for `attributions`), in evaluation mode, with the attention implementation that it was
    loaded with. The sites are those of `Captured.to_record`:

    - An encoder of texts or images, such as BERT, ViT, or one of the two encoders of CLIP: `encoder.i`. A head that pools the
      patches by attention, as in SigLIP, is `pool`, from the target word `pooled`.
    - A decoder, such as GPT-2 or Llama: `decoder.i`. A prompt may contain images, as for LLaVA and Qwen-VL; their patches are
      among its tokens, and the attention inside the image encoder is left out.
    - An encoder–decoder: `encoder.i`, `decoder.i` and `cross.i`. If no `target` is given, it first writes its target with
      `generate`, which can use beam search. In DETR, the target are the queries for objects. Of a speech model, such as
      Whisper, the attention inside the encoder is left out, because it has 1,500 frames; `names=["*"]` records it.

    Patches and frames are words with a place, in `ImageSegment` and `SoundSegment`. Words of Whisper have times, in the
    `TextSegment` of the target: `transformers` computes them from the recorded weights by dynamic time warping, with the
    alignment heads that the model's generation settings name, or else with all heads of the upper half of its layers. If
    `names` or `heads` leave some out, there are no times.

    Args:
        model: A model of `transformers`.
        tokenizer: The model's tokenizer or, for images and sounds, its processor.
        text: The text to read; or its encoding (what the tokenizer returns), its ids, a list of its words, or a list of chat
            messages, to which the chat template is applied. A start symbol that the text begins with is not added twice.
        target: The target text of an encoder–decoder, or its ids; None for the text that the model writes.
        image: The path of an image, an image of Pillow, an array of uint8, or a list of these.
        audio: Samples of one channel, from −1 to 1.
        sampling_rate: Samples of `audio` per second, which must be the rate that the model hears.
        grid: Numbers of rows and columns of patches, for models that don't show them.
        batch: Index of the text, from 0, if an encoding has several.
        generation: Arguments of `model.generate`, such as `{"num_beams": 4}`. If they are given, a decoder first continues the
            text.
        names: Names or patterns of the modules that are recorded; see `regard.capture`.
        heads: Heads that are recorded; see `regard.capture`.
        rows: Tokens whose weights are recorded, from 0, or from −1 for the last, for a model that reads one text; the sites are
            then `cross.i`, from these tokens to all. For long prompts.
        subwords: How tokens mark the beginning of a word; see `regard.join_subwords`. `auto` asks the tokenizer.
        special: Tokens that belong to no word and are left out of pictures; None for the tokenizer's special tokens, `()` to
            keep them as words.
        units: Units of pictures and alignments; see `AttentionRecord.in_units`.
        note: Last sentence of captions, on what the weights prove and what they do not prove.
        attributions: Attributions that become further sites: `gradients`, `integrated`, `values`, or `rollout` (language models
            without `rows` only), as for `Classifier.attribute`; `all` adds those that the model has. They explain the label
            of a classifier, which becomes the target, or each next token of a language model (sites `decoder.gradients` and
            so on). With `rows`, they explain the tokens after these (sites `gradients` and so on). For `gradients` and
            `values`, the model runs with `eager` attention.

    Raises:
        DataError: If an image cannot be read.
        RequestError: If the tokenizer or an input has the wrong type or does not fit the model, a word of a list has spaces,
            the text has no tokens, a target is given to a model that reads one text, the model has to generate a text but
            cannot, the patches have an unknown grid or attend within windows, `capture` finds no attention in it, or it has no
            such attribution.

    Example:
        >>> record = regard.from_huggingface(model, tokenizer, "A good day.")  # doctest: +SKIP
        >>> record.save("heads.png", site="encoder")  # doctest: +SKIP
    """
    if grid is not None and not (len(grid) == 2 and all(type(each) is int and each > 0 for each in grid)):
        raise RequestError(
            f"from_huggingface: grid is {grid!r}, expected two whole numbers above 0: rows and columns of patches"
        )
    inputs = read_inputs(tokenizer, text, image, audio, sampling_rate, batch)
    model = _encoder_of(model, inputs)
    reader = Reader(model, tokenizer, inputs, grid)
    with evaluating(model):
        reader.prepare(target, generation)
        with capture(model, names=names or reader.recorded(), heads=heads, rows=rows) as caught:
            output = model(**reader.tensors, **reader.options)
        reader.look(caught, output)
    if attributions and rows is None and getattr(getattr(output, "logits", None), "ndim", 0) == 2:
        reader.families = dict.fromkeys(caught, "encoder")  # also in a causal model, because the target is the label
    record = caught.to_record(
        reader.tokens,
        reader.target_tokens,
        families=reader.families,
        target_is_read=reader.written is None,
        subwords=reader.scheme if subwords == "auto" else subwords,
        units=units,
        special=reader.special if special is None else special,
        source_text=text if isinstance(text, str) and image is None and not reader.is_continued else reader.text,
        target_text=reader.target_text,
        source_segments=reader.segments,
        target_segments=reader.target_segments,
        note=note,
    )
    if attributions:
        with evaluating(model):
            record = add_attributions(record, reader, output, rows, attributions)
    if reader.is_pooled:
        record = replace(record, weights={"pool" if site == "cross.0" else site: each for site, each in record.weights.items()})
    return _with_words(record, inputs, units) if inputs.words and units != "tokens" and subwords != "none" else record


def _encoder_of(model: nn.Module, inputs: Inputs) -> nn.Module:
    """Return the part of a model with separate encoders for images and texts, such as CLIP, that reads the inputs."""
    if not (hasattr(model, "vision_model") and hasattr(model, "text_model")) or hasattr(model, "generate"):
        return model
    reads_image, reads_text = "pixel_values" in inputs.tensors, "input_ids" in inputs.tensors
    if reads_image and reads_text:
        raise RequestError(
            f"from_huggingface: {type(model).__name__} reads image and text apart, without attention between them: give one of "
            "them at a time"
        )
    return model.get_submodule("vision_model" if reads_image else "text_model")


def _with_words(record: AttentionRecord, inputs: Inputs, units: Units) -> AttentionRecord:
    """Return the record with the words in which the text was given."""
    side = "source" if record.source_tokens else "target"
    if len(inputs.word_of) != len(getattr(record, f"{side}_tokens")):
        raise RequestError("from_huggingface: a list of words cannot be continued with generation: give the text as one string")
    given: dict[str, Any] = {f"{side}_words": inputs.words, f"{side}_word_of": inputs.word_of}
    return replace(record, **given).in_units(units)
