"""A kind of data that exists only here: words with a tag each, prepared by the same pipeline."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from regard.config import AutoConfig, WhitespaceConfig
from regard.errors import DataError
from regard.text.clean import Chunk
from regard.text.corpora import EncodedCorpus
from regard.text.preparation import DataSchema, EncodedRows, Prepared, Selection, prepare_data
from regard.text.report import ReadingReport
from regard.text.spool import Spool
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer


@dataclass(frozen=True)
class TaggedSettings:
    train: tuple[str, ...]
    dev: tuple[str, ...] = ()
    dev_size: int = 5
    drop_repeats: bool = True
    cache: str = ""


class Tagged(DataSchema):
    content = "tagged sentences"
    example = "a file of tagged sentences"
    columns = ("sentence", "tags")
    corpus = EncodedCorpus
    repeated = "twice"

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        report.files = list(paths)
        for number, line in enumerate(Path(paths[0]).read_text().splitlines(), 1):
            report.read, report.kept = report.read + 1, report.kept + 1
            pairs = [word.split("/") for word in line.split()]
            yield Chunk(([" ".join(word for word, _ in pairs)], [" ".join(tag for _, tag in pairs)]), [number])

    def select(self, spool: Spool, report: ReadingReport, seed: int) -> Selection:
        sentences = replace(spool, hashes=spool.hashes[:1])  # many sentences have the same tags
        return replace(super().select(sentences, report, seed), spool=spool)

    def learn(self, texts: Iterable[Sequence[list[str]]], progress: bool) -> tuple[Tokenizer, ...]:
        columns = list(zip(*texts, strict=True))
        return tuple(build_tokenizer(column, config) for column, config in zip(columns, self.tokenizers, strict=True))

    def encode(self, part, positions, encoded, texts) -> EncodedRows:
        symbols = [ids for ids, _ in encoded]
        return EncodedRows(encoded, texts, symbols, [len(ids) for ids in symbols], 0)

    def notes(self, too_long: int) -> list[str]:
        return ["tagged by hand"]


@pytest.fixture
def settings(tmp_path) -> TaggedSettings:
    lines = [f"the/D {noun}/N sleeps{number}/V" for noun in ("cat", "dog") for number in range(30)]
    (tmp_path / "tagged.txt").write_text("\n".join([*lines, lines[3]]))
    return TaggedSettings((str(tmp_path / "tagged.txt"),), cache=str(tmp_path / "cache"))


def prepare(settings: TaggedSettings) -> Prepared:
    return prepare_data(Tagged(settings, (WhitespaceConfig(), AutoConfig()), None), seed=1, progress=False)


def test_a_new_kind_of_data_needs_its_schema_only(settings):
    data = prepare(settings)
    assert len(data.train) == data.report.num_train == 55
    assert data.report.train.skipped["twice"].lines == [61]
    words, tags = data.tokenizers
    assert sorted(tags.vocabulary()[4:]) == ["D", "N", "V"]
    assert "cat" in words.vocabulary()
    assert data.report.symbols["tags"]["tokens"] == data.report.train_tokens["sentence"] == 165
    assert data.report.render().splitlines()[2:] == [
        "55 texts to train on, 5 to validate on (held out; they share no sentence and no tags with training)",
        f"vocabularies of {words.size} and {tags.size} symbols; 165 and 165 tokens to train on, 15 and 15 to validate on",
        "the sentence is tokenised already: tokens are split at spaces",
        "tagged by hand",
    ]


def test_it_is_found_in_the_cache_and_made_again_when_it_changes(settings, monkeypatch):
    first = prepare(settings)
    second = prepare(settings)
    assert (second.train.path, second.fingerprint) == (first.train.path, first.fingerprint)
    assert prepare(replace(settings, dev_size=2)).train.path != first.train.path
    Path(settings.train[0]).write_text("a/D b/N\n")
    assert prepare(settings).fingerprint != first.fingerprint


def test_a_shortage_of_examples_to_hold_out_is_a_note(settings):
    notes = prepare(replace(settings, dev_size=50)).report.notes
    assert notes[-1] == (
        "6 texts held out, not 50 (data.dev_size), because at most one in 10 may be held out, and held-out texts must share no "
        "sentence and no tags with training; to validate on a file of your own, set data.dev"
    )


def test_no_files(settings):
    with pytest.raises(DataError, match=r"data\.train names no file, expected a file of tagged sentences"):
        prepare(replace(settings, train=()))
