"""Batches, a stop that loses nothing, newer models, and what the command refuses."""

import asyncio
import logging
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from bundle.conftest import make as make_translator
from serve.conftest import SLOW, Service, serving
from starlette.testclient import TestClient

import regard
from regard.bundle import save_bundle
from regard.cli.main import main
from regard.errors import RequestError, install_command
from regard.serve.app import build_app
from regard.serve.limits import DEFAULT_LIMITS
from regard.serve.log import log, set_up_log
from regard.serve.metrics import Metrics
from regard.serve.middleware import Middleware
from regard.serve.models import named_folders
from regard.serve.responses import new_part

SENTENCES = ["she kissed him .", "a cat sleeps on the mat .", "she sleeps .", "a mat .", "him , she kissed on the mat ."]


@pytest.mark.slow
def test_requests_that_arrive_together_share_a_batch(runs):
    own = {text: regard.load(runs / "deu", device="cpu").translate([text])[0].text for text in SENTENCES}
    with serving(runs / "deu", "--limits.window_ms=200", "--limits.batch=16") as found:
        texts = SENTENCES * 6
        with ThreadPoolExecutor(len(texts)) as pool:
            answers = list(pool.map(lambda text: found.post("/v1/translate", texts=[text]).json(), texts))
        assert [answer["translations"][0]["text"] for answer in answers] == [own[text] for text in texts]
        assert found.metric("regard_batch_texts_sum") == len(texts)
        assert found.metric("regard_batch_texts_count") <= len(texts) / 3
        assert found.metric("regard_texts_total") == len(texts)


def test_a_stop_loses_no_accepted_request(runs):
    service = Service(runs / "deu", "--limits.batch=4", "--limits.window_ms=50")
    results: list[int] = []
    refused: list[str] = []

    def ask(number: int) -> None:
        text = SENTENCES[number % len(SENTENCES)]
        with httpx.Client(base_url=service.url, timeout=120) as client:
            while True:
                try:
                    answer = client.post("/v1/translate", json={"texts": [text], "beam_size": 8, "min_length": 40})
                except httpx.ConnectError:  # the service does not listen any more
                    return
                except httpx.TransportError as error:
                    refused.append(repr(error))
                    return
                results.append(answer.status_code)
                assert answer.json()["translations"][0]["text"]

    threads = [threading.Thread(target=ask, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    while len(results) < 20:
        time.sleep(0.05)
    assert service.stop() == 0
    for thread in threads:
        thread.join(60)
    assert not refused
    assert set(results) == {200}
    answered = [event for event in service.events("request") if event["route"] == "/v1/translate"]
    assert len(answered) == len(results)
    assert service.events("stopped")
    with pytest.raises(httpx.ConnectError):
        httpx.get(service.url)


@pytest.mark.slow
def test_a_stop_finishes_what_is_slow_and_is_not_ready_meanwhile(runs, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>küsste</title>", encoding="utf-8")
    service = Service(runs / "stories", runs / "deu", f"--page={page}", "--limits.deadline_seconds=120")
    with httpx.Client(base_url=service.url, timeout=60) as client:
        assert client.get("/readyz").status_code == 200
        assert client.get("/").text == page.read_text(encoding="utf-8")
        slow = threading.Thread(target=lambda: answers.append(service.post("/v1/translate", texts=["a cat"] * 64, **SLOW)))
        answers: list[httpx.Response] = []
        slow.start()
        service.wait_until_texts_wait()  # the request has been accepted: its texts are more than a batch
        service.process.terminate()
        service.wait_for("stopping")
        answer = client.get("/readyz")  # on a connection that was open
        assert answer.status_code == 503
        assert answer.headers["connection"] == "close"
        slow.join()
    assert service.stop() == 0
    assert answers[0].status_code == 200
    assert answers[0].headers["connection"] == "close"


@pytest.mark.slow
def test_a_newer_model_takes_over_without_a_lost_request(tmp_path):
    folder = tmp_path / "deu"
    save_bundle(folder, make_translator(seed=0))
    texts = ["she kissed him ."]
    first = regard.load(folder, device="cpu").translate(texts, beam_size=2)[0]
    with serving(folder, "--reload-seconds=0.1") as found:
        assert found.post("/v1/translate", texts=texts, beam_size=2).json()["translations"][0]["text"] == first.text
        stop, results = threading.Event(), []

        def ask() -> None:
            with httpx.Client(base_url=found.url, timeout=60) as client:
                while not stop.is_set():
                    answer = client.post("/v1/translate", json={"texts": texts, "beam_size": 2})
                    results.append((answer.status_code, answer.json()["translations"][0]["score"]))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        save_bundle(folder, make_translator(seed=1))
        found.wait_for("reloaded")
        second = regard.load(folder, device="cpu").translate(texts, beam_size=2)[0]
        number = len(results)
        while len(results) < number + 20:
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
        assert {status for status, _ in results} == {200}
        scores = sorted({round(score, 3) for _, score in results})
        assert scores == sorted({round(first.score, 3), round(second.score, 3)})
        assert results[-1][1] == pytest.approx(second.score, abs=1e-3)
        weights = found.client.get("/v1/models").json()["models"][0]["weights"]

        (folder / "config.yaml").write_text("damaged")
        (folder / "new").touch()  # the folder changes
        save_and_damage(folder)
        found.wait_for("reload_failed")
        assert found.post("/v1/translate", texts=texts).status_code == 200
        assert found.client.get("/v1/models").json()["models"][0]["weights"] == weights
        assert found.metric("regard_reloads_total") >= 2


def save_and_damage(folder):
    """Put another signature into the folder, which its files do not fit."""
    signature = folder / "signature.json"
    signature.write_text(signature.read_text().replace('"seed": 1', '"seed": 2'))
    (folder / "newer").touch()


def test_a_folder_that_cannot_be_read_does_not_end_the_checks(tmp_path):
    save_bundle(tmp_path / "deu", make_translator(seed=0))
    loads = []

    def load(folder):
        loads.append(folder)
        if len(loads) in (2, 3):
            raise PermissionError(13, "Permission denied", str(folder))
        return regard.load(folder, device="cpu")

    with TestClient(build_app({"deu": tmp_path / "deu"}, load=load, reload_seconds=0.01)) as web:
        before = web.get("/v1/models").json()
        save_bundle(tmp_path / "deu", make_translator(seed=1))
        end = time.monotonic() + 60
        while web.get("/v1/models").json() == before:
            assert time.monotonic() < end, loads
            time.sleep(0.01)
    assert len(loads) == 4


def test_names_of_models(tmp_path):
    for name in ("deu", "a=b"):
        (tmp_path / name).mkdir()
    found = named_folders([f"de={tmp_path}/deu", f"{tmp_path}/deu/", f"{tmp_path}/a=b"])
    assert list(found) == ["de", "deu", "a=b"]
    with pytest.raises(RequestError, match=r"two models are named 'deu'; name them yourself: first=.*deu second=.*deu"):
        named_folders([f"{tmp_path}/deu", f"{tmp_path}/deu"])
    other = os.fsdecode(b"bad\xff")
    assert named_folders([f"fine={tmp_path}/{other}"]) == {"fine": tmp_path / other}
    with pytest.raises(RequestError, match=r"'bad\\udcff' is not UTF-8; name the model yourself: NAME=DIR"):
        named_folders([f"{tmp_path}/{other}"])


def test_the_last_word_of_a_stream_waits():
    assert new_part("the", "the cat") == ""
    assert new_part("the", "the cat sat") == " cat"
    assert new_part("I don", "I don't know") == "'t"
    assert new_part("else", "the cat sat") == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no folder nowhere"),
        (["RUN", "--host", "192.0.2.1"], "serve: cannot listen on 192.0.2.1 port 8000: Cannot assign"),
        (["RUN", "--port", "70000"], "serve: the port is 70000, expected at most 65535"),
        (["RUN", "--limits.queue", "0"], "--limits.queue: 0, expected 1 or more"),
        (["RUN", "--limits.queue", "9"], "serve: limits.texts is 64, more than limits.queue, 9"),
        (["RUN", "--reload-seconds", "-1"], "--reload-seconds: '-1' is not a finite number of 0 or more"),
        (["RUN", "--reload-seconds", "nan"], "--reload-seconds: 'nan' is not a finite number of 0 or more"),
        (["RUN", "--limits.quee", "9"], "did you mean '--limits.queue'?"),
        (["RUN", "--token-file", "missing"], "serve: cannot read the token from missing"),
        (["RUN", "--token-file", "/dev/zero"], "serve: cannot read the token from /dev/zero: it has more than 4,096 bytes"),
        (["RUN", "--page", "missing"], "serve: cannot read the page missing"),
        (
            ["RUN", "--page", "huge"],
            "cannot read the page huge: it has more than 536,870,912 bytes; write one with `regard page`",
        ),
        ([], "serve: the following arguments are required: DIR"),
    ],
)
def test_what_the_command_refuses(arguments, message, runs, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with open("huge", "wb") as file:
        file.truncate(10 << 30)  # sparse
    given = [str(runs / "deu") if word == "RUN" else word for word in arguments]
    assert main(["serve", *(["--port", "0"] if "nowhere" in given else []), *given]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        ([], {"localhost", "machine"}),
        (["--host", "0.0.0.0"], {"localhost", "machine"}),
        (["--host", "LOCALHOST"], {"localhost", "machine"}),
        (["--host", "127.0.0.2", "--allow-host", "Public.example"], {"localhost", "machine", "public.example"}),
        (["--token-file", "token"], None),
        (["--token-file", "token", "--allow-host", "Public.example"], {"localhost", "machine", "public.example"}),
    ],
)
def test_the_hosts_of_requests(options, accepted, runs, tmp_path, monkeypatch):
    given = {}
    monkeypatch.chdir(tmp_path)
    Path("token").write_text(" \r\nsecret\u00a0\n", encoding="utf-8")
    monkeypatch.setattr("socket.gethostname", lambda: "Machine")
    monkeypatch.setattr("regard.serve.app.build_app", lambda folders, **others: given.update(others))
    monkeypatch.setattr("regard.serve.server.run", lambda *_: None)
    assert main(["serve", str(runs / "deu"), "--port", "0", *options]) == 0
    assert given["hosts"] == accepted
    assert given["token"] == ("secret\u00a0" if "token" in options else "")


@pytest.mark.parametrize("value", ["", " \n"])
def test_an_empty_token_is_refused(value, runs, monkeypatch, capsys):
    monkeypatch.setenv("REGARD_TOKEN", value)
    assert main(["serve", str(runs / "deu"), "--port", "0"]) == 2
    assert "serve: the environment variable REGARD_TOKEN is empty, expected a token" in capsys.readouterr().err


def status_of(header: bytes, value: bytes, path: str = "/", **options) -> int:
    """Return the status of a request with one header."""
    found = []

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        found.append(message.get("status"))

    middleware = Middleware(answer, limits=DEFAULT_LIMITS, metrics=Metrics(), **options)
    asyncio.run(middleware({"type": "http", "method": "GET", "path": path, "headers": [(header, value)]}, answer, send))
    return found[0]


@pytest.mark.parametrize("ending", [b"\xc3\xa0", b"\xc2\x85", b"\xff"])
def test_a_token_may_end_in_any_byte(ending):
    token = os.fsdecode(b"secret" + ending)
    assert status_of(b"authorization", b"Bearer secret" + ending, token=token) == 200
    assert status_of(b"authorization", b"Bearer secret", token=token) == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("localhost:80", "LocalHost", "127.0.0.1:8000", "192.0.2.7", "[::1]:8000", "[fe80::1]")),
        *(
            (host, 421)
            for host in ("evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "7.example", "a:80:80", "")
        ),
    ],
)
def test_a_web_site_cannot_use_its_own_name(host, status):
    assert status_of(b"host", host.encode(), hosts={"localhost"}) == status
    assert status_of(b"host", host.encode(), "/readyz", hosts={"localhost"}, token="secret") == 200


def test_the_log_does_not_repeat_messages_of_libraries(capfd):
    loggers = [logging.getLogger(name) for name in ("regard.serve", "uvicorn", "asyncio")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    set_up_log()
    try:
        for number in range(100):
            loggers[2].error("socket.accept() out of system resource\nsocket: %d", number)
            log("request", number=number)
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
    lines = capfd.readouterr().err.splitlines()
    assert 100 < len(lines) <= 102  # the minute may change


def test_a_port_in_use(runs, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(runs / "deu"), "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose others with" in capsys.readouterr().err


def test_the_extra_is_named(runs, capsys, monkeypatch):
    monkeypatch.setattr("regard.cli.serve.find_spec", lambda name: None if name == "uvicorn" else name)
    assert main(["serve", str(runs / "deu")]) == 2
    assert f"serve: uvicorn not installed; install the extra with: {install_command('serve')}" in capsys.readouterr().err
