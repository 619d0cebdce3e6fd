"""What `regard translate` is asked."""

import pytest

from regard.cli import translate
from regard.errors import RequestError


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    options = translate._parser().read(["m", "--json"])
    options.live = True
    with pytest.raises(RequestError, match="standard input is closed; give sentences, or --input FILE"):
        list(translate._translations(None, (), options))


@pytest.mark.parametrize("arguments", [["m", "a b", "--beam", "3"], ["m", "--beam", "3", "a b"], ["--beam", "3", "m", "a b"]])
def test_sentences_may_stand_before_or_after_options(arguments):
    options = translate._parser().read(arguments)
    assert (options.dir, options.sentences, options.beam) == ("m", ["a b"], 3)
