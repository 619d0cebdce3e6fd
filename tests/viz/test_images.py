"""Pictures of weights over images, over sounds, and between texts."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

import regard
from regard.errors import RequestError
from regard.records import TextSegment
from regard.rendering import themed
from regard.viz import image, places


def photo(width=32, height=16):
    return Image.linear_gradient("L").resize((width, height)).convert("RGB")


def captioned(words=("a", "cat"), rows=2, columns=4, image=None, **options):
    weights = np.arange(1, len(words) * rows * columns + 1, dtype=float).reshape(len(words), -1)
    return regard.record(weights / weights.sum(1, keepdims=True), regard.patches(rows, columns, image), words, **options)


def written(figure):
    """Return all texts of a picture, the small print joined to one text."""
    texts = [each.get_text() for each in figure.findobj(Text) if each.get_text()]
    return texts, " ".join(texts)


def maps(figure):
    return [axes for axes in figure.axes if axes.images]


def test_a_map_for_each_word_and_the_image_itself():
    figure = captioned(image=photo()).plot()
    joined = written(figure)[1]
    assert [axes.get_title(loc="left") for axes in maps(figure)] == ["image", "a", "cat"]
    assert "Each map shows which source patches the decoder attended to" in joined
    assert "All weight is drawn." in joined
    assert "which patches the model's output depends on" in joined
    assert len(maps(captioned().plot())) == 2  # without a picture


@pytest.mark.parametrize("image", ["patches", "smooth", "beside"])
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_every_form_is_written_and_repeatable(image, ending, tmp_path):
    for name in ("one", "two"):
        captioned(image=photo()).save(tmp_path / f"{name}.{ending}", image=image, theme="dark")
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_one_word_is_chosen_by_name_or_number():
    for word in ("cat", 1, -1):
        figure = captioned().plot(word=word)
        assert [axes.get_title(loc="left") for axes in maps(figure)] == ["cat"]
    with pytest.raises(RequestError, match="'dog' is not one of the picture's 2 rows: 'a', 'cat'"):
        captioned().plot(word="dog")
    with pytest.raises(RequestError, match=r"'cats' is not .*did you mean"):
        captioned().plot(word="cats")


def test_colours_are_those_of_the_scale():
    weights = np.array([[0.0, 0.5], [1.0, -1.0]])
    pixels = places.blend(weights, 1.0, (4, 4))
    np.testing.assert_allclose(pixels[:2, :2], 1)  # zero is white
    assert pixels[3, 0] @ [1, 1, 1] < pixels[0, 3] @ [1, 1, 1] < 3
    assert pixels[3, 3][0] > pixels[3, 3][2]  # negative weights have another hue
    grey = places.blend(np.zeros((1, 1)), 1.0, (32, 16), photo())
    assert np.ptp(grey, axis=-1).max() < 1e-6  # nothing but weights has a colour


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, -0.5])
def test_equal_weights_have_equal_colours_on_any_image(weight, theme):
    halves = Image.new("L", (200, 100), "white")
    halves.paste(0, (0, 0, 100, 100))
    with themed(theme):
        weights = np.full((7, 7), weight)
        exact = places.blend(weights, 1.0, (200, 100))
        drawn = places.blend(weights, 1.0, (200, 100), halves)
        noisy = places.blend(weights, 1.0, (200, 100), Image.effect_noise((200, 100), 90))
    np.testing.assert_allclose(drawn[:, [*range(90), *range(110, 200)]], exact[:, :180], atol=1e-12)
    assert abs(drawn - exact)[:, 90:110].max() > 0.01  # the border of the halves is visible
    assert abs(noisy - exact).max() <= 0.2 + 1e-9
    assert abs(drawn[:, :100].mean((0, 1)) - drawn[:, 100:].mean((0, 1))).max() < 0.02


def test_the_caption_says_how_much_an_image_changes_colours():
    assert (
        "The image is drawn as fine lines, which make colours at most 20% darker or lighter."
        in written(captioned(image=photo()).plot())[1]
    )
    for figure in (captioned(image=photo()).plot(image="beside"), captioned().plot()):
        assert "fine lines" not in written(figure)[1]


def test_smooth_weights_pass_through_the_centres_of_patches():
    values = np.array([[0.0, 1.0], [0.5, 0.25]])
    smooth = places._resize(values, (6, 6), smooth=True)
    np.testing.assert_allclose(smooth[1::3, 1::3], values)
    np.testing.assert_allclose(smooth[1, 2:4], [1 / 3, 2 / 3])
    np.testing.assert_allclose(places._resize(np.array([[0.3]]), (3, 2), smooth=True), 0.3)


def vision(special=("[CLS]",), layers=2, heads=3):
    rng = np.random.default_rng(0)
    tokens = len(special) + 6
    weights = {f"encoder.{layer}": rng.dirichlet(np.ones(tokens), (heads, tokens)) for layer in range(layers)}
    made = regard.record(weights, [*special, regard.patches(2, 3)], [])
    count = len(special)
    return replace(
        made, source_words=made.source_words[count:], source_word_of=(*[-1] * count, *range(6))
    )  # as in records of models, special tokens are no words


def test_the_class_token_of_a_vision_model_looks_at_the_patches():
    record = vision()
    view = places.only(places.looked(record, "encoder.1", 2), "image")
    assert view.rows == ("[CLS]",)
    np.testing.assert_array_equal(view.matrix[0], record.weights["encoder.1"][2, 0, 1:])
    assert view.outside == pytest.approx(record.weights["encoder.1"][2, 0, :1])
    figure = record.plot(site="encoder")
    assert [axes.get_title(loc="left") for axes in maps(figure)][:2] == ["encoder.0 · head 0", "encoder.0 · head 1"]
    assert len(maps(figure)) == 6
    joined = written(figure)[1]
    assert "Each map shows the row of [CLS]." in joined
    assert "when it encoded that token, for each layer and head" in joined
    assert "not drawn" in joined


def test_without_a_class_token_the_mean_of_all_patches_is_drawn():
    record = vision(special=())
    view = places.looked(record, "encoder.0")
    np.testing.assert_allclose(view.matrix[0], record.weights["encoder.0"].mean((0, 1)), rtol=1e-5)
    assert "mean of all patches' rows" in written(record.plot(site="encoder.0"))[1]


def test_a_family_of_one_layer_has_a_map_for_each_head():
    assert len(maps(vision(layers=1).plot(site="encoder"))) == 3
    assert len(maps(vision(layers=1).plot())) == 1


def test_a_patch_of_a_vision_model_looks_at_the_others():
    record = vision()
    view = places.only(places.looked(record, "encoder.0", 1, word="row 2, column 1"), "image")
    np.testing.assert_array_equal(view.matrix[0], record.weights["encoder.0"][1, 4, 1:])
    joined = written(record.plot(site="encoder", word="row 2, column 1"))[1]
    assert "Each map shows the row of row 2, column 1." in joined
    assert "when it encoded that patch" in joined


def test_rollout_is_drawn_like_a_site():
    record = vision().rollout()
    assert "attention rollout" in written(record.plot(site="encoder.rollout"))[1]


def prompt():
    weights = np.tril(np.ones((7, 7))) / np.arange(1, 8)[:, None]
    parts = ["<s>", regard.patches(1, 2), "is", regard.patches(1, 1), "a", "cat"]
    return regard.record({"decoder.0": weights}, [], parts, target_is_read=True)


def test_words_before_the_images_of_a_prompt_are_left_out():
    figure = prompt().plot()
    titles = [axes.get_title(loc="left") for axes in maps(figure)]
    assert titles == ["is", "", "a", "", "cat", ""]  # two images for each word
    assert "Tokens outside this part are not drawn" in written(figure)[1]


def test_a_matrix_of_patches_is_still_there():
    texts, caption = written(captioned().plot(image="matrix"))
    assert "row 2, column 4" in texts
    assert "do not prove which patches" in caption


def test_options_of_images_need_images():
    record = regard.record([[1.0]], ["a"], ["b"])
    for options in ({"word": "b"}, {"image": "smooth"}):
        with pytest.raises(RequestError, match="images and sounds"):
            record.plot(**options)
    with pytest.raises(RequestError, match=r"image is 'smoth', expected .*smooth"):
        captioned().plot(image="smoth")


def test_a_classified_image_has_its_label_as_title():
    record = captioned(["cat"], probabilities={"cat": 0.75, "dog": 0.25})
    joined = written(record.plot())[1]
    assert "cat · 0.75" in joined
    assert "Other labels: dog 0.25." in joined
    assert "The colours show which patches the model attended to when it chose the label" in joined


@pytest.mark.parametrize(("rows", "columns", "words"), [(1, 1, 1), (4, 4, 60), (64, 64, 3), (1, 40, 3)])
def test_grids_of_all_sizes(rows, columns, words):
    figure = captioned(tuple(f"w{n}" for n in range(words)), rows, columns).plot()
    assert len(maps(figure)) == words
    width, height = figure.get_size_inches()
    assert 3 < width < 8
    assert height < 25


@pytest.mark.parametrize("word", ["row 9, column 9", 99, "cat"])
def test_a_patch_that_does_not_exist_is_refused_without_a_class_token_too(word):
    with pytest.raises(RequestError, match="is not one of the picture's 6 rows"):
        vision(special=()).plot(site="encoder.0", word=word)
    assert places.looked(vision(special=()), "encoder.0", word=2).rows == ("row 1, column 3",)


def test_the_share_outside_is_that_of_all_rows():
    weights = np.array([[0.9, 0, 0.1, 0], [0, 0.1, 0, 0.9], [0, 0, 1, 0], [0, 0, 0, 1]])
    record = regard.record({"encoder.0": weights}, {"A": regard.patches(1, 2), "B": regard.patches(1, 2)}, [])
    assert places.looked(record, "encoder.0", between=("A", "B")).outside == pytest.approx([0.5])


def spoken(times=True, silence=True):
    frames = 200 if silence else 50
    weights = np.eye(2, frames) * 0.6 + 0.4 / frames
    samples = np.sin(np.arange(1600))  # one second
    sound = regard.frames(frames, 0.02, samples, 1600)
    made = regard.record(weights, sound, ["hello", "you"])
    spans = (TextSegment(start=0, end=2, times=((0, 0.5), (0.5, 1))),)
    return replace(made, target_segments=spans) if times else made


def test_a_sound_has_its_wave_its_times_and_no_silence():
    figure = spoken().plot()
    texts, joined = written(figure)
    assert {"hello", "you"} <= set(texts)
    assert "A box marks the time of a word." in joined
    assert "1.3 s is left out." in joined
    [heat] = maps(figure)
    assert heat.get_xlim() == pytest.approx((0, 1.26), abs=0.02)
    assert len(heat.patches) == 2
    assert "Tokens outside this part are not drawn; they received 27% of each row's weight" in joined
    assert "silence" not in written(spoken(silence=False).plot())[1]
    assert not maps(spoken(times=False).plot())[0].patches


def test_all_heads_over_a_sound():
    weights = np.full((3, 2, 50), 0.02)
    record = regard.record({"cross.0": weights, "cross.1": weights}, regard.frames(50, 0.02), ["hello", "you"])
    texts, joined = written(record.plot(site="cross"))
    assert {"cross.0 · head 0", "cross.1 · head 2", "hello", "you"} <= set(texts)
    assert "for each layer and head. From left to right: time." in joined
    assert "0.02 s" not in joined


def test_no_peak_is_lost_between_pixels():
    weights = np.zeros((1, 5000))
    weights[0, 4321] = 1
    record = regard.record(weights, regard.frames(5000, 0.01), ["now"])
    [heat] = maps(record.plot())
    assert heat.images[0].get_array().max() == 1


def pair():
    return regard.record({"encoder.0": np.full((5, 5), 0.2)}, {"A": ["who", "?"], "B": ["the", "old", "man"]}, [])


def test_texts_have_a_border_and_can_be_drawn_apart():
    whole = pair().plot()
    assert "Lines separate A, B." in written(whole)[1]
    lines = [line.get_xydata().tolist() for axes in whole.axes for line in axes.lines]
    assert [[2.0, 0.0], [2.0, 1.0]] in lines
    assert [[0.0, 2.0], [1.0, 2.0]] in lines
    part = pair().plot(between=("B", "A"))
    texts, joined = written(part)
    assert "Tokens outside this part are not drawn; they received 60% of each row's weight." in joined
    assert "Lines separate" not in joined
    assert {"who", "?", "the", "old", "man"} <= set(texts)
    assert pair().view(between=("B", "A")).matrix.shape == (3, 2)
    assert pair().view(between=("", "A")).matrix.shape == (5, 2)
    with pytest.raises(RequestError, match="no segment 'C', only 'A', 'B'"):
        pair().plot(between=("C", "A"))
    with pytest.raises(RequestError, match="name the texts"):
        regard.record([[1.0]], ["a"], ["b"]).plot(between=("C", "A"))


def test_pages_and_data_have_no_options_of_pictures(tmp_path):
    for options in ({"word": 0}, {"image": "smooth"}, {"between": ("A", "B")}):
        with pytest.raises(RequestError, match="are for pictures"):
            captioned().save(tmp_path / "x.html", **options)


def test_a_broken_picture_is_named(tmp_path):
    content = io.BytesIO()
    Image.effect_noise((64, 64), 90).save(content, "PNG")
    [segment] = captioned(image=photo()).source_segments
    broken = replace(captioned(), source_segments=(replace(segment, picture=content.getvalue()[:900]),))
    with pytest.raises(regard.DataError, match=r"image segment: .*damaged"):
        broken.save(tmp_path / "x.png")


def test_the_mean_of_a_head_is_over_the_same_words_as_in_other_heads():
    weights = np.zeros((2, 2, 5))
    weights[0, [0, 1], [0, 1]] = weights[1, [0, 1], [0, 4]] = 1  # in head 1, the second word attends to no patch
    made = regard.record(weights, [regard.patches(2, 2), "x"], ["a", "b"])
    one, two = (axes.images[0].get_array() for axes in maps(image.draw(made, sites=["cross"], by_head=True)))
    assert (one[0, 0] == two[0, 0]).all()
