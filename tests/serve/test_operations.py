"""The operations of the service, run without it."""

from export.page_models import make_translator

import regard
from regard.task import Text
from regard.tasks.translation.text_commands import Translate


def test_words_and_alignment_of_a_model_of_characters_are_of_the_same_units(tmp_path):
    predictor = regard.load(make_translator(tmp_path / "spelling", kind="characters"))
    operation = Translate.create(alignment=True, max_length=9)
    [found] = map(operation.plain, operation.run(predictor, [Text("a dog")]))
    assert found["source_words"] == tuple("a dog")
    links = [link.split("-") for link in found["alignment"].split()]
    assert {int(output) for _, output in links} <= set(range(len(found["target_words"])))


def test_a_service_lowers_the_settings_of_a_run():
    from types import SimpleNamespace

    decoding = SimpleNamespace(beam_size=9, max_length=0, min_length=0)
    predictor = SimpleNamespace(config=SimpleNamespace(decoding=decoding))
    limits = {"beam": 4, "tokens": 50}
    assert Translate.create().within(predictor, limits).settings == {"beam_size": 4, "max_length": 0, "min_length": 0}
    assert Translate.create(beam_size=2, max_length=7).within(predictor, limits).settings["beam_size"] == 2
    assert Translate.create(n_best=3).within(predictor, limits | {"beam": 16}).settings["beam_size"] == 9
