"""Small random models of families of `transformers` that read images and sounds, with their processors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "<image>", "<video>", "<vision>", "</vision>", "what", "is", "this", "a", "cat"]
RATE = 16_000
VISION = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 9, "image_size": 16,
    "patch_size": 4,
}  # fmt: skip
TEXT = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 9, "vocab_size": len(WORDS),
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip


@dataclass
class Family:
    """A model, its processor, and what they read."""

    model: Callable[[str], nn.Module]
    """Builds the model with an attention implementation."""
    processor: Any
    inputs: dict[str, Any]
    """Arguments of `from_huggingface`."""
    sites: dict[str, str]
    """The field of the output in which the model returns its own weights, by family of sites."""
    part: str = ""
    """The part of the model that runs."""


@contextmanager
def flash_attention() -> Iterator[Callable[[nn.Module], None]]:
    """Register a double of FlashAttention 2, which needs a GPU, and yield a function that makes a model call it."""
    interface = transformers.AttentionInterface
    original = interface()["flash_attention_2"]
    interface.register("flash_attention_2", _flash)

    def use(model: nn.Module) -> None:
        for part in model.modules():
            if hasattr(part, "config"):
                part.config._attn_implementation = "flash_attention_2"

    yield use
    interface.register("flash_attention_2", original)


def _flash(module, query, key, value, attention_mask, scaling=None, is_causal=None, cu_seq_lens_q=None, **_):
    """Attention as `transformers` asks FlashAttention for it: masks (B,K) of padding, and texts that share a row."""
    count, total = query.shape[-2], key.shape[-2]
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (key, value))
    seen = torch.ones(count, total, dtype=torch.bool)
    if module.is_causal if is_causal is None else is_causal:
        seen = seen.tril(total - count)
    if attention_mask is not None:
        seen = seen & attention_mask.bool()[:, None, None, :]
    if cu_seq_lens_q is not None:
        text = torch.arange(len(cu_seq_lens_q) - 1).repeat_interleave(cu_seq_lens_q.diff())
        seen = seen & (text == text[:, None])
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    return (scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value).transpose(1, 2).contiguous(), None


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        extra_special_tokens={"image_token": "<image>", "video_token": "<video>"},
    )  # fmt: skip


def build(name: str, config: Callable[[], Any]) -> Callable[[str], nn.Module]:
    def make(kind: str) -> nn.Module:
        torch.manual_seed(0)
        # The backbone of DETR has no attention.
        model = getattr(transformers, name)._from_config(config(), attn_implementation="eager" if "Detr" in name else kind)
        model.config._attn_implementation = kind
        return model.eval()

    return make


def vit(name: str) -> Family:
    model = build(f"{name}Model", lambda: getattr(transformers, f"{name}Config")(**VISION | {"image_size": (8, 12)}))
    return Family(
        model, ViTImageProcessorPil(size={"height": 8, "width": 12}), {"image": picture(30, 20)}, {"encoder": "attentions"}
    )


CROP = CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})


def pair(name: str, part: str) -> Family:
    """One encoder of a model with an encoder for images and one for texts."""
    config = lambda: getattr(transformers, f"{name}Config")(text_config=TEXT, vision_config=VISION)  # noqa: E731
    if part == "vision_model":
        return Family(build(f"{name}Model", config), CROP, {"image": picture(20, 16)}, {"encoder": "attentions"}, part)
    site = {"decoder" if name == "CLIP" else "encoder": "attentions"}
    return Family(build(f"{name}Model", config), tokenizer(), {"text": "what is this a cat"}, site, part)


def llava() -> Family:
    processor = transformers.LlavaProcessor(
        CROP, tokenizer(), patch_size=4, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    model = build(
        "LlavaForConditionalGeneration",
        lambda: transformers.LlavaConfig(
            vision_config=transformers.CLIPVisionConfig(**VISION),
            text_config=transformers.LlamaConfig(**TEXT),
            image_token_index=WORDS.index("<image>"),
        ),
    )
    inputs = {"text": "what is <image> this a <image> cat", "image": [picture(20, 16), picture(16, 30, 1)]}
    return Family(model, processor, inputs, {"decoder": "attentions"})


def qwen() -> Family:
    reader = Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, size={"shortest_edge": 64, "longest_edge": 1024})
    # Its processor for videos needs torchvision.
    with mock.patch.object(transformers.Qwen2VLProcessor, "check_argument_for_proper_class"):
        processor = transformers.Qwen2VLProcessor(reader, tokenizer(), None)
    vision = {"depth": 2, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "patch_size": 4, "mlp_ratio": 2}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 0]}
    ids = {
        f"{name}_token_id": WORDS.index(word)
        for name, word in (
            ("image", "<image>"),
            ("video", "<video>"),
            ("vision_start", "<vision>"),
            ("vision_end", "</vision>"),
        )
    }
    text = TEXT | {"num_key_value_heads": 2, "rope_parameters": rope}
    model = build(
        "Qwen2VLForConditionalGeneration", lambda: transformers.Qwen2VLConfig(vision_config=vision, text_config=text, **ids)
    )
    prompt = "what is <vision> <image> </vision> <vision> <image> </vision> a cat"
    return Family(model, processor, {"text": prompt, "image": [picture(24, 16), picture(16, 32, 1)]}, {"decoder": "attentions"})


ALL = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
LAYERS = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "d_model": 16,
    "encoder_ffn_dim": 9, "decoder_ffn_dim": 9,
}  # fmt: skip


def detr() -> Family:
    def config() -> Any:
        sizes = {"embedding_size": 8, "hidden_sizes": [8] * 4, "depths": [1] * 4, "layer_type": "basic"}
        backbone = transformers.ResNetConfig(**sizes, out_features=["stage4"])
        return transformers.DetrConfig(backbone_config=backbone, num_queries=5, **LAYERS)

    reader = DetrImageProcessorPil(size={"height": 64, "width": 96})
    return Family(build("DetrForObjectDetection", config), reader, {"image": picture(30, 20)}, ALL)


class Speech:
    """A processor of Whisper with the small tokenizer."""

    def __init__(self) -> None:
        self.feature_extractor = transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=2)
        self.tokenizer = tokenizer()

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.feature_extractor(*args, **options)


def whisper() -> Family:
    symbols = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    sizes = {"vocab_size": len(WORDS), "num_mel_bins": 8, "max_source_positions": 100, "max_target_positions": 20}
    model = build(
        "WhisperForConditionalGeneration",
        lambda: transformers.WhisperConfig(
            **LAYERS, **sizes, **symbols, suppress_tokens=None, begin_suppress_tokens=None, median_filter_width=3
        ),
    )
    sound = np.sin(np.arange(int(1.3 * RATE)) ** 1.3 / 500).astype(np.float32)
    inputs = {"audio": sound, "sampling_rate": RATE, "target": "what is this a cat"}
    return Family(model, Speech(), inputs, {family: field for family, field in ALL.items() if family != "encoder"})


FAMILIES: dict[str, Callable[[], Family]] = {
    "ViT": lambda: vit("ViT"),
    "DeiT": lambda: vit("DeiT"),
    "CLIP, image": lambda: pair("CLIP", "vision_model"),
    "CLIP, text": lambda: pair("CLIP", "text_model"),
    "SigLIP, image": lambda: pair("Siglip", "vision_model"),
    "SigLIP, text": lambda: pair("Siglip", "text_model"),
    "LLaVA": llava,
    "Qwen2-VL": qwen,
    "DETR": detr,
    "Whisper": whisper,
}
