"""The service gives what the models give in Python."""

import json

import pytest

import regard

TEXTS = ["she kissed him .", "a cat sleeps on the mat .", "", "she sleeps ."]


def near(value):
    return pytest.approx(value, abs=1e-4)


def test_translations(service, runs):
    own = regard.load(runs / "deu", device="cpu").translate(TEXTS, beam_size=3, n_best=2)
    answer = service.post("/v1/translate", texts=TEXTS, beam_size=3, n_best=2, alignment=True)
    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert content["model"] == "deu"
    for got, expected in zip(content["translations"], own, strict=True):
        assert got["text"] == expected.text
        assert got["score"] == near(expected.score)
        assert [one["text"] for one in got["alternatives"]] == [one.text for one in expected.alternatives]
        assert got["alignment"] == expected.attention.pharaoh()
    assert answer.headers["x-request-id"]


def test_unknown_words_are_named_for_each_text(service, runs):
    texts = ["she zzz him .", "she kissed him ."]
    for path, field in (("translate", "texts"), ("classify", "texts"), ("generate", "prompts"), ("attention", "texts")):
        name = {"classify": "reviews", "generate": "stories"}.get(path, "deu")
        own = regard.load(runs / name, device="cpu")
        answer = service.post(f"/v1/{path}", model=name, **{field: texts, **({"stream": False} if path == "generate" else {})})
        assert answer.json()["unknown_words"] == [own.unknown_words([text]) for text in texts], path
    [done] = [line for line in service.post("/v1/generate", prompts=["zzz"]).text.splitlines() if '"done"' in line]
    assert json.loads(done.removeprefix("data: "))["unknown_words"] == [["zzz"]]


def test_a_beam_of_the_model_is_limited_by_the_service(service, runs):
    own = regard.load(runs / "deu", device="cpu").translate(TEXTS[:1])
    assert service.post("/v1/translate", texts=TEXTS[:1]).json()["translations"][0]["text"] == own[0].text


def test_classifications(service, runs):
    texts = ["a gripping , honest film .", "", "dull"]
    own = regard.load(runs / "reviews", device="cpu").classify(texts)
    got = service.post("/v1/classify", texts=texts).json()["classifications"]
    assert [one["label"] for one in got] == [one.label for one in own]
    assert got[0]["probabilities"] == near(own[0].probabilities)
    [short] = service.post("/v1/classify", texts=texts[:1], top_k=1).json()["classifications"]
    assert list(short["probabilities"]) == [own[0].label]


def test_generations_with_a_seed_are_those_of_python(service, runs):
    prompts = ["the cat", "", "a dog"]
    own = regard.load(runs / "stories", device="cpu").generate(prompts, samples=2, seed=5)
    got = service.post("/v1/generate", prompts=prompts, samples=2, seed=5, stream=False).json()["generations"]
    assert [[one["text"] for one in samples] for samples in got] == [[one.text for one in samples] for samples in own]
    assert got[0][0]["log_probability"] == near(own[0][0].log_probability)


def test_generations_without_a_seed_differ(service):
    answers = [service.post("/v1/generate", prompts=["the"], samples=8, temperature=5.0, stream=False) for _ in range(2)]
    first, second = ([one["text"] for one in answer.json()["generations"][0]] for answer in answers)
    assert first != second


def test_a_stream_has_the_parts_of_the_text(service, runs):
    prompts = ["the cat", "a dog"]
    own = regard.load(runs / "stories", device="cpu").generate(prompts, samples=2, seed=3)
    with service.client.stream("POST", "/v1/generate", json={"prompts": prompts, "samples": 2, "seed": 3}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert events[-1]["done"]
    texts = [[one["text"] for one in samples] for samples in events[-1]["generations"]]
    assert texts == [[one.text for one in samples] for samples in own]
    assert len(events) > 5
    for place, prompt in enumerate(prompts):
        for sample in range(2):
            parts = [event["text"] for event in events[:-1] if (event["prompt"], event["sample"]) == (place, sample)]
            assert texts[place][sample].startswith(prompt + "".join(parts))


def test_attention_is_a_record(service, runs):
    translator = regard.load(runs / "deu", device="cpu")
    answer = service.post("/v1/attention", model="deu", texts=TEXTS[:2], targets=["sie küsste ihn .", "eine Katze ."])
    own = translator.force(TEXTS[:2], ["sie küsste ihn .", "eine Katze ."])
    for got, expected in zip(answer.json()["records"], own, strict=True):
        record = regard.AttentionRecord.from_json(json.dumps(got))
        assert record.target_words == expected.attention.target_words
        assert record.matrix() == near(expected.attention.matrix())
    free = service.post("/v1/attention", model="deu", texts=TEXTS[:1]).json()["records"][0]
    assert free["target_text"] == translator.translate(TEXTS[:1])[0].text


@pytest.mark.parametrize(("model", "site"), [("reviews", "pool"), ("stories", "decoder.0")])
def test_attention_of_other_tasks(service, model, site):
    [record] = service.post("/v1/attention", model=model, texts=["the cat sees"]).json()["records"]
    assert list(record["weights"]) == [site]


def test_models_are_listed(service):
    models = {model["name"]: model for model in service.client.get("/v1/models").json()["models"]}
    assert models["deu"]["source"] == "en"
    assert models["reviews"]["labels"] == ["bad", "good", "so-so"]
    assert models["stories"]["task"] == "language"


def test_pages_need_no_network(service):
    home = service.client.get("/")
    assert home.status_code == 200
    for name in ("deu", "reviews", "stories"):
        assert name in home.text
    docs = service.client.get("/docs").text
    for expected in ("/v1/translate", "/v1/generate", "no_repeat_ngrams", "at most 64", "5,000 characters"):
        assert expected in docs
    assert "<script" not in docs
    for page in (home.text, docs):
        assert "src=" not in page
        assert "https://" not in page


def test_the_reference_describes_every_field_and_names_its_own_address(service):
    docs = service.client.get("/docs", headers={"host": "127.0.0.1:9123"}).text
    assert "http://127.0.0.1:9123/v1/translate</pre>" in docs
    assert "<td>translations[].alternatives</td><td>list of object</td><td>The other translations of `n_best`" in docs
    assert "<td>generations[][].num_tokens</td><td>integer</td><td>Number of tokens that were added.</td>" in docs
    assert "<td></td></tr>" not in docs


def test_openapi_describes_the_limits(service):
    schema = service.client.get("/openapi.json").json()
    assert set(schema["paths"]) == {
        "/v1/translate",
        "/v1/classify",
        "/v1/generate",
        "/v1/caption",
        "/v1/tag",
        "/v1/attention",
        "/v1/models",
    }
    body = schema["components"]["schemas"]["Translate"]["properties"]
    assert body["texts"]["maxItems"] == 64
    assert set(schema["paths"]["/v1/translate"]["post"]["responses"]) == {"200", "default"}
    for name, fields in {"_Refusal": {"error"}, "_Error": {"status", "code", "message"}}.items():
        described = schema["components"]["schemas"][name]["properties"]
        assert {field for field, facts in described.items() if facts.get("description")} == fields


def test_metrics_and_health(service):
    before = service.metric("regard_texts_total")
    service.post("/v1/translate", texts=TEXTS)
    assert service.metric("regard_texts_total") == before + len(TEXTS)
    assert service.metric("process_resident_memory_bytes") > 1e6
    assert service.client.get("/healthz").json() == {"status": "ok"}
    assert service.client.get("/readyz").status_code == 200
