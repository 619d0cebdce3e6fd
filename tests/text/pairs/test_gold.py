"""Gold alignments beside training pairs: which symbols a batch says are linked."""

import pickle
from dataclasses import replace

import pytest
import torch

from regard.config import BPEConfig, DataConfig, TokenizersConfig, WhitespaceConfig
from regard.errors import DataError
from regard.text.pairs.gold import AlignedBatch, add_gold_alignments
from regard.text.pairs.prepare import PairSchema
from regard.text.preparation import prepare_data

PAIRS = ["a b c\tx y", "c b\ty x z", "a a\tx", "b\tz z", "a b c\tx y"]
WORDS = TokenizersConfig(source=WhitespaceConfig(), target=WhitespaceConfig())


@pytest.fixture
def data(tmp_path):
    def write(lines: list[str], pairs: list[str] = PAIRS, header: str = "no") -> DataConfig:
        (tmp_path / "pairs.tsv").write_text("".join(f"{pair}\n" for pair in pairs))
        (tmp_path / "pairs.align").write_text("".join(f"{line}\n" for line in lines))
        files = {"train": (str(tmp_path / "pairs.tsv"),), "alignments": str(tmp_path / "pairs.align")}
        return DataConfig(**files, dev_size=0, cache=str(tmp_path / "cache"), header=header)

    return write


def gold_of(data: DataConfig, tokenizers: TokenizersConfig = WORDS) -> dict[tuple[str, str], torch.Tensor]:
    train = add_gold_alignments(prepare_data(PairSchema(data, tokenizers), seed=1, progress=False), data).train
    batch = train.batch(range(len(train)))
    assert isinstance(batch, AlignedBatch)
    texts = zip(*train.texts(range(len(train))), strict=True)
    return dict(zip(texts, batch.gold, strict=True))


def test_by_line_of_the_pairs(data):
    gold = gold_of(data(["0-0 2-1 1-1", "", "0-0 1-0 0?0"]))
    expected = torch.zeros(4, 4, 4)  # the longest source and target, with their ends
    expected[0, 0, 0] = 1
    expected[0, 1, 1:3] = 0.5
    expected[2, 0, :2] = 0.5
    for number, pair in enumerate(PAIRS[:4]):
        torch.testing.assert_close(gold[tuple(pair.split("\t"))], expected[number])


def test_a_header_is_a_line(data):
    with_header = ["source\ttarget", *PAIRS]
    for further in ([], [""], ["", ""]):
        gold = gold_of(data(["", "0-0 2-1 1-1", "", "0-0", *further], with_header, "yes"))
        assert gold["a b c", "x y"].nonzero().tolist() == [[0, 0], [1, 1], [1, 2]]
    for lines in (["0-0 2-1 1-1", "0-0", "0-0", "0-0", "0-0"], ["0-0", "0-0"]):
        with pytest.raises(
            DataError, match="line 1 has links, but line 1 of the pairs is a header; write an empty line for it"
        ):
            gold_of(data(lines, with_header, "yes"))


def test_a_row_may_span_lines(data, tmp_path):
    settings = data(["", "0-0", "", "1-1", "0-1"])
    table = tmp_path / "pairs.csv"
    table.write_text('source,target\n"a\nb",x y\na b,y z\nc,z z\n')
    gold = gold_of(replace(settings, train=(str(table),), header="yes"))
    assert gold["a b", "y z"].nonzero().tolist() == [[1, 1]]
    assert gold["c", "z z"].nonzero().tolist() == [[1, 0]]


def test_symbols_of_a_word_share_it(data):
    """Letters that were seen together once are not merged: `abcd` and `wxyz` are several pieces."""
    pairs = ["e e\tf f", "abcd e\twxyz"]
    pieces = TokenizersConfig(source=BPEConfig(size=40), target=BPEConfig(size=40))
    settings = data(["", "0-0"], pairs)
    prepared = prepare_data(PairSchema(settings, pieces), seed=1, progress=False)
    source, target = (t.encode(x) for t, x in ((prepared.tokenizers[0], "abcd e"), (prepared.tokenizers[1], "wxyz")))
    first = [symbol for symbol, word in enumerate(source.word_of) if word == 0]
    assert len(first) > 1
    assert len(target.ids) > 1
    gold = gold_of(settings, pieces)[("abcd e", "wxyz")]
    for symbol in range(len(target.ids)):
        assert gold[symbol].nonzero().flatten().tolist() == first
        assert gold[symbol].sum() == pytest.approx(1)


def test_a_corpus_goes_to_workers_and_the_cache_stays_the_same(data):
    settings = data(["0-0"])
    prepared = prepare_data(PairSchema(settings, WORDS), seed=1, progress=False)
    guided = add_gold_alignments(prepared, settings)
    assert prepare_data(PairSchema(data(["1-1"]), WORDS), seed=1, progress=False).train.path == prepared.train.path
    assert guided.fingerprint not in (prepared.fingerprint, add_gold_alignments(prepared, data(["1-1"])).fingerprint)
    again = pickle.loads(pickle.dumps(guided.train))
    torch.testing.assert_close(again.batch([0, 1]).gold, guided.train.batch([0, 1]).gold)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0-0", "0:0"], r"pairs.align, line 2: '0:0' is not a link, expected source-target counted from 0, such as 0-0 1-2"),
        (["0-2"], r"line 1: the link 0-2 is beyond the 3 and 2 words that the tokenizers find in this pair \('a b c'\)"),
        ([""] * 5 + ["0-0"], "line 6 has an alignment, but the pairs end at line 5; expected one line for each"),
        ([" "], "links no words of the training pairs; check that the file belongs to them"),
    ],
)
def test_refusals(data, lines, message):
    with pytest.raises(DataError, match=message):
        gold_of(data(lines))
