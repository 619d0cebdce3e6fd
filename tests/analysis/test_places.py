"""Models of `transformers` that read images and sounds: weights, results, and where the tokens lie."""

import importlib
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.analysis.inputs import Inputs, read_inputs
from regard.analysis.places import image_tokens, sound_tokens
from regard.errors import RegardError, RequestError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NAMES = (
    "ViT", "DeiT", "CLIP, image", "CLIP, text", "SigLIP, image", "SigLIP, text", "LLaVA", "Qwen2-VL", "DETR", "Whisper",
)  # fmt: skip
IMAGE = Image.new("RGB", (8, 8))


@pytest.fixture(scope="module")
def families():
    """The module with the models, which imports `transformers`."""
    pytest.importorskip("transformers")
    return importlib.import_module("analysis.families")


@pytest.fixture
def use_flash_attention(families):
    """A function that makes a model call a double of FlashAttention 2."""
    with families.flash_attention() as use:
        yield use


def tensors_of(family, model) -> dict[str, torch.Tensor]:
    asked = {name: family.inputs.get(name) for name in ("text", "image", "audio", "sampling_rate")}
    tensors = dict(read_inputs(family.processor, *asked.values()).tensors)
    if "target" in family.inputs:
        labels = family.processor.tokenizer(family.inputs["target"], return_tensors="pt")["input_ids"]
        tensors["decoder_input_ids"] = torch.cat([torch.tensor([[1]]), labels[:, :-1]], 1)
    return tensors


def leaves(output) -> list[torch.Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(dict(output)) if isinstance(each, torch.Tensor)]


@pytest.mark.parametrize("backend", ["eager", "sdpa", "flash", pytest.param("flex_attention", marks=pytest.mark.compile)])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_weights_are_those_of_eager_attention_and_results_do_not_change(families, use_flash_attention, name, backend):
    family = families.FAMILIES[name]()
    if (name, backend) == ("Qwen2-VL", "flex_attention"):
        pytest.skip("transformers has no such implementation")
    model, eager = family.model("eager" if backend == "flash" else backend), family.model("eager")
    if backend == "flash":
        use_flash_attention(model)
    made = regard.from_huggingface(model, family.processor, **family.inputs)
    run, own = ((each.get_submodule(family.part) if family.part else each) for each in (model, eager))
    tensors = tensors_of(family, run)
    before = leaves(run(**tensors))
    with regard.capture(run) as caught:
        after = leaves(run(**tensors))
    assert len(before) == len(after) > 0
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert caught.unseen == ()
    expected = own(**tensors, output_attentions=True)
    for site, field in family.sites.items():
        assert len(expected[field]) == 2
        for layer, weights in enumerate(expected[field]):
            np.testing.assert_allclose(made.weights[f"{site}.{layer}"], weights[0], rtol=0, atol=1e-5)
    assert {site.partition(".")[0] for site in made.sites} == {*family.sites, *(["pool"] if name == "SigLIP, image" else [])}
    assert regard.AttentionRecord.from_json(made.to_json()) == made


@pytest.fixture
def record(families):
    """A function that builds a family's record, with changed arguments."""

    def build(name: str, **changes) -> regard.AttentionRecord:
        family = families.FAMILIES[name]()
        return regard.from_huggingface(family.model("sdpa"), family.processor, **family.inputs | changes)

    return build


def places(segments) -> list[tuple]:
    return [(each.name, each.start, each.end, each.rows, each.columns) for each in segments]


def test_patches_of_image_encoders(record):
    made = record("DeiT")
    assert made.source_tokens[:3] == ("[CLS]", "[DIST]", "row 1, column 1")
    assert made.source_words[0] == "row 1, column 1"
    assert made.source_words[-1] == "row 2, column 3"
    assert places(made.source_segments) == [("image", 2, 8, 2, 3)]
    assert places(record("ViT", grid=(3, 2)).source_segments) == [("image", 1, 7, 3, 2)]
    assert places(record("CLIP, image").source_segments) == [("image", 1, 17, 4, 4)]


def test_registers_before_the_patches(families):
    library = families.transformers
    config = library.Dinov2WithRegistersConfig(**families.VISION | {"image_size": 8}, num_register_tokens=4)
    torch.manual_seed(0)
    model = library.Dinov2WithRegistersModel(config).eval()
    reader = families.ViTImageProcessorPil(size={"height": 8, "width": 8})
    made = regard.from_huggingface(model, reader, image=IMAGE)
    assert made.source_tokens[:6] == ("[CLS]", "[REG1]", "[REG2]", "[REG3]", "[REG4]", "row 1, column 1")
    assert places(made.source_segments) == [("image", 5, 9, 2, 2)]


def test_the_picture_is_what_the_model_saw(families, record):
    """CLIP cuts the middle out of an image of 20 × 16 pixels."""
    [segment] = record("CLIP, image").source_segments
    seen = np.asarray(Image.open(io.BytesIO(segment.picture))).astype(int)
    assert np.abs(seen - np.asarray(families.picture(20, 16))[:, 2:18]).max() <= 1


def test_a_head_that_pools_patches(record):
    made = record("SigLIP, image")
    assert made.target_words == ("pooled",)
    assert made.weights["pool"].shape == (4, 1, 16)
    np.testing.assert_allclose(made.matrix().sum(), 1, rtol=1e-5)
    shown = " ".join(text.get_text() for text in made.plot().texts).replace("\n", " ")
    assert "which patches the model attended to when it pooled them" in shown


def test_images_in_a_prompt(record):
    made = record("LLaVA")
    assert places(made.target_segments) == [("image 1", 2, 18, 4, 4), ("image 2", 20, 36, 4, 4)]
    assert made.target_words[:3] == ("what", "is", "row 1, column 1")
    assert made.target_words[18:20] == ("this", "a")
    generation = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "suppress_tokens": [4]}
    longer = record("Qwen2-VL", generation=generation)
    assert [each[3:] for each in places(longer.target_segments)] == [(2, 3), (4, 2)]
    assert len(longer.target_tokens) == len(record("Qwen2-VL").target_tokens) + 3


def test_chat_messages_with_an_image(families):
    family = families.llava()
    family.processor.chat_template = (
        "{% for message in messages %}{% for part in message['content'] %}"
        "{{ '<image> ' if part['type'] == 'image' else part['text'] + ' ' }}{% endfor %}{% endfor %}"
    )
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is this"}]}]
    made = regard.from_huggingface(family.model("sdpa"), family.processor, messages, image=IMAGE)
    assert places(made.target_segments) == [("image", 0, 16, 4, 4)]
    assert made.target_words[16:] == ("what", "is", "this")


def test_frames_of_an_encoder_of_sounds(families):
    library = families.transformers
    config = library.Wav2Vec2Config(
        vocab_size=13, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=9, conv_dim=[8] * 3,
        conv_kernel=[10, 3, 3], conv_stride=[20, 4, 4], num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model, reader = library.Wav2Vec2Model(config).eval(), library.Wav2Vec2FeatureExtractor()
    made = regard.from_huggingface(model, reader, audio=np.sin(np.arange(8000.0)), sampling_rate=16_000)
    [sound] = made.source_segments
    assert made.sites == ("encoder.0", "encoder.1")
    assert (sound.start, sound.end) == (0, len(made.source_tokens))
    np.testing.assert_allclose(sound.seconds * sound.end, 0.5)


def test_sounds_of_whole_frames_have_no_further_frame():
    """Frames of 20 ms: two spectra of 160 samples, or 320 samples, at 16,000 samples per second."""
    spectra = {"input_features": torch.zeros(1, 8, 200)}
    extractor = SimpleNamespace(hop_length=160, feature_size=8)
    model = SimpleNamespace(config=SimpleNamespace())
    for num_frames in range(1, 101):
        for further in (0, 1):
            samples = np.zeros(320 * num_frames + further, np.float32)
            tokens, [segment] = sound_tokens(model, extractor, Inputs(spectra, (), samples, 16_000), 100)
            assert (segment.end, segment.seconds, len(tokens)) == (min(100, num_frames + further), 0.02, 100)


def test_some_rows_of_a_prompt(record):
    whole, part = record("LLaVA"), record("LLaVA", rows=[-1, 18], heads=[2])
    assert part.sites == ("cross.0", "cross.1")
    assert part.target_words == ("cat", "this")
    np.testing.assert_allclose(part.weights["cross.1"], whole.weights["decoder.1"][[2]][:, [-1, 18]], rtol=0, atol=1e-6)
    assert places(part.source_segments) == places(whole.target_segments)


def test_queries_of_a_detector(record):
    made = record("DETR")
    assert made.sites == ("encoder.0", "encoder.1", "decoder.0", "cross.0", "decoder.1", "cross.1")
    assert places(made.source_segments) == [("image", 0, 6, 2, 3)]
    assert len(made.target_words) == 5
    assert all(word.startswith(("query", "LABEL")) for word in made.target_words)
    assert made.target_is_read  # column t of a `decoder` site is query t, not the one before


def test_words_with_times(families):
    """The times are those that `transformers` finds in its own weights while it generates."""
    family = families.whisper()
    model = family.model("sdpa")
    generation = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "suppress_tokens": list(range(8))}
    options = {"audio": family.inputs["audio"], "sampling_rate": families.RATE}
    # With a mask, the library knows where the sound ends.
    masked = family.processor(options["audio"], sampling_rate=families.RATE, return_tensors="pt", return_attention_mask=True)
    for heads in ([[0, 1], [1, 2]], None):
        if heads:
            model.generation_config.alignment_heads = heads
        else:
            del model.generation_config.alignment_heads
        made = regard.from_huggingface(model, family.processor, **options, generation=generation)
        [sound], [text] = made.source_segments, made.target_segments
        assert (sound.end, sound.seconds, len(made.source_tokens)) == (65, 0.02, 100)
        assert made.source_words[-1] == "1.28 s"
        assert max(sound.wave) == 1
        model.generation_config.alignment_heads = heads or [[1, head] for head in range(4)]
        other = families.whisper().model("eager")
        other.generation_config.alignment_heads = model.generation_config.alignment_heads
        own = other.generate(**masked, **generation, return_token_timestamps=True, return_dict_in_generate=True)[
            "token_timestamps"
        ][0]
        np.testing.assert_allclose([begin for begin, _ in text.times], own[1:], atol=1e-6)
        assert all(0 <= begin <= end <= 1.3 for begin, end in text.times)


def test_a_list_of_words_keeps_them(families):
    family = families.FAMILIES["CLIP, text"]()
    made = regard.from_huggingface(family.model("sdpa"), family.processor, ["what", "is", "this"])
    assert made.target_words == ("what", "is", "this")
    assert made.target_word_of == (0, 1, 2)
    encoded = family.processor(["what is", "a cat"], return_tensors="pt")
    assert regard.from_huggingface(family.model("sdpa"), family.processor, encoded, batch=1).target_words == ("a", "cat")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ViT", {"image": "missing.png"}, r"missing.png: No such file or directory"),
        ("ViT", {"image": __file__}, "it is not an image in one of the formats PNG, JPEG"),
        ("ViT", {"image": np.zeros((4, 4, 5))}, r"an array of shape \(4, 4, 5\) is no image"),
        ("ViT", {"image": []}, "image is an empty list"),
        ("ViT", {"image": [IMAGE] * 2}, "ViTModel reads one image at a time, and 2 were given"),
        ("ViT", {"grid": (5, 7)}, r"as 7 tokens, which 5 × 7 patches do not explain: give the rows and columns"),
        ("ViT", {"grid": (2, 0)}, r"grid is \(2, 0\), expected two whole numbers above 0"),
        ("ViT", {"target": "a"}, "ViTModel reads an image, and a target was given"),
        ("ViT", {"text": "what"}, "cannot read these images and text"),
        ("CLIP, text", {"image": IMAGE}, "made no pixels from the image: give the processor of the model"),
        ("CLIP, text", {"text": None, "audio": np.zeros(9), "sampling_rate": 1}, "does not read sounds: give the processor"),
        ("LLaVA", {"text": "what"}, "the text has no place for the image: write '<image>'|cannot read these images and text"),
        ("LLaVA", {"grid": (2, 3)}, "has 32 places for patches of 2 images, and their grids are 2 × 3, 2 × 3"),
        (
            "Whisper",
            {"sampling_rate": 8000},
            r"sampling_rate is 8000, but the model hears 16000 samples per second.*resample_poly",
        ),
        ("Whisper", {"sampling_rate": None}, "sampling_rate is None, but the model hears 16000"),
        ("Whisper", {"audio": np.zeros((2, 9))}, "expected the samples of one channel"),
        ("Whisper", {"text": "what"}, "got a sound and a text: give a known transcript as target"),
    ],
)
def test_refusals(record, name, changes, message):
    with pytest.raises(RegardError, match=message):
        record(name, **changes)


@pytest.mark.parametrize("grid", [None, (4, 4)])
def test_attention_within_windows_is_refused(families, grid):
    """A window has 4 × 4 patches, and the image of the first layers has four."""
    library, processor = families.transformers, families.ViTImageProcessorPil(size={"height": 32, "width": 32})
    settings = {"patch_size": 4, "window_size": 4, "embed_dim": 12, "depths": [2, 1], "num_heads": [2, 2]}
    model = library.SwinModel(library.SwinConfig(image_size=32, **settings)).eval()
    with pytest.raises(RequestError, match=r"'encoder.layers.0.blocks.0.attention\S*' attends within 4 parts of its input"):
        regard.from_huggingface(model, processor, image=IMAGE, grid=grid)
    made = regard.from_huggingface(model, processor, image=IMAGE, grid=(4, 4), names=["encoder.layers.1.*"])
    assert places(made.source_segments) == [("image", 0, 16, 4, 4)]


def test_both_inputs_of_two_encoders_are_refused(families):
    processor = families.transformers.CLIPProcessor(families.CROP, families.tokenizer())
    with pytest.raises(RequestError, match="CLIPModel reads image and text apart, without attention between them"):
        regard.from_huggingface(families.pair("CLIP", "").model("sdpa"), processor, "a cat", image=IMAGE)


def test_a_photograph_through_a_model_from_a_folder(families, tmp_path):
    """The way of a downloaded model, with random weights."""
    family = families.FAMILIES["ViT"]()
    family.model("sdpa").save_pretrained(tmp_path / "model")
    family.processor.save_pretrained(tmp_path / "model")
    families.picture(40, 30).save(tmp_path / "photo.jpg")
    model = families.transformers.AutoModel.from_pretrained(tmp_path / "model")
    processor = families.transformers.AutoImageProcessor.from_pretrained(tmp_path / "model")
    made = regard.from_huggingface(model, processor, image=tmp_path / "photo.jpg").rollout()
    assert places(made.source_segments) == [("image", 1, 7, 2, 3)]
    made.save(tmp_path / "photo.html")
    assert (tmp_path / "photo.html").stat().st_size > 1000


def test_pixels_that_were_not_normalised_are_drawn_as_they_are():
    tensors = {"pixel_values": torch.full((1, 3, 4, 4), 0.2)}
    reader = SimpleNamespace(image_mean=[0.5] * 3, image_std=[0.5] * 3, do_normalize=False)
    config = SimpleNamespace(patch_size=2)
    _, [segment] = image_tokens(SimpleNamespace(config=config), reader, Inputs(tensors, (IMAGE,)), 4, None)
    assert Image.open(io.BytesIO(segment.picture)).getpixel((0, 0)) == (51, 51, 51)
