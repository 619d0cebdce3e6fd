"""The living page in Firefox, from a file and without a network: the same outputs as in Python."""

import json
from itertools import islice

import pytest
from export.page_models import TRANSFORMER, make_classifier, make_translator
from firefox import FIREFOX, Firefox

import regard
from regard.demo import DemoCorpus, ReviewCorpus
from regard.export.page import write_page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.skipif(FIREFOX is None, reason="no firefox is installed")]


@pytest.fixture(scope="module")
def firefox():
    running = Firefox()
    yield running
    running.close()


@pytest.mark.parametrize("name", ["recurrent", "transformer", "reviews"])
def test_a_page_opens_and_gives_what_python_gives(firefox, tmp_path, name):
    builds = {"recurrent": (make_translator,), "transformer": (make_translator, TRANSFORMER, "bpe")}
    build, *options = builds.get(name, (make_classifier, "characters"))
    run = build(tmp_path / name, *options)
    predictor = regard.load(run, device="cpu")
    page = write_page(run, tmp_path / "page.html", examples=["The dog."])
    firefox.open(page.path)
    firefox.wait("document.body.dataset.runs")
    assert firefox.run("document.querySelector('#state').textContent") == ""
    assert firefox.run("document.querySelector('.result').textContent")
    ask = "globalThis.regard.views[0].model.run({ text, beamSize: 4, numBest: 1 })"
    if name == "reviews":
        texts = [ReviewCorpus()[number].text for number in range(1000, 1100)]
        expected, answer = [one.label for one in predictor.classify(texts)], f"(await {ask}).label"
    else:
        texts = [source for source, _ in islice(DemoCorpus().pairs(1000), 100)]
        expected = [one.text for one in predictor.translate(texts, beam_size=4)]
        answer = f"(await {ask}).best.text"
    found = firefox.run(
        f"(async () => {{ const all = []; for (const text of {json.dumps(texts)}) all.push({answer}); return all; }})()"
    )
    assert found == expected
    outside = "performance.getEntriesByType('resource').filter((one) => !/^(blob|data|file):/.test(one.name)).length"
    assert firefox.run(outside) == 0
