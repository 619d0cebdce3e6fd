"""The operations of the service, run without it."""

from export.page_models import make_translator

import regard
from regard.serve.operations import Translate, Work


def test_words_and_alignment_of_a_model_of_characters_are_of_the_same_units(tmp_path):
    predictor = regard.load(make_translator(tmp_path / "spelling", kind="characters"))
    [found] = Translate(most_beam=4, most_tokens=9, alignment=True).run(predictor, [Work("a dog")])
    assert found["source_words"] == tuple("a dog")
    links = [link.split("-") for link in found["alignment"].split()]
    assert {int(output) for _, output in links} <= set(range(len(found["words"])))
