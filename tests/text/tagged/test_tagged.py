"""Tagged sentences: their files, what is skipped and refused, and the encoded corpora."""

import json

import numpy as np
import pytest

from regard.config import BPEConfig, TaggedDataConfig, WhitespaceConfig
from regard.errors import DataError
from regard.text.preparation import prepare_data
from regard.text.report import ReadingReport
from regard.text.tagged.prepare import TaggedSchema, encode_words
from regard.text.tagged.readers import read_tagged
from regard.text.tokenizers.tokenizer import build_tokenizer


def read(path, content, **settings):
    """Return the sentences of a file as (words, tags, line), and the report."""
    path.write_text(content, encoding="utf-8")
    report = ReadingReport()
    chunks = list(read_tagged([path], TaggedDataConfig(**settings), report))
    rows = [row for one in chunks for row in zip(one.target, one.source, one.line, strict=True)]
    return [(words.split(" "), tags.split(" "), line) for words, tags, line in rows], report


def refused(path, content, **settings):
    with pytest.raises(DataError) as error:
        read(path, content, **settings)
    return str(error.value)


def test_conll_files_with_any_columns(tmp_path):
    expected = [(["EU", "says"], ["B-ORG", "O"], 3), (["Rome"], ["B-LOC"], 7)]
    four = "-DOCSTART- -X- O O\n\nEU NNP B B-ORG\nsays VBZ I O\n\n\nRome NNP B B-LOC"
    found, report = read(tmp_path / "train.conll", four)
    assert found == expected
    assert (report.read, report.kept, report.form, report.columns) == (2, 2, "CoNLL", ["0", "3"])
    assert report.render().endswith('2 sentences read, 2 sentences kept\n  first sentence: "EU/B-ORG says/O"')
    assert read(tmp_path / "tabs.txt", four.replace(" ", "\t").replace("\n", "\r\n"))[0] == expected
    assert read(tmp_path / "pos.conll", four, columns=("0", "1"))[0][0] == (["EU", "says"], ["NNP", "VBZ"], 3)
    assert read(tmp_path / "hash.conll", "# O\n#EU B-ORG\n")[0] == [(["#", "#EU"], ["O", "B-ORG"], 1)]


def test_conllu_has_comments_ranges_and_empty_words(tmp_path):
    rows = ["1 I i PRON", "2-3 can't _ _", "2 ca can AUX", "3 n't not PART", "3.1 go go VERB"]
    lines = ["# sent_id = 1", "# text = I can't", *("\t".join([*row.split(), *"______"]) for row in rows)]
    found, _ = read(tmp_path / "ud.conllu", "\n".join(lines), columns=("1", "3"))
    assert found == [(["I", "ca", "n't"], ["PRON", "AUX", "PART"], 3)]


def test_comments_are_told_from_words_in_files_with_spaces(tmp_path):
    rows = "Eli B-PER\nleft O\n\n"
    found, _ = read(tmp_path / "a.conll", f"# id 7\n{rows}# sent_id = 8\n# O\nRome B-LOC")
    assert found == [(["Eli", "left"], ["B-PER", "O"], 2), (["#", "Rome"], ["O", "B-LOC"], 6)]
    meta = f"# id 7\tdomain=en\n{rows.replace(' ', ' _ _ ')}"  # MultiCoNER
    assert read(tmp_path / "b.conll", meta)[0] == [(["Eli", "left"], ["B-PER", "O"], 2)]
    [(words, tags, _)], _ = read(tmp_path / "c.conll", f"# B-PER\n# SYM\n{rows}")
    assert (words, tags) == (["#", "#", "Eli", "left"], ["B-PER", "SYM", "B-PER", "O"])
    for wrong in ("# 7", "# text = Rome B-PER", "# x O"):
        assert f"d.conll, line 1: '{wrong}' may be a comment" in refused(tmp_path / "d.conll", f"{wrong}\n{rows}")
    assert "line 3: '# id 7' may be a comment or the word #" in refused(tmp_path / "e.conll", f"{rows.strip()}\n# id 7\n{rows}")
    assert read(tmp_path / "f.conll", f"#\t7\n{rows}".replace(" ", "\t"))[0][0][1] == ["7", "B-PER", "O"]
    assert read(tmp_path / "g.conll", "# O\nRome B-LOC")[0] == [(["#", "Rome"], ["O", "B-LOC"], 1)]


def test_a_no_break_space_is_part_of_a_word(tmp_path):
    assert read(tmp_path / "a.conll", "10\u00a0000  B-NUM\r\nleft O \n")[0] == [(["10_000", "left"], ["B-NUM", "O"], 1)]


def test_ten_columns_need_a_choice(tmp_path):
    row = "1\tEli\tEli\tPROPN\t_\t_\t0\tx\t_\t_"
    message = refused(tmp_path / "a.conllu", f"# text = Eli\n{row}\n")
    assert "a.conllu, line 2: has 10 columns, as CoNLL-U does; set data.columns to 1,3" in message
    assert read(tmp_path / "a.conllu", row, columns=("0", "-1"))[0] == [(["1"], ["_"], 1)]


def test_json_and_parquet_have_lists(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    expected = [(["EU", "says_so"], ["B-ORG", "O"], 1)]
    row = {"id": "7", "tokens": ["EU", "says  so"], "ner_tags": ["B-ORG", "O"], "pos": ["A", "B"]}
    assert read(tmp_path / "a.jsonl", json.dumps(row))[0] == expected
    assert read(tmp_path / "a.json", json.dumps([row]))[0] == expected
    assert read(tmp_path / "b.jsonl", json.dumps(row), columns=("tokens", "pos"))[0][0][1] == ["A", "B"]
    assert read(tmp_path / "n.jsonl", '{"tokens": ["a", null], "tags": ["O", 1.0]}')[0] == [(["a", "_"], ["O", "1"], 1)]
    assert "empty label" in refused(tmp_path / "n.jsonl", '{"tokens": ["a", "b"], "tags": ["O", null]}')
    assert read(tmp_path / "c.jsonl", '{"words": ["EU"], "labels": [3]}')[0] == [(["EU"], ["3"], 1)]
    pq.write_table(pa.table({name: [row[name]] for name in ("tokens", "ner_tags")}), tmp_path / "a.parquet")
    [chunk] = read_tagged([tmp_path / "a.parquet"], TaggedDataConfig(), ReadingReport())
    assert chunk.columns == (["B-ORG O"], ["EU says_so"])


def test_unusable_sentences_are_counted_with_their_lines(tmp_path):
    lines = ['{"tokens": ["a", "b"], "tags": ["O"]}', '{"tokens": [], "tags": []}', '{"tokens": ["a"], "tags": []}']
    found, report = read(
        tmp_path / "a.jsonl",
        "\n".join([*lines, '{"tokens": ["a"], "tags": [""]}', '{"tokens": ["a"], "tags": ["O"]}']),
        allow_skipped=1,
    )
    assert found == [(["a"], ["O"], 5)]
    assert {reason: entry.lines for reason, entry in report.skipped.items()} == {
        "different numbers of words and tags": [1, 3],
        "empty line": [2],
        "empty label": [4],
    }
    found, report = read(tmp_path / "b.conll", "EU B-ORG\nsays\n\nRome B-LOC\n", allow_skipped=0.5)
    assert found == [(["Rome"], ["B-LOC"], 4)]
    assert report.skipped["too few columns"].lines == [2]
    wrong = "\n".join(lines[:1] * 4 + ['{"tokens": ["a"], "tags": ["O"]}'] * 6)
    message = refused(tmp_path / "c.jsonl", wrong)
    assert "4 of 10 lines (40%) are unusable, but data.allow_skipped allows 10%" in message
    assert "different numbers of words and tags (lines 1, 2, 3, 4)" in message


def test_files_that_cannot_be_read_are_refused(tmp_path):
    assert "a.txt, line 1: has 1 of 2 columns ('EU'), expected a word and its tag" in refused(tmp_path / "a.txt", "EU\nsays\n")
    assert "has 2 of 6 columns" in refused(tmp_path / "a.conll", "EU O\n", columns=("0", "5"))
    assert "columns of CoNLL files have numbers" in refused(tmp_path / "a.conll", "EU O\n", columns=("word", "tag"))
    assert "is a comma-separated table, expected CoNLL" in refused(tmp_path / "a.csv", "word,tag\nEU,O\n")
    message = refused(tmp_path / "a.jsonl", '{"a": ["x"], "b": ["y"], "c": ["z"]}')
    assert "cannot tell which columns hold a list of words and a list of their tags" in message
    assert "there is no column 'ner'" in refused(
        tmp_path / "a.jsonl", '{"tokens": ["x"], "tags": ["y"]}', columns=("tokens", "ner")
    )
    whole = refused(tmp_path / "a.conll", "word O\n" * 30_000)
    assert "over-long line" in whole
    assert "there must be an empty line after each sentence" in whole
    assert "not valid UTF-8" in refused_bytes(tmp_path / "b.conll", b"caf\xe9 O\n\n" * 20)
    assert "NUL" in refused_bytes(tmp_path / "c.conll", b"a\0b O\n\n" * 20)


def refused_bytes(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        list(read_tagged([path], TaggedDataConfig(), ReadingReport()))
    return str(error.value)


def prepare(tmp_path, sentences, *, dev=(), learned=None, tokenizer=None, **settings):
    files = {}
    for name, rows in (("train", sentences), ("dev", dev)):
        path = tmp_path / f"{name}.conll"
        path.write_text("\n\n".join("\n".join(" ".join(pair) for pair in row) for row in rows))
        files[name] = (str(path),) if rows else ()
    data = TaggedDataConfig(**files, cache=str(tmp_path / "cache"), **settings)
    return prepare_data(TaggedSchema(data, tokenizer or WhitespaceConfig(), learned), seed=1, progress=False)


SENTENCES = [[(f"Ada{number}", "B-PER"), ("saw", "O"), ("Rome", "B-LOC"), (".", "O")] for number in range(20)]


def test_batches_have_places_and_tags(tmp_path):
    data = prepare(tmp_path, [*SENTENCES, [("Rome", "B-LOC")]], dev_size=0, tokenizer=BPEConfig(size=30))
    assert data.labels.names == ("B-LOC", "B-PER", "O")
    corpus, tokenizer = data.train, data.tokenizers[0]
    assert corpus.texts([0, 20]) == ["Ada0 saw Rome .", "Rome"]
    batch = corpus.batch([0, 20])
    assert batch.tags.tolist() == [[1, 2, 0, 2], [0, -1, -1, -1]]
    for row, words in ((0, ["Ada0", "saw", "Rome", "."]), (1, ["Rome"])):
        pieces = [tokenizer.encode(word).ids for word in words]
        assert batch.tokens[row][batch.mask[row]].tolist() == [number for piece in pieces for number in piece]
        assert batch.places[row, : len(words)].tolist() == np.cumsum([0, *map(len, pieces)])[:-1].tolist()
    assert corpus.num_words.tolist() == [4] * 20 + [1]


def test_held_out_sentences_share_no_text_and_no_tag_is_lost(tmp_path):
    rare = [("Mars", "B-RARE"), ("!", "O")]
    data = prepare(tmp_path, [*SENTENCES, rare, rare], dev_size=2)
    assert (len(data.train), len(data.dev)) == (19, 2)
    assert data.report.train.skipped["exact repeat of an earlier sentence with the same tags"].count == 1
    assert data.labels.counts[data.labels.names.index("B-RARE")] == 1
    assert not set(data.train.texts(range(19))) & set(data.dev.texts(range(2)))


def test_long_sentences_and_words_are_split_and_keep_all_their_tags(tmp_path):
    tokenizer = build_tokenizer([["abc" * 9]], WhitespaceConfig())
    words = encode_words(tokenizer, [["a"] * 5, [], ["b"], ["c"] * 2], 2)
    assert words.bounds.tolist() == [0, 2, 4, 5, 6, 8]
    assert words.sentence.tolist() == [0, 0, 0, 2, 3]
    assert words.places[0].tolist() == [0, 1, 0, 1, 0, 0, 0, 1]
    data = prepare(tmp_path, SENTENCES, dev_size=0, max_tokens=3)
    assert len(data.train) == 40
    assert data.train.batch([0, 1]).tags.tolist() == [[1, 2, 0], [2, -1, -1]]
    assert "sentences split into parts of at most 3 tokens (data.max_tokens): 20" in data.report.render()
    long = prepare(tmp_path, [[("x" * 10_000, "O"), ("y", "B-A")]] * 2, dev_size=0, max_tokens=8, tokenizer=BPEConfig(size=6))
    assert (long.train.lengths.max(), long.train.num_words.sum()) == (8, 2)


def test_tags_that_training_does_not_have_are_refused(tmp_path):
    new = [[("Ada", "B-PER")], [("Mars", "B-PLANET")]]
    with pytest.raises(
        DataError, match=r"dev\.conll, line 3: label 'B-PLANET' is unknown; the model knows 'B-LOC', 'B-PER', 'O'"
    ):
        prepare(tmp_path, SENTENCES, dev=new)
    known = prepare(tmp_path, SENTENCES, dev_size=0)
    learned = (known.tokenizers[0], known.labels.names)
    again = prepare(tmp_path, [[("Rome", "B-LOC"), ("falls", "O")]], dev_size=0, learned=learned)
    assert again.train.batch([0]).tags.tolist() == [[0, 2]]
    with pytest.raises(DataError, match=r"train\.conll, line 3: label 'B-PLANET' is unknown"):
        prepare(tmp_path, new, dev_size=0, learned=learned)
