import errno
import multiprocessing
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.config import AutoConfig, BPEConfig, DataConfig, TokenizersConfig, WhitespaceConfig, WordsConfig
from regard.errors import DataError
from regard.text import cache, preparation
from regard.text.pairs.prepare import PairSchema, _without_end
from regard.text.preparation import Prepared, prepare_data
from regard.text.reasons import REPEATED_PAIR, TOO_MANY_TOKENS
from regard.text.symbols import END

PAIRS = [(f"The {a} sees {b}.", f"Der {b} sieht {a} nicht.") for a in ("cat", "dog", "ant") for b in range(70)]


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
    return DataConfig(train=(str(tmp_path / "pairs.tsv"),), dev_size=10, cache=str(tmp_path / "cache"))


def run(data: DataConfig, seed: int = 1, tokenizers: TokenizersConfig | None = None) -> Prepared:
    return prepare_data(PairSchema(data, tokenizers or TokenizersConfig()), seed=seed, progress=False)


def texts(corpus) -> list[tuple[str, str]]:
    return list(zip(*corpus.texts(range(len(corpus))), strict=True))


def entries(data: DataConfig) -> list[Path]:
    return sorted(Path(data.cache).iterdir())


def append(data: DataConfig, content: str) -> None:
    with open(data.train[0], "a", encoding="utf-8") as file:
        file.write(content)


def test_the_kind_of_tokenizer_is_chosen_by_the_text(data):
    Path(data.train[0]).write_text("".join(f"{source}\t{target[:-1]} .\n" for source, target in PAIRS), encoding="utf-8")
    auto = run(data, tokenizers=TokenizersConfig(source=AutoConfig(min_count=2), target=AutoConfig()))
    source, target = auto.configs
    assert (source, target) == (WordsConfig(min_count=2), WhitespaceConfig())
    assert (auto.tokenizers[0].kind, auto.tokenizers[1].kind) == ("words", "whitespace")
    assert auto.report.notes == ["the target is tokenised already: tokens are split at spaces"]
    again = run(data, tokenizers=TokenizersConfig(source=source, target=target))
    assert again.report == auto.report
    assert len(entries(data)) == 1


def test_everything_is_encoded_and_accounted_for(data):
    append(data, "\tempty\n" + f"{PAIRS[3][0]}\t{PAIRS[3][1]}\n" + "x " * 300 + "\ty\n")
    prepared = run(data)
    report = prepared.report.train
    assert sorted(texts(prepared.train) + texts(prepared.dev)) == sorted(PAIRS)
    assert len(prepared.dev) == prepared.report.num_dev == 10
    assert report.read == 213 == report.num_skipped + prepared.report.num_train + prepared.report.num_dev
    assert report.skipped[REPEATED_PAIR].lines == [212]
    assert report.skipped[TOO_MANY_TOKENS].lines == [213]
    dev_sides = {side for pair in texts(prepared.dev) for side in pair}
    assert not dev_sides & {side for pair in texts(prepared.train) for side in pair}
    batch = prepared.train.batch([5])
    assert prepared.tokenizers[0].decode(batch.source[0].tolist()) == texts(prepared.train)[5][0]
    assert prepared.tokenizers[1].decode(batch.target_out[0].tolist()) == texts(prepared.train)[5][1]
    assert batch.source[0, -1] == END
    assert list(prepared.report.train_tokens.values()) == [
        prepared.train.source_lengths.sum(),
        prepared.train.target_lengths.sum(),
    ]


def test_words_of_held_out_pairs_are_not_in_the_vocabulary(data):
    append(data, "".join(f"solo{i}\tallein{i}\n" for i in range(40)))
    prepared = run(data)
    unknown = [pair for pair in texts(prepared.dev) if pair[0].startswith("solo")]
    assert unknown
    for source, _ in unknown:
        assert prepared.tokenizers[0].encode(source).tokens == ["<unk>"]


def test_an_unchanged_run_is_found_again_with_its_report(data, monkeypatch):
    first = run(data)
    monkeypatch.setattr(preparation, "_prepare", None)
    second = run(data)
    assert second.report == first.report
    assert second.train.path == first.train.path
    assert second.fingerprint == first.fingerprint
    moved = Path(data.train[0]).rename(Path(data.train[0]).with_name("moved.tsv"))
    third = run(replace(data, train=(str(moved),)))
    assert third.train.path == first.train.path
    assert third.report.train.files == [str(moved)]


@pytest.mark.parametrize("change", ["data", "setting", "seed", "tokenizer", "ending"])
def test_a_changed_run_is_made_anew(data, change):
    first = run(data)
    if change == "data":
        append(data, "new\tneu\n")
        second = run(data)
        assert second.fingerprint != first.fingerprint
    elif change == "setting":
        second = run(replace(data, max_tokens=100))
    elif change == "seed":
        second = run(data, seed=2)
    elif change == "ending":
        second = run(replace(data, train=(str(Path(data.train[0]).rename(Path(data.train[0]).with_suffix(".txt"))),)))
    else:
        second = run(data, tokenizers=TokenizersConfig(source=WordsConfig(lowercase=True)))
    assert second.train.path != first.train.path


def test_the_same_command_gives_the_same_bytes(data, tmp_path):
    first, second = run(data), run(replace(data, cache=str(tmp_path / "other")))
    for name in ("train.arrow", "dev.arrow", "tokenizer.source.json", "tokenizer.target.json", "report.json"):
        assert (first.train.path.parent / name).read_bytes() == (second.train.path.parent / name).read_bytes()


@pytest.mark.parametrize("name", ["train.arrow", "tokenizer.source.json", "report.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_entry_is_made_again(data, name, damage):
    first = run(data)
    path = first.train.path.parent / name
    good = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        # A file of its own, so that the mapped one stays.
        broken = path.with_suffix(".broken")
        broken.write_bytes(good[: len(good) // 2] if damage == "cut" else bytes([good[0] ^ 1]) + good[1:])
        broken.rename(path)
    second = run(data)
    assert second.report == first.report
    assert texts(second.train) == texts(first.train)
    assert path.read_bytes() == good
    assert entries(data) == [path.parent]  # nothing of the damaged entry is left


def prepare_at(moment: float, data: DataConfig, results) -> None:
    time.sleep(max(0.0, moment - time.time()))
    results.put(len(run(data).train))


@pytest.mark.slow
def test_runs_at_the_same_time_do_not_clash(data):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=prepare_at, args=(time.time() + 5, data, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    assert [results.get(timeout=120) for _ in workers] == [200] * 3
    for worker in workers:
        worker.join()
    assert len(entries(data)) == 1


def test_max_pairs_takes_the_first_and_holds_out_from_behind(data):
    prepared = run(replace(data, max_pairs=50, dev_size=4))
    assert texts(prepared.train) == PAIRS[:50]
    assert len(prepared.dev) == 4
    assert set(texts(prepared.dev)) < set(PAIRS[50:])
    assert prepared.report.train.skipped["beyond max_pairs"].count == 156
    assert prepared.report.train.skipped["beyond max_pairs"].lines[0] >= 51


def test_given_dev_files_are_kept_whole_and_their_overlap_counted(data, tmp_path):
    source, target = tmp_path / "dev.en", tmp_path / "dev.de"
    source.write_text(f"{PAIRS[0][0]}\n{PAIRS[1][0]}\nNew.\nNew.\n", encoding="utf-8")
    target.write_text(f"{PAIRS[0][1]}\nAnders.\nNeu.\nNeu.\n", encoding="utf-8")
    prepared = run(replace(data, dev=(str(source), str(target))))
    assert len(prepared.train) == len(PAIRS)
    assert len(prepared.dev) == 4
    assert prepared.report.overlap == {"pairs": 1, "sources": 2, "targets": 1}
    assert prepared.report.dev.files == [str(source), str(target)]


def test_repeats_stay_when_asked_for(data):
    append(data, f"{PAIRS[0][0]}\t{PAIRS[0][1]}\n")
    assert len(run(replace(data, drop_repeats=False, dev_size=0)).train) == len(PAIRS) + 1


def test_joint_tokenizers_are_one_object_from_the_cache_too(data):
    tokenizers = TokenizersConfig(source=BPEConfig(size=150), target=BPEConfig(size=150), joint=True)
    for _ in range(2):
        prepared = run(data, tokenizers=tokenizers)
        assert prepared.tokenizers[0] is prepared.tokenizers[1]


def test_few_pairs_hold_out_none_and_say_so(data):
    Path(data.train[0]).write_text("Go.\tGeh.\nHi.\tHallo.\n")
    prepared = run(data)
    assert len(prepared.dev) == 0
    assert "only 2 pairs and 10 are needed to hold one out; add more" in prepared.report.render()


def test_nothing_to_train_on(data):
    with pytest.raises(DataError, match=r"no pair is left to train on; is data\.max_tokens too low\? The report:\n  "):
        run(replace(data, max_tokens=2))
    with pytest.raises(DataError, match=r"no training data: data.train names no file"):
        run(DataConfig())
    assert not entries(data)


def test_a_failed_run_leaves_nothing(data):
    Path(data.train[0]).write_text("one column\n")
    with pytest.raises(DataError, match="has one column"):
        run(data)
    assert not entries(data)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full; free some space, or name a folder on another disk with data.cache"),
        (errno.EROFS, "Read-only file system; name another folder with data.cache or REGARD_CACHE"),
    ],
)
def test_a_cache_that_cannot_be_written(data, monkeypatch, number, message):
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(preparation, "spool_texts", fail)
    with pytest.raises(DataError, match=f"{re.escape(data.cache)}: prepared data cannot be written here: {message}"):
        run(data)
    assert not entries(data)


def test_a_cache_that_is_a_file(data):
    with pytest.raises(DataError, match="prepared data cannot be written here: File exists; name another folder"):
        run(replace(data, cache=data.train[0]))


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder(DataConfig()) == tmp_path / "regard"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder(DataConfig()) == Path("~/.cache/regard").expanduser()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "a"))
    assert cache.cache_folder(DataConfig()) == tmp_path / "a"
    assert cache.cache_folder(DataConfig(cache=str(tmp_path / "b"))) == tmp_path / "b"


def test_other_users_may_read_an_entry(data, tmp_path):
    (usual := tmp_path / "usual").mkdir()
    assert run(data).train.path.parent.stat().st_mode == usual.stat().st_mode


def test_what_a_killed_run_left_is_cleared_after_a_day(data):
    old, new = Path(data.cache) / ".unfinished-old", Path(data.cache) / ".unfinished-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "spool0.arrow").write_bytes(b"x")
    for path in (old / "spool0.arrow", old):
        os.utime(path, (0, 0))
    run(data)
    assert not old.exists()
    assert new.exists()


def test_end_symbols_of_a_pretrained_tokenizer_are_left_out():
    ids, offsets = _without_end((np.array([7, 8, END, 9, END, 5, 6]), np.array([0, 3, 5, 5, 7])))
    assert (ids.tolist(), offsets.tolist()) == ([7, 8, 9, 5, 6], [0, 2, 3, 3, 5])
