"""Every malformed, oversized, late or surplus request gets an error in JSON with the right status."""

import json
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve.conftest import SLOW, serving

from regard.serve.limits import DEFAULT_LIMITS
from regard.serve.request_models import find_endpoints

PATHS = ("/v1/translate", "/v1/classify", "/v1/generate", "/v1/attention")
REFUSED = {400, 401, 404, 405, 408, 413, 415, 421, 422, 429, 503, 504}


def refused(answer, status, *words):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"status", "code", "message"}
    assert error["status"] == status
    for word in words:
        assert word in error["message"]
    return error


def raw(service, content: bytes, *, wait: float = 20.0) -> bytes:
    """Send bytes, and return everything that comes back until the connection is closed."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(content)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/translate", {}, 422, ["texts", "required"]),
        ("/v1/translate", {"texts": "she kissed him ."}, 422, ["texts", "list"]),
        ("/v1/translate", {"texts": []}, 422, ["texts"]),
        ("/v1/translate", {"texts": ["a", 3]}, 422, ["texts[1]", "string"]),
        ("/v1/classify", {"texts": [""]}, 422, ["classify: the text is empty, so there is nothing to classify"]),
        ("/v1/translate", {"texts": ["", " "]}, 422, ["translate: the sentence is empty, so there is nothing to translate"]),
        ("/v1/attention", {"model": "deu", "texts": [""]}, 422, ["the text is empty, so there is nothing to look at"]),
        ("/v1/translate", {"texts": ["x"] * 65}, 413, ["texts", "64"]),
        ("/v1/translate", {"texts": ["x" * 5001]}, 413, ["texts[0]", "5000"]),
        ("/v1/translate", {"texts": ["\ud800"]}, 422, ["texts[0]", "unicode"]),
        ("/v1/translate", {"texts": ["a"], "beam_size": 17}, 422, ["beam_size", "16"]),
        ("/v1/translate", {"texts": ["a"], "beam_size": "5"}, 422, ["beam_size"]),
        ("/v1/translate", {"texts": ["a"], "beam_size": 2, "n_best": 3}, 422, ["n_best"]),
        ("/v1/translate", {"texts": ["a"], "beamsize": 5}, 422, ["'beamsize'", "did you mean 'beam_size'?"]),
        ("/v1/translate", {"texts": ["a"], "model": "deo"}, 404, ["did you mean 'deu'?"]),
        ("/v1/translate", {"texts": ["a"], "model": "reviews"}, 422, ["'reviews' is a classifier", "models that can: deu"]),
        ("/v1/translate", {"texts": ["a"], "timeout": 0}, 422, ["timeout"]),
        ("/v1/translate", {"texts": ["a"], "min_length": 9, "max_length": 5}, 422, ["min_length"]),
        ("/v1/attention", {"texts": ["a"]}, 422, ["several models", "deu, reviews, stories"]),
        ("/v1/attention", {"model": "deu", "texts": ["a"], "targets": ["b", "c"]}, 422, ["1 texts and 2 targets"]),
        ("/v1/attention", {"model": "deu", "texts": ["a"], "targets": ["x" * 1001]}, 413, ["targets[0]", "1000"]),
        ("/v1/attention", {"model": "reviews", "texts": ["a"], "targets": ["b"]}, 422, ["targets are for translators"]),
        ("/v1/attention", {"model": "deu", "texts": ["a"], "sites": ["encoder.9"]}, 422, ["only: cross"]),
        ("/v1/generate", {"prompts": ["a"], "samples": 4, "temperature": 0, "stream": False}, 422, ["temperature 0"]),
        ("/v1/nothing", {}, 404, []),
        ("/v1/translate", [1], 422, ["JSON object"]),
    ],
)
def test_wrong_bodies(service, path, body, status, words):
    refused(service.client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"}), status, *words)


def test_a_refusal_in_a_stream_is_an_event(service):
    answer = service.post("/v1/generate", prompts=["a"], samples=4, temperature=0)
    [line] = [line for line in answer.text.splitlines() if line]
    assert json.loads(line.removeprefix("data: "))["error"]["status"] == 422


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 400), (b"\xff\xfe", 400), (b'{"texts": ["a"], "length_penalty": NaN}', 422), (b"[" * 100_000, 400), (b"", 422)],
)
def test_bodies_that_are_not_json(service, content, status):
    refused(service.client.post("/v1/translate", content=content, headers={"Content-Type": "application/json"}), status)


def test_bodies_of_another_kind(service):
    refused(service.client.post("/v1/translate", data={"texts": "a"}), 415, "Content-Type: application/json")
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    refused(service.client.post("/v1/translate", content=b"x", headers=headers), 415)


def test_other_methods_and_hosts(service):
    refused(service.client.get("/v1/translate"), 405)
    refused(service.client.post("/healthz", content=b""), 405)
    refused(service.client.get("/v1/models", headers={"Host": "evil.example"}), 421)


def test_a_body_that_is_too_large(service):
    before = service.metric("process_resident_memory_bytes")
    headers = {"Content-Type": "application/json"}
    refused(service.client.post("/v1/translate", content=b"x" * (20 << 20), headers=headers), 413, "1,048,576 bytes")
    assert service.metric("process_resident_memory_bytes") < before + (15 << 20)


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_not_http(service, content):
    assert raw(service, content).startswith(b"HTTP/1.1 4")


def test_an_upgrade_is_not_followed(service):
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    assert raw(service, request).startswith(b"HTTP/1.1 200")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted({name for endpoint in find_endpoints(DEFAULT_LIMITS) for name in endpoint.body.model_fields})
NEARLY = st.one_of(
    st.sampled_from([0, 1, 2, 3, -1, 10**30, 1e308, -0.0, 0.5, True, "", "deu", "reviews", "stories", "cross", None, "\x00"]),
    st.lists(st.text(max_size=8) | st.sampled_from(["the cat", "\ud83d", "cross", "\x00"]), max_size=3),
)
BODIES = st.one_of(
    st.binary(max_size=200),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(st.sampled_from(FIELDS), NEARLY | JSON, max_size=8).map(lambda value: json.dumps(value).encode()),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), content=BODIES)
def test_no_body_gives_an_internal_error(service, path, content):
    answer = service.client.post(path, content=content, headers={"Content-Type": "application/json"})
    if answer.status_code == 200:
        assert '"status": 500' not in answer.text
    else:
        assert answer.status_code in REFUSED, (answer.text, content)
        assert answer.json()["error"]["status"] == answer.status_code


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), content=BODIES)
def test_ten_thousand_bodies_give_no_internal_error(service, path, content):
    answer = service.client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in REFUSED | {200}, (answer.text, content)
    assert '"status": 500' not in answer.text


@pytest.fixture(scope="module")
def small(runs):
    limits = ("queue=3", "texts=3", "batch=1", "deadline_seconds=60", "body_seconds=1", "window_ms=0", "connections=20")
    with serving(runs / "deu", *(f"--limits.{limit}" for limit in limits)) as found:
        yield found


@pytest.mark.slow
def test_a_full_queue_says_when_to_try_again(small):
    def ask(number):
        return small.post("/v1/translate", texts=["she kissed him ."] * number, **SLOW)

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(ask, 3)
        end = time.monotonic() + 60
        while not 0 < small.metric("regard_waiting_texts") < 3:  # the model has taken one of the three texts
            assert time.monotonic() < end
        answers = [*pool.map(ask, [1] * 7), first.result()]
    counts = [answer.status_code for answer in answers]
    assert set(counts) == {200, 429}
    assert counts.count(200) >= 2  # the first, and one for the place that the text at work has left
    for answer in answers:
        if answer.status_code == 429:
            assert refused(answer, 429, "out of at most 3")["code"] == "queue_full"
            assert 1 <= int(answer.headers["Retry-After"]) <= 60


def test_a_deadline_passes(small):
    start = time.monotonic()
    answer = small.post("/v1/translate", texts=["she kissed him ."] * 3, timeout=0.05, **SLOW)
    refused(answer, 504, "0.05 seconds")
    assert time.monotonic() - start < 20
    end = time.monotonic() + 60
    while small.metric("regard_waiting_texts"):  # what nobody waits for has left the queue
        assert time.monotonic() < end
    assert small.post("/v1/translate", texts=["she kissed him ."]).status_code == 200


def test_a_client_that_leaves_frees_the_queue(small):
    host, port = small.url.removeprefix("http://").split(":")
    body = json.dumps({"texts": ["she kissed him ."] * 3, **SLOW}).encode()
    head = "POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    before = len(small.events("request"))
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
        time.sleep(0.2)
    end = time.monotonic() + 60
    # The line of an earlier request may be written late.
    while 499 not in [event["status"] for event in small.events("request")[before:]]:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert small.metric("regard_waiting_texts") == 0


def test_a_body_that_arrives_too_slowly(small):
    head = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    answer = raw(small, head)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"within 1 seconds" in answer


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"", b""),
        (b"GET /healthz HTTP/1.1\r\nX: ", b""),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", b"HTTP/1.1 200"),
    ],
)
def test_a_connection_without_a_whole_request_is_closed(small, content, answer):
    found = b""
    try:
        found = raw(small, content)
    except ConnectionResetError:
        assert not answer
    assert found.startswith(answer)


BODY = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"


@pytest.mark.parametrize("content", [b"GET /healthz HTTP/1.1\r\nX: ", BODY])
def test_connections_that_wait_make_room_for_others(small, content):
    host, port = small.url.removeprefix("http://").split(":")
    answered = 0
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection((host, int(port)), timeout=20)) for _ in range(60)]
        for connection in held:
            connection.sendall(content)
        # A connection of its own: one that `small.client` has kept waits too, and may be closed to make room.
        assert httpx.get(f"{small.url}/healthz", headers=small.client.headers, timeout=60).status_code == 200
        for connection in held:
            with suppress(ConnectionResetError):
                answered += bool(connection.recv(100))
    assert answered <= 20


@pytest.mark.slow
def test_connections_cannot_use_up_all_files(runs):
    with serving(runs / "deu") as found:
        resource.prlimit(found.process.pid, resource.RLIMIT_NOFILE, (128, 128))
        host, port = found.url.removeprefix("http://").split(":")
        held = []
        for _ in range(300):
            connection = socket.socket()
            connection.setblocking(False)  # the kernel may have no room for more
            connection.connect_ex((host, int(port)))
            held.append(connection)
        with httpx.Client(base_url=found.url, timeout=30) as client:
            assert client.get("/healthz").status_code == 200
        for connection in held:
            connection.close()
        assert len(found.events("library")) < 5


def test_a_request_that_needs_too_much_work_is_refused_at_once(service):
    answer = service.post("/v1/translate", texts=["a " * 2500] * 32, beam_size=16, n_best=16, min_length=499, max_length=500)
    assert refused(answer, 413, "expected at most 500,000,000 (limits.work)", "beam_size")["code"] == "too_much_work"


@pytest.mark.slow
def test_the_attention_of_a_long_text_is_refused(runs):
    with serving(runs / "deu", "--limits.attention_weights=10") as found:
        refused(found.post("/v1/attention", texts=["she kissed him . " * 5]), 413, "weights, expected at most 10")


def test_a_token_is_needed(runs, tmp_path):
    (tmp_path / "token").write_text("secret-token\n")
    with serving(runs / "deu", f"--token-file={tmp_path / 'token'}") as found:
        for path in ("/v1/models", "/", "/metrics", "/docs", "/openapi.json"):
            refused(found.client.get(path), 401, "Authorization: Bearer")
        refused(found.post("/v1/translate", texts=["a"]), 401)
        refused(found.client.get("/v1/models", headers={"Authorization": "Bearer secret-tokem"}), 401)
        refused(found.client.get("/v1/models", headers={"Authorization": "Basic !!!"}), 401)
        assert found.client.get("/healthz").status_code == 200
        assert found.client.get("/v1/models", headers={"Authorization": "Bearer secret-token"}).status_code == 200
        assert found.client.get("/", auth=("anyone", "secret-token")).status_code == 200
    assert "secret-token" not in "".join(found.log)


@pytest.mark.slow
def test_the_token_of_the_environment(runs):
    with serving(runs / "deu", environment={"REGARD_TOKEN": "from-outside"}) as found:
        refused(found.client.get("/v1/models"), 401)
        assert found.client.get("/v1/models", headers={"Authorization": "Bearer from-outside"}).status_code == 200


@pytest.mark.slow
def test_the_log_has_no_text(runs):
    secret = "unspeakable"
    with serving(runs / "deu") as found:
        found.post("/v1/translate", texts=[secret], prefix=secret)
        found.post("/v1/translate", texts=[secret], beam_size=1, n_best=2)
        found.post("/v1/translate", texts=[secret], **{secret: 1})
        found.post(f"/v1/{secret}", texts=[secret])
        found.client.request(secret, f"/{secret}?{secret}")
        raw(found, secret.encode() + b"\r\n\r\n")
        found.wait_for("request", 5)
    assert secret not in "".join(found.log)
    first = found.events("request")[0]
    assert first["model"] == "deu"
    assert first["texts"] == 1
    assert first["characters"] == len(secret)
    assert first["status"] == 200
    assert first["milliseconds"] > 0


def test_many_connections_at_once(service):
    """Half are abandoned in the middle of their request; the others are answered."""
    host, port = service.url.removeprefix("http://").split(":")
    abandoned = [socket.create_connection((host, int(port))) for _ in range(50)]
    for connection in abandoned:
        connection.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n")
    results = []
    threads = [threading.Thread(target=lambda: results.append(service.post("/v1/classify", texts=["dull"]))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in abandoned:
        connection.close()
    assert [answer.status_code for answer in results] == [200] * 20
