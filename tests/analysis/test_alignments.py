"""Alignments by any site, head and step, of a Transformer as it is before training."""

import pytest
import torch

from regard import evaluate_alignment
from regard.cli.main import main
from regard.config import RecurrentConfig, TransformerConfig
from regard.config.loading import load_config
from regard.errors import RequestError
from regard.models.build import build_translator
from regard.records import alignment_error_rate, format_pharaoh
from regard.task import Bundle
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.predict import Translator
from regard.text.tokenizers.tokenizer import build_tokenizers

SOURCES, TARGETS = ["a b c d", "b a", "d c b a d"], ["x y z x", "z y x", "y z"]
GOLD = [{(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 1), (1, 0)}, {(2, 0), (4, 1)}]


def make(config) -> Translator:
    run = load_config({"data": {"source": "en", "target": "de"}, "tokenizers": {"source": {"kind": "whitespace"}}}, {})
    source, target = build_tokenizers([(SOURCES, TARGETS)], run.tokenizers, run.data)
    torch.manual_seed(1)
    model = build_translator(config, source_size=source.size, target_size=target.size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    facts = {"custom": "model", "signature": {"seed": 1}}
    return Translator(Bundle(config=run, model=model, parts=Tokenizers(source, target), **facts))


@pytest.fixture
def translator() -> Translator:
    config = TransformerConfig(hidden_size=12, num_heads=2, feed_forward_size=9, encoder_layers=2, decoder_layers=3)
    return make(config)


def links(translator: Translator, site: str, head: int | None, step: str) -> list[set]:
    """Of the raw weights, row for word by the words before the end symbol, without regard's own shift."""
    found = []
    for result in translator.force(SOURCES, TARGETS, record=(site,)):
        raw = result.attention.weights[site]
        raw = raw if raw.ndim == 2 else raw.mean(0) if head is None else raw[head]
        rows = raw[1:, :-1] if step == "consume" else raw[:-1, :-1]
        found.append({(int(row.argmax()), place) for place, row in enumerate(rows)})
    return found


@pytest.mark.parametrize("step", ["produce", "consume"])
@pytest.mark.parametrize(("site", "head"), [("cross", None), ("cross.2", None), ("cross.0", 1), ("norm.2", None)])
def test_by_site_head_and_step(translator, site, head, step):
    expected = alignment_error_rate(links(translator, site, head, step), GOLD)
    assert evaluate_alignment(translator, SOURCES, TARGETS, GOLD, site=site, head=head, step=step) == expected


def test_attention_is_read_where_it_produces_the_word_if_nothing_else_is_asked_for(translator):
    found = evaluate_alignment(translator, SOURCES, TARGETS, GOLD)
    assert found == alignment_error_rate(links(translator, "cross", None, "produce"), GOLD)
    recurrent = make(RecurrentConfig(embedding_size=8))
    found = evaluate_alignment(recurrent, SOURCES, TARGETS, GOLD)
    assert found == alignment_error_rate(links(recurrent, "cross", None, "produce"), GOLD)


def test_the_steps_differ(translator):
    assert links(translator, "cross", None, "produce") != links(translator, "cross", None, "consume")


def test_unknown_sites_and_heads(translator):
    with pytest.raises(RequestError, match=r"record names the attention 'cross.7'; this model has: cross, cross.0"):
        evaluate_alignment(translator, SOURCES, TARGETS, GOLD, site="cross.7")
    with pytest.raises(RequestError, match=r"head 2 was requested at site 'cross.1', which has 2 heads"):
        evaluate_alignment(translator, SOURCES, TARGETS, GOLD, site="cross.1", head=2)


def test_the_command(translator, tmp_path, capsys, monkeypatch):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in zip(SOURCES, TARGETS, strict=True)))
    monkeypatch.setattr("regard.cli.files.load_model", lambda options: translator)
    for arguments, key in (
        (["--step", "consume"], ("cross", None, "consume")),
        ([], ("cross", None, "produce")),
        (["--site", "norm.1"], ("norm.1", None, "produce")),
        (["--site", "cross.0", "--head", "1", "--step", "produce"], ("cross.0", 1, "produce")),
    ):
        assert main(["align", "run", str(file), *arguments]) == 0
        assert capsys.readouterr().out.splitlines() == [format_pharaoh(pair) for pair in links(translator, *key)]
    assert main(["align", "run", str(file), "--step", "shift"]) == 2
    assert "argument --step: invalid choice: 'shift'" in capsys.readouterr().err
