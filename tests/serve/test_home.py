"""The page at `/`: the living page of a model, and the list of several."""

import asyncio
import json
import time
from functools import partial
from pathlib import Path

import pytest
from bundle.conftest import make as make_translator
from serve.conftest import serving
from starlette.testclient import TestClient

import regard
from regard.bundle import save_bundle
from regard.serve.app import build_app
from regard.serve.living import write_page

LOAD = partial(regard.load, device="cpu")


def client(folders, write):
    return TestClient(build_app(folders, load=LOAD, write=write, reload_seconds=0.05), base_url="http://127.0.0.1")


def wait_for(client, text, path="/"):
    end = time.monotonic() + 60
    while text not in (answer := client.get(path)).text:
        assert time.monotonic() < end, answer.text
        time.sleep(0.02)
    return answer


def test_the_page_is_written_once_for_each_version_of_the_model(runs, tmp_path):
    save_bundle(tmp_path / "deu", make_translator())
    written = []

    async def write(folder, page):
        await asyncio.sleep(0.1)
        written.append((folder, page))
        page.write_text(f"<p>page {len(written)}", encoding="utf-8")
        return ""

    with client({"deu": tmp_path / "deu"}, write) as web:
        waiting = web.get("/")
        assert "The page of this model is being written, which takes some seconds." in waiting.text
        assert '<meta http-equiv="refresh" content="2">' in waiting.text
        assert '<a href="?model=deu">deu</a>' in waiting.text
        wait_for(web, "<p>page 1")
        assert web.get("/?model=deu").text == "<p>page 1"
        other = make_translator()
        next(other.model.parameters()).data.add_(0.1)
        save_bundle(tmp_path / "deu", other)
        wait_for(web, "<p>page 2")
        assert [folder for folder, _ in written] == [tmp_path / "deu"] * 2
        assert not written[0][1].exists()
        assert written[1][1].exists()
    assert not written[1][1].exists()


def test_models_with_the_same_weights_have_their_own_pages(tmp_path):
    first = make_translator()
    for name in ("deu", "same"):
        save_bundle(tmp_path / name, first)

    async def write(folder, page):
        page.write_text(f"<p>page of {folder.name}", encoding="utf-8")
        return ""

    with client({"deu": tmp_path / "deu", "same": tmp_path / "same"}, write) as web:
        wait_for(web, "<p>page of same", "/?model=same")
        wait_for(web, "<p>page of deu", "/?model=deu")
        assert web.get("/?model=same").text == "<p>page of same"
        other = make_translator()
        next(other.model.parameters()).data.add_(0.1)
        before = web.get("/v1/models").json()
        save_bundle(tmp_path / "deu", other)
        end = time.monotonic() + 60
        while web.get("/v1/models").json() == before:
            assert time.monotonic() < end
            time.sleep(0.02)
        wait_for(web, "<p>page of deu", "/?model=deu")
        assert web.get("/?model=same").text == "<p>page of same"


def test_several_models_are_listed_and_a_reason_is_shown(runs):
    async def write(folder, page):
        return "onnx <not> installed"

    with client({"deu": runs / "deu", "other": runs / "deu"}, write) as web:
        listed = web.get("/").text
        assert "refresh" not in listed
        assert '<a href="?model=deu">deu</a>' in listed
        assert '<a href="?model=other">other</a>' in listed
        assert "No page: onnx &lt;not&gt; installed" in wait_for(web, "No page", "/?model=other").text
        assert web.get("/?model=unknown").text == listed


def test_a_page_that_is_being_written_does_not_delay_the_stop(runs):
    stopped = []

    async def write(folder, page):
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append(page)

    with client({"deu": runs / "deu"}, write) as web:
        web.get("/")
    assert len(stopped) == 1


@pytest.mark.slow
def test_the_service_shows_its_model(runs):
    pytest.importorskip("onnxruntime")
    with serving(runs / "deu") as service:
        answer = wait_for(service.client, 'id="blob-0-step"')
        assert answer.headers["content-type"].startswith("text/html")
        assert json.loads(answer.text.split('id="data">')[1].split("</script>")[0])["models"][0]["name"] == "deu"
        assert service.events("page_written")[0]["model"] == "deu"


def test_the_reason_of_a_failure_is_that_of_the_command(tmp_path, monkeypatch):
    """The process that writes pages imports nothing from the working directory."""
    (tmp_path / "ast.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    reason = asyncio.run(write_page(Path("none"), tmp_path / "page.html"))
    assert not (tmp_path / "ran").exists()
    assert "none" in reason
    assert not reason.startswith("regard:")
    assert not (tmp_path / "page.html").exists()
