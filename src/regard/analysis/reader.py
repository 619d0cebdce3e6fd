"""Run a model of `transformers` once, and find what it read and wrote: its arguments, its tokens, and their layout."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.analysis.capture import Captured
from regard.analysis.inputs import Inputs, read_text
from regard.analysis.places import Grid, image_tokens, prompt_segments, sound_tokens
from regard.errors import RequestError
from regard.machine import device_of
from regard.records.segments import Segment, SoundSegment, TextSegment
from regard.records.subwords import Scheme

_POOLED = "pooled"


class Reader:
    """The tokens and the arguments of a model, from its inputs to the sides of a record.

    The steps are `prepare`, which may generate a text; a run of the model with `tensors`; and `look` at what was captured.
    """

    def __init__(self, model: nn.Module, processor: Any, inputs: Inputs, grid: Grid | None) -> None:
        device = device_of(model)
        self.model: Any = model
        self.processor, self.inputs, self.grid = processor, inputs, grid
        self.tokenizer = getattr(processor, "tokenizer", processor)
        self.tensors = {name: value.to(device) for name, value in inputs.tensors.items()}
        self.config: Any = getattr(model, "config", None)
        self.is_pair = bool(getattr(self.config, "is_encoder_decoder", False))
        self.has_queries = self.is_pair and "input_ids" not in self.tensors and hasattr(self.config, "num_queries")
        self.is_continued = False
        self.written: Tensor | None = None
        self.tokens: list[str] = []
        self.target_tokens: list[str] | None = None
        self.segments: list[Segment] = []
        self.target_segments: list[Segment] = []
        self.families: dict[str, str] = {}

    def prepare(self, target: Any, generation: Mapping[str, Any] | None) -> None:
        """Find the target or the continuation of the text, and add it to the arguments of the model."""
        ids, name = self.tensors.get("input_ids"), type(self.model).__name__
        if ids is not None and not ids.numel():
            raise RequestError("from_huggingface: the text has no tokens, expected at least one")
        if target is not None and (not self.is_pair or self.has_queries):
            reads = "an image" if self.has_queries or ids is None else "one text"
            pair = "" if ids is None else ", or give a pair of texts as its encoding, tokenizer(a, b, return_tensors='pt')"
            raise RequestError(f"from_huggingface: {name} reads {reads}, and a target was given: leave it out{pair}")
        if self.has_queries:
            return
        if self.is_pair and target is None:
            sequence = self._generate(generation or {})
            self.tensors["decoder_input_ids"], self.written = sequence[:, :-1], sequence[0, 1:]
        elif self.is_pair:
            labels = read_text(self.tokenizer, target, "text_target").tensors["input_ids"].to(self.model.device)
            self.tensors["decoder_input_ids"], self.written = self._shifted(labels)
        elif generation is not None:
            self._continue(self._generate(generation))

    def recorded(self) -> list[str] | None:
        """Return patterns of the modules to record; None for all.

        An image encoder before a language model has other tokens than the prompt, and an encoder of sounds has too many.
        """
        has_images = bool(self.inputs.images) and "input_ids" in self.tensors
        if not (has_images or (self.is_pair and len(self.inputs.samples))):
            return None
        decoder = self.model.get_decoder()
        name = next(each for each, part in self.model.named_modules() if part is decoder)
        return [f"{name}.*"] if name else None

    @property
    def options(self) -> dict[str, bool]:
        """Further arguments of the model, which turn off the cache if it has one."""
        has_cache = hasattr(self.model, "generate") or (self.is_pair and not self.has_queries)
        return {"use_cache": False} if has_cache else {}

    def look(self, caught: Captured, output: Any) -> None:
        """Find the tokens of both sides, and their segments, after the run."""
        ids = self.tensors.get("input_ids")
        across = [call for call in caught.calls if call.within is False]
        if ids is not None:
            self.tokens = self._tokens(ids[0])
            if self.inputs.images:
                self.segments = prompt_segments(self.model, self.processor, self.inputs, ids[0], self.grid)
            elif {0, 1} <= set(text_of := self.inputs.text_of[: len(self.tokens)]):  # a pair of texts
                for number, name in enumerate(("text A", "text B")):
                    places = [place for place, text in enumerate(text_of) if text == number]
                    self.segments.append(TextSegment(start=places[0], end=places[-1] + 1, name=name))
        else:
            for call in caught.calls:
                if len(call.weights) > max(1, len(self.inputs.images)):
                    raise RequestError(
                        f"from_huggingface: {call.name!r} attends within {len(call.weights)} parts of its input, such as "
                        "windows of an image, which have no place in a record: use regard.capture, whose weights have one "
                        "matrix for each part, or record other modules with names, such as names=['decoder.*']"
                    )
            count = (across or caught.calls)[0].weights.shape[-1]
            if self.inputs.images:
                self.tokens, self.segments = image_tokens(self.model, self.processor, self.inputs, count, self.grid)
            else:
                self.tokens, self.segments = sound_tokens(self.model, self.processor, self.inputs, count)
            if across and not self.is_pair:
                self.target_tokens = [_POOLED]
        if self.has_queries:
            self.target_tokens = self._queries(output)
            self.families = {call.name: "decoder" for call in caught.calls if "decoder" in call.name and call not in across}
        if self.written is not None:
            self.target_tokens = self._tokens(self.written)
            if len(self.inputs.samples):
                self._find_times(caught)

    @property
    def is_pooled(self) -> bool:
        """Whether the target is a head that pools the source by attention."""
        return self.target_tokens == [_POOLED] and self.written is None

    @property
    def text(self) -> str:
        """The text that was read; for an image or a sound, its kind."""
        ids = self.tensors.get("input_ids")
        if ids is None:
            return self.segments[0].name
        return str(self.tokenizer.decode(ids[0], skip_special_tokens=True))

    @property
    def target_text(self) -> str:
        """The text that the model wrote; empty if it wrote nothing."""
        return "" if self.written is None else str(self.tokenizer.decode(self.written, skip_special_tokens=True))

    @property
    def special(self) -> list[str]:
        """Tokens that belong to no word."""
        added = [token for token in self.tokens if "input_ids" not in self.tensors and token[:1] in "[<"]
        return [*getattr(self.tokenizer, "all_special_tokens", ()), *dict.fromkeys(added)]

    @property
    def scheme(self) -> Scheme:
        """How tokens mark words."""
        if "input_ids" not in self.tensors and self.written is None:
            return "wordpiece"  # labels are words
        return scheme_of(self.tokenizer)

    def _shifted(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a decoder reads (1,T), and the tokens (T,) that it then predicts, for a target (1,T)."""
        start = getattr(self.config, "decoder_start_token_id", None)
        if labels.shape[1] > 1 and int(labels[0, 0]) == start:  # as Whisper's tokenizer writes it
            return labels[:, :-1], labels[0, 1:]
        shift = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        if shift or start is None:
            return self.model.prepare_decoder_input_ids_from_labels(labels=labels), labels[0]
        return torch.cat([labels.new_full((1, 1), start), labels[:, :-1]], 1), labels[0]

    def _generate(self, generation: Mapping[str, Any]) -> Tensor:
        """Return the best sequence (1,T) that the model generates."""
        if not hasattr(self.model, "generate"):
            raise RequestError(
                f"from_huggingface: {type(self.model).__name__} cannot generate text: give a target, or load the model with "
                "its head, for example with AutoModelForSeq2SeqLM, AutoModelForCausalLM or AutoModelForImageTextToText"
            )
        # Otherwise, Whisper leaves out the symbols that it read first.
        output = self.model.generate(**self.tensors, **{**generation, "return_dict_in_generate": True})
        sequences: Tensor = output["sequences"]
        return sequences[:1]

    def _tokens(self, ids: Tensor) -> list[str]:
        """Return the tokens with these ids (S,); a model may have more ids than its tokenizer."""
        tokens = self.tokenizer.convert_ids_to_tokens(ids.tolist())
        return [f"<{number}>" if token is None else token for number, token in zip(ids.tolist(), tokens, strict=True)]

    def _continue(self, sequence: Tensor) -> None:
        """Replace the text by its continuation, which the model has written."""
        before = self.tensors["input_ids"].shape
        added = sequence.shape[1] - before[1]
        for name, value in self.tensors.items():
            if value.shape == before:
                fill = 1 if name == "attention_mask" else 0
                self.tensors[name] = torch.cat([value, value.new_full((1, added), fill)], 1)
        self.tensors["input_ids"], self.is_continued = sequence, True

    def _queries(self, output: Any) -> list[str]:
        """Return a name for each query of a detector: its number, and the kind of object that it found."""
        names = [f"query {number + 1}" for number in range(self.config.num_queries)]
        if (logits := getattr(output, "logits", None)) is None:
            return names
        kinds = [self.config.id2label.get(best, "") for best in logits[0].argmax(-1).tolist()]  # the last kind has no name
        return [f"{kind} ({name})" if kind else name for kind, name in zip(kinds, names, strict=True)]

    def _find_times(self, caught: Captured) -> None:
        """Let `transformers` compute the times of a transcript from the cross-attention."""
        layers = [call.weights.float() for call in caught.calls if call.within is False]
        find = getattr(self.model, "_extract_token_timestamps", None)
        [sound], read = self.segments, self.tensors["decoder_input_ids"]
        assert isinstance(sound, SoundSegment)
        settings = getattr(self.model, "generation_config", None)
        heads = getattr(settings, "alignment_heads", None)
        shape = len(layers), layers[0].shape[1] if layers else 0
        if not find or self.written is None or shape != (self.config.decoder_layers, self.config.decoder_attention_heads):
            return  # some layers or heads were not recorded
        heads = heads or [[layer, head] for layer in range(len(layers) // 2, len(layers)) for head in range(layers[0].shape[1])]
        special = set(self.tokenizer.all_special_ids)
        first = next((place for place, each in enumerate(read[0].tolist()) if each not in special), read.shape[1] - 1)
        sequence = torch.cat([read, self.written[None, -1:]], 1)
        outputs = _Outputs(cross_attentions=[layers], sequences=sequence)
        begins = find(outputs, heads, time_precision=sound.seconds, num_frames=2 * sound.num_tokens, num_input_ids=first)
        begins = begins[0, 1:].tolist()
        times = tuple(zip(begins, [*begins[1:], begins[-1]], strict=True))
        self.target_segments = [TextSegment(start=0, end=len(times), name="transcript", times=times)]


class _Outputs(dict):
    """A dict whose items are attributes, like outputs of `transformers`."""

    __getattr__ = dict.__getitem__


def scheme_of(tokenizer: Any) -> Scheme:
    """Return how a tokenizer's tokens mark words; `auto` if this is unknown, for example without a `backend_tokenizer`."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return "auto"
    described = json.loads(backend.to_str())
    decoder = json.dumps(described.get("decoder"), ensure_ascii=False)
    marks: dict[str, Scheme] = {'"ByteLevel"': "bytes", "▁": "sentencepiece", '"WordPiece"': "wordpiece", '"BPEDecoder"': "end"}
    return next((scheme for mark, scheme in marks.items() if mark in decoder), "auto")
