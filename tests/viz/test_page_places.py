"""Pages with images, sounds and several texts."""

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import regard
from regard.records import TextSegment
from regard.viz import page

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def data_of(text):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)[1])


def photo():
    return Image.effect_noise((40, 20), 60).convert("RGB")


def captioned(**options):
    weights = np.arange(1.0, 17).reshape(2, 8)
    weights /= weights.sum(1, keepdims=True)
    return regard.record(weights, ["look", ":", regard.patches(2, 3, photo(), **options)], ["a", "cat"])


def test_words_and_patches_are_kept_apart():
    text = page.render(captioned())
    data = data_of(text)
    [columns] = [data["spans"]["words"]["source"]]
    assert columns == [{"start": 2, "end": 8, "name": "image", "figure": 0}]
    assert data["figures"] == [{"kind": "image", "rows": 2, "columns": 3}]
    assert data["words"]["words"]["source"] == ["look", ":", *regard.patches(2, 3).places()]
    heads = [attributes.get("title") for tag, attributes in Reader(text).tags if tag == "span"]
    assert "look" in heads
    assert "row 1, column 1" not in heads  # a table has no columns of patches
    assert "which source words the decoder" not in text
    assert "Each word\u0026#39;s map shows which source patches" in text


def test_the_picture_is_part_of_the_page_without_its_metadata():
    note = PngInfo()
    note.add_text("Comment", "SECRET")
    content = io.BytesIO()
    photo().save(content, "PNG", pnginfo=note)
    record = captioned()
    [segment] = record.source_segments
    text = page.render(replace(record, source_segments=(replace(segment, picture=content.getvalue()),)))
    [image] = [attributes for tag, attributes in Reader(text).tags if tag == "img"]
    kind, _, encoded = image["src"].partition(";base64,")
    assert kind in ("data:image/png", "data:image/jpeg")
    raw = base64.b64decode(encoded)
    assert b"SECRET" not in raw
    assert Image.open(io.BytesIO(raw)).size == (40, 20)
    assert (image["width"], image["height"], image["alt"]) == ("40", "20", "image")
    assert "img-src data:;" in text


def test_hostile_names_stay_names():
    sound = regard.record([[0.5, 0.5]], regard.frames(2, 0.1, name=HOSTILE), [HOSTILE])
    texts = regard.record({"encoder.0": np.eye(2)}, {HOSTILE: ["a"], "B": [HOSTILE]}, [])
    for record in (captioned(name=HOSTILE), sound, texts):
        text = page.render(record)
        tags = [tag for tag, _ in Reader(text).tags]
        assert tags.count("script") == 2
        assert not any(name.startswith("on") for _, attributes in Reader(text).tags for name in attributes)
        names = [span["name"] for kind in data_of(text)["spans"].values() for axis in kind.values() for span in axis]
        assert HOSTILE in names


def test_images_have_their_own_scale_and_enough_digits():
    weights = np.full((1, 4097), 1e-5)
    weights[0, 0] = 0.9
    weights[0, 7] = 2e-4
    data = data_of(page.render(regard.record(weights, ["<s>", regard.patches(64, 64)], ["cat"])))
    [view] = data["views"]
    assert (view["scale"], view["digits"]) == (1, 2)
    assert view["onPlaces"] == pytest.approx(2e-4)
    assert view["cells"][7] / 10 ** view["places"] == pytest.approx(2e-4)
    assert view["cells"][1] / 10 ** view["places"] == pytest.approx(1e-5)


def test_attributions_on_an_image_have_a_scale_of_their_own():
    weights = {"cross": [[0.1, 0.2, 0.7]], "integrated": [[40.0, -8.0, 2.0]]}
    text = page.render(regard.record(weights, ["look", regard.patches(1, 2)], ["cat"]))
    assert [(view["onPlaces"], view["topOnPlaces"]) for view in data_of(text)["views"]] == [(0.8, "0.8"), (8, "8")]


def test_the_class_token_and_all_heads_of_a_vision_model():
    rng = np.random.default_rng(0)
    weights = {f"encoder.{layer}": rng.dirichlet(np.ones(7), (2, 7)) for layer in range(2)}
    data = data_of(page.render(regard.record(weights, ["[CLS]", regard.patches(2, 3)], []).rollout()))
    assert len(data["views"]) == 7
    for view in data["views"]:
        words = data["words"]["words"][view["rows"]]
        # Heads have the row of the class token, and means have those of the patches too, which the script shows.
        assert words == (["[CLS]", *regard.patches(2, 3).places()] if view["head"] is None else ["[CLS]"])
        assert len(view["cells"]) == 7 * len(words)
        assert data["words"]["words"][view["columns"]][0] == "[CLS]"


def test_a_layer_of_many_patches_has_no_rows_of_patches():
    data = data_of(page.render(regard.record({"encoder.0": np.eye(401)}, ["[CLS]", regard.patches(20, 20)], [])))
    assert len(data["views"][0]["cells"]) == 401


def test_a_sound_has_times_and_no_silence():
    record = regard.record(np.eye(2, 100), regard.frames(100, 0.1, np.ones(10), 10), ["yes", "no"])
    spans = (TextSegment(start=0, end=2, times=((0, 0.5), (0.5, 1))),)
    data = data_of(page.render(replace(record, target_segments=spans)))
    assert data["times"]["words"]["target"] == [[0, 0.5], [0.5, 1]]
    [span] = data["spans"]["words"]["source"]
    assert (span["start"], span["end"]) == (0, 13)
    assert data["figures"][0]["length"] == 100
    assert len(data["views"][0]["cells"]) == 26


@pytest.mark.parametrize("before", [0, 2])
def test_words_beside_a_sound_keep_their_weights(before):
    words = [f"w{number}" for number in range(20)]
    weights = np.zeros((1, 120))
    weights[0, [before + 5, before + 99]], weights[0, -1] = (0.8, 0.1), 0.1
    sound = regard.frames(100, 0.1, np.ones(10), 10)
    data = data_of(page.render(regard.record(weights, [*words[:before], sound, *words[before:]], ["yes"])))
    [span] = data["spans"]["words"]["source"]
    assert (span["start"], span["end"]) == (before, before + 13)
    assert [word for word in data["words"]["words"]["source"] if word in words] == words
    cells = data["views"][0]["cells"]
    assert np.flatnonzero(cells).tolist() == [before + 5, len(cells) - 1]  # the weight on silence is not drawn


def test_the_first_site_that_is_shown_attends_to_the_sound():
    weights = {"decoder.0": np.eye(2), "cross.0": np.full((2, 4), 0.25)}
    data = data_of(page.render(regard.record(weights, regard.frames(4, 0.1), ["yes", "no"])))
    assert [view["site"] for view in data["views"]] == ["cross.0", "decoder.0"]


def test_a_classified_image_is_a_picture_not_a_text():
    text = page.render(
        regard.record([[0.7, 0.1, 0.1, 0.1]], regard.patches(2, 2, photo()), ["cat"], probabilities={"cat": 0.9, "dog": 0.1})
    )
    assert "Attention among the words" not in text
    assert "The colours show which patches the model attended to when it chose the label" in text
    assert [tag for tag, _ in Reader(text).tags].count("figure") == 1


def test_pages_without_places_have_no_figures():
    text = page.render(regard.record([[1.0]], ["a"], ["b"]))
    assert not {"figure", "img", "canvas"} & {tag for tag, _ in Reader(text).tags}
