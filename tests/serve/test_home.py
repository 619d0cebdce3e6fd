"""The page at `/`: a given one, or the list of the models."""

from functools import partial

import pytest
from browser import CHROMIUM, Browser
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


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no chromium or chrome is installed")
def test_no_page_is_wider_than_a_phone(runs, tmp_path):
    app = build_app({"a_translator_with_a_long_name": runs / "deu", "reviews": runs / "reviews"}, load=LOAD)
    with TestClient(app, base_url="http://127.0.0.1:8000") as web:
        for name in ("", "docs"):
            (tmp_path / f"{name}.html").write_text(web.get(f"/{name}").text, encoding="utf-8")
    running = Browser()
    try:
        for path in sorted(tmp_path.iterdir()):
            running.open(path, width=390)
            assert running.run("document.documentElement.scrollWidth") == 390, path
    finally:
        running.close()
