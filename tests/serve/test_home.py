"""The page at `/`: a given one, or the list of the models."""

from functools import partial

from starlette.testclient import TestClient

import regard
from regard.serve.app import build_app

LOAD = partial(regard.load, device="cpu")


def test_models_are_listed(runs):
    app = build_app({"deu": runs / "deu", "other": runs / "reviews"}, load=LOAD)
    with TestClient(app, base_url="http://127.0.0.1") as web:
        listed = web.get("/").text
    assert "<td>deu</td><td>translation</td><td>/v1/translate, /v1/attention</td>" in listed
    assert "<td>other</td><td>classification</td><td>/v1/classify, /v1/attention</td>" in listed


def test_a_page_is_shown(runs):
    app = build_app({"deu": runs / "deu"}, load=LOAD, home="<p>a page")
    with TestClient(app, base_url="http://127.0.0.1") as web:
        assert web.get("/").text == "<p>a page"
