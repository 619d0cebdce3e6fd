"""The inputs of a model of `transformers`: texts, images and sounds, read by its processor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from regard.errors import RequestError
from regard.images import read_image

_EXPECTED = (
    "from_huggingface: a model needs its tokenizer and a text, got {} and {}: from_huggingface(model, tokenizer, text), where "
    "the text may also be an encoding, ids, a list of words, or chat messages"
)


@dataclass(frozen=True)
class Inputs:
    """The arguments of a model, and the images, sounds and words that they were made of."""

    tensors: dict[str, Tensor]
    """Arguments of the model, with a batch of one."""
    images: tuple[Image.Image, ...] = ()
    samples: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    """The samples of a sound."""
    sampling_rate: int = 0
    """Samples per second."""
    words: tuple[str, ...] = ()
    """The words of a text that was given as words."""
    word_of: tuple[int, ...] = ()
    """Index of each token's word, −1 for special tokens, if the text was given as words."""
    text_of: tuple[int | None, ...] = ()
    """Number of each token's text, None for special tokens, if an encoding of a fast tokenizer was given."""


def read_inputs(
    processor: Any, text: Any, image: Any, audio: Any, sampling_rate: int | None, batch: int | None = None
) -> Inputs:
    """Read a text, images or a sound, as `record_of_model` describes them."""
    if not callable(processor):
        raise RequestError(_EXPECTED.format(type(processor).__name__, type(text).__name__))
    if audio is not None:
        return _read_sound(processor, text, audio, sampling_rate)
    if image is None:
        _refuse_places(processor, text)
        return read_text(getattr(processor, "tokenizer", processor), text, batch=batch)
    images = tuple(read_image(each) for each in (image if isinstance(image, list | tuple) else [image]))
    if not images:
        raise RequestError("from_huggingface: image is an empty list, expected at least one image")
    if text is None:
        encoded = _ask(getattr(processor, "image_processor", processor), "images", images=list(images))
    else:
        if _is_chat(text):
            text = _template(processor, text, tokenize=False)
        elif not isinstance(text, str):
            raise RequestError(f"from_huggingface: got {type(text).__name__} with an image, expected a text or chat messages")
        encoded = _ask(processor, "images and text", images=list(images), text=text)
    if not any(name.startswith("pixel_values") for name in encoded):
        raise RequestError(
            f"from_huggingface: {type(processor).__name__} made no pixels from the image: give the processor of the model, for "
            "example with AutoProcessor.from_pretrained, or AutoImageProcessor.from_pretrained for a model without text"
        )
    tensors = {name: torch.as_tensor(value) for name, value in encoded.items() if not isinstance(value, list)}
    if "input_ids" in tensors:
        tensors = _without_second_start(tensors, getattr(processor, "tokenizer", processor), text=text)
    return Inputs(tensors, images)


def _refuse_places(processor: Any, text: Any) -> None:
    """Raise an error if an image or a sound was given as text, or if the processor reads no texts."""
    fields = set() if hasattr(processor, "tokenizer") else set(getattr(processor, "model_input_names", ()))
    reads = fields if "input_ids" not in fields else set()
    if isinstance(text, Image.Image) or (isinstance(text, np.ndarray | Tensor) and text.ndim > 2) or "pixel_values" in reads:
        argument = "an image by name: from_huggingface(model, processor, image=image)"
    elif reads & {"input_features", "input_values"}:
        argument = "a sound by name: from_huggingface(model, processor, audio=samples, sampling_rate=rate)"
    else:
        return
    raise RequestError(f"from_huggingface: got {type(processor).__name__} and {type(text).__name__} as text; give {argument}")


def read_text(tokenizer: Any, text: Any, side: str = "text", *, batch: int | None = None) -> Inputs:
    """Read a text, an encoding, ids, words or chat messages; `side` is `text_target` for a target."""
    words: tuple[str, ...] = ()
    if isinstance(text, str):
        encoded = dict(tokenizer(**{side: text}, return_tensors="pt"))
        encoded = _without_second_start(encoded, tokenizer, **{side: text})
    elif isinstance(text, Mapping):
        encoded = dict(text)
    elif _is_chat(text):
        encoded = dict(_template(tokenizer, text, tokenize=True, return_dict=True, return_tensors="pt"))
    elif isinstance(text, list | tuple) and text and all(isinstance(each, str) for each in text):
        if several := next((each for each in text if len(each.split()) > 1), ""):
            raise RequestError(
                f"from_huggingface: got a list with {several!r:.60}, which has several words, expected a list of the words of "
                "one text: call it once for each text, or give a pair as its encoding, tokenizer(a, b, return_tensors='pt')"
            )
        words, encoded = tuple(text), _ask(tokenizer, "words", **{side: list(text)}, is_split_into_words=True)
        if not getattr(encoded, "is_fast", False):
            raise RequestError(f"from_huggingface: {type(tokenizer).__name__} doesn't say which tokens a word has: give a text")
        word_of = tuple(-1 if each is None else each for each in encoded.word_ids(0))
    else:
        encoded = {"input_ids": text}
    try:
        tensors = {name: torch.as_tensor(value) for name, value in encoded.items()}
        ids = tensors["input_ids"]
        if ids.is_floating_point() and ids.numel():
            raise TypeError
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise RequestError(_EXPECTED.format(type(tokenizer).__name__, type(text).__name__)) from None
    tensors = {name: value[None] if value.ndim == 1 else value for name, value in tensors.items()}
    count, number = len(tensors["input_ids"]), batch or 0
    if ids.ndim > 2 or not 0 <= number < count or (batch is None and count > 1):
        raise RequestError(
            f"from_huggingface: the ids have shape {tuple(ids.shape)} and batch is {batch}, expected one text, (1, S) or (S,), "
            "or the index of one of the texts as batch"
        )
    if count > 1:
        tensors = {name: value[number : number + 1] if len(value) == count else value for name, value in tensors.items()}
    text_of = tuple(text.sequence_ids(number)) if getattr(text, "is_fast", False) else ()
    mask, shape = tensors.get("attention_mask"), tensors["input_ids"].shape
    if mask is not None and mask.shape == shape and mask.any():
        first = int(mask[0].ne(0).int().argmax())  # without padding before a text, whose positions count from 0
        tensors = {name: value[:, first:] if value.shape == shape else value for name, value in tensors.items()}
        text_of = text_of[first:]
    return Inputs(tensors, words=words, word_of=word_of if words else (), text_of=text_of)


def _read_sound(processor: Any, text: Any, audio: Any, sampling_rate: int | None) -> Inputs:
    extractor = getattr(processor, "feature_extractor", processor)
    expected = getattr(extractor, "sampling_rate", None)
    if expected is None:
        raise RequestError(
            f"from_huggingface: {type(processor).__name__} does not read sounds: give the processor of the model, for example "
            "with AutoProcessor.from_pretrained"
        )
    if text is not None:
        raise RequestError("from_huggingface: got a sound and a text: give a known transcript as target")
    if sampling_rate != expected:
        raise RequestError(
            f"from_huggingface: sampling_rate is {sampling_rate}, but the model hears {expected} samples per second: give the "
            f"sound at this rate, for example scipy.signal.resample_poly(audio, {expected}, rate), and sampling_rate={expected}"
        )
    try:
        samples = np.asarray(audio, np.float32)
        if samples.ndim != 1 or not samples.size or not np.isfinite(samples).all():
            raise ValueError
    except (TypeError, ValueError):
        raise RequestError(
            f"from_huggingface: audio is {type(audio).__name__}, expected the samples of one channel, an array of finite "
            "numbers from -1 to 1, such as soundfile.read(path)[0]"
        ) from None
    encoded = _ask(extractor, "sounds", samples, sampling_rate=sampling_rate)
    return Inputs({name: torch.as_tensor(value) for name, value in encoded.items()}, samples=samples, sampling_rate=expected)


def _ask(processor: Any, what: str, *args: Any, **options: Any) -> Any:
    """Call a processor, and turn its errors into one for users."""
    try:
        return processor(*args, **options, return_tensors="pt")
    except Exception as error:  # a processor of another kind raises anything
        raise RequestError(
            f"from_huggingface: {type(processor).__name__} cannot read these {what}: {type(error).__name__}: {error!s:.300}"
        ) from error


def _is_chat(text: Any) -> bool:
    return isinstance(text, list | tuple) and bool(text) and all(isinstance(each, Mapping) for each in text)


def _template(processor: Any, messages: Sequence[Any], **options: Any) -> Any:
    if not getattr(processor, "chat_template", None):
        raise RequestError("from_huggingface: got chat messages, but the tokenizer has no chat template: give a text")
    return processor.apply_chat_template(list(messages), **options)


def _without_second_start(encoded: dict[str, Any], tokenizer: Any, **text: str) -> dict[str, Any]:
    """Return an encoding without the start symbol that the tokenizer added to a text that begins with it already."""
    starts = {getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "cls")} - {None}
    shape, ids = encoded["input_ids"].shape, encoded["input_ids"][0].tolist()
    if len(ids) < 2 or ids[0] != ids[1] or ids[0] not in starts:
        return encoded
    plain = tokenizer(**text, add_special_tokens=False)["input_ids"]
    if not 1 <= _count_first(plain, ids[0]) < _count_first(ids, ids[0]):
        return encoded
    return {name: value[:, 1:] if value.shape == shape else value for name, value in encoded.items()}


def _count_first(ids: Sequence[int], symbol: int) -> int:
    """Return how many times ids begin with a symbol."""
    return next((place for place, each in enumerate(ids) if each != symbol), len(ids))
