"""What is saved is what is loaded, and no moment in between is neither the old model nor the new."""

import errno
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
import torch

from regard.bundle import folder as folder_module
from regard.bundle import load_bundle, save_bundle
from regard.config import AdditiveConfig
from regard.errors import BundleError, RequestError


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def weights(model) -> dict[str, torch.Tensor]:
    return dict(model.state_dict())


def equal(one, other) -> bool:
    one, other = weights(one), weights(other)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("joint", "tie"), [(False, "none"), (False, "target"), (True, "all"), (True, "none")])
def test_round_trip(bundle, tmp_path, joint, tie):
    made = bundle(joint=joint, tie=tie)
    save_bundle(tmp_path / "m", made)
    loaded = load_bundle(tmp_path / "m")
    assert loaded.config == made.config
    assert equal(loaded.model, made.model)
    assert not loaded.model.training
    assert (loaded.parts.source is loaded.parts.target) == joint
    text = "eine Katze sleeps"
    assert loaded.parts.target.encode(text) == made.parts.target.encode(text)
    assert loaded.report == made.report
    assert {"seed": 1, "data": "abc", "scores": {"bleu": 12.5}}.items() <= loaded.signature.items()
    if tie != "none":
        assert loaded.model.output.weight is loaded.model.target_embedding.weight
    names = set(content(tmp_path / "m"))
    own = {"tokenizer.json"} if joint else {"tokenizer.source.json", "tokenizer.target.json"}
    assert names == {"config.yaml", "model.safetensors", "signature.json", "report.json", "README.md"} | own


def test_who_writes_at_the_same_time_waits(bundle, tmp_path):
    """A run may replace its model while faithfulness is kept beside it."""
    save_bundle(tmp_path / "m", bundle())
    second = threading.Thread(target=save_bundle, args=(tmp_path / "m", bundle(joint=True)))
    with folder_module.replacing(tmp_path / "m") as stage:
        second.start()
        second.join(0.2)
        assert second.is_alive()
        (stage / "notes.txt").write_text("mine")
    second.join()
    assert load_bundle(tmp_path / "m").config.tokenizers.joint
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
    assert not list((tmp_path / "m").glob(".*"))


def test_same_bundle_same_bytes(bundle, tmp_path):
    for name in "ab":
        save_bundle(tmp_path / name, bundle(joint=True, tie="all"))
    assert content(tmp_path / "a") == content(tmp_path / "b")
    save_bundle(tmp_path / "c", load_bundle(tmp_path / "a"))
    assert content(tmp_path / "a") == content(tmp_path / "c")


def test_loading_leaves_random_numbers_alone(saved):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    load_bundle(saved)
    assert torch.equal(torch.rand(3), expected)


def test_signature_names_versions_and_checksums(saved):
    signature = json.loads((saved / "signature.json").read_text())
    assert signature["format_version"] == 2
    assert {"regard", "torch", "tokenizers", "safetensors", "python"} <= signature["versions"].keys()
    assert signature["files"].keys() == content(saved).keys() - {"signature.json", "README.md"}


def test_card(saved, bundle, tmp_path):
    card = (saved / "README.md").read_text()
    for part in (
        "language:\n- en\n- de",
        "from en to de",
        "regard translate DIR",
        "deu.txt",
        "| BLEU (search not recorded) | 12.5 |",
        "training pairs",
        "## Limits",
    ):
        assert part in card
    save_bundle(tmp_path / "own", bundle(custom="attention", signature={}))
    card = (tmp_path / "own" / "README.md").read_text()
    assert 'regard.load("DIR", attention=…)' in card
    assert "no pairs were held out" in card


def test_the_card_may_be_edited(saved):
    (saved / "README.md").write_text("mine")
    load_bundle(saved)


def test_replaces_only_its_own_files(saved, bundle):
    (saved / "checkpoints").mkdir()
    (saved / "checkpoints" / "last.ckpt").write_text("c")
    (saved / "notes.txt").write_text("n")
    new = bundle(seed=1)
    save_bundle(saved, new)
    assert equal(load_bundle(saved).model, new.model)
    assert (saved / "checkpoints" / "last.ckpt").read_text() == "c"
    assert (saved / "notes.txt").read_text() == "n"
    assert not list(saved.glob(".incoming*"))


class Stop(Exception):
    """The machine stops."""


def count_calls(monkeypatch, bundle, folder) -> int:
    calls = []
    with monkeypatch.context() as patch:
        watch(patch, lambda: calls.append(1))
        save_bundle(folder, bundle(seed=1))
    return len(calls)


def watch(patch, before) -> None:
    """Call `before` each time something on the disk is about to change for good."""
    for owner, name in (
        (os, "replace"),
        (os, "fsync"),
        (Path, "rmdir"),
        (Path, "mkdir"),
    ):
        real = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, _real=real, **options: (before(), _real(*args, **options))[1])


@pytest.mark.slow
def test_a_machine_that_stops_anywhere_leaves_the_old_or_the_new(bundle, tmp_path, monkeypatch):
    """Stopped before each change in turn, without the clean-up that a dying process cannot do."""
    old, new = bundle(seed=0), bundle(seed=1)
    save_bundle(tmp_path / "count", old)
    total = count_calls(monkeypatch, bundle, tmp_path / "count")
    seen = []
    for stop in range(total):
        folder = tmp_path / str(stop)
        save_bundle(folder, old)
        left = [stop]

        def before(left=left):
            if not left[0]:
                raise Stop
            left[0] -= 1

        with monkeypatch.context() as patch:
            watch(patch, before)
            patch.setattr(shutil, "rmtree", lambda *args, **options: None)
            with pytest.raises(Stop):
                save_bundle(folder, new)
        found = load_bundle(folder)
        assert equal(found.model, old.model) or equal(found.model, new.model)
        seen.append(equal(found.model, new.model))
        save_bundle(folder, new)  # the next one completes or replaces it
        assert equal(load_bundle(folder).model, new.model)
        assert not list(folder.glob(".incoming*"))
    assert seen == sorted(seen)
    assert {True, False} <= set(seen)


def full(*args, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk(saved, bundle, tmp_path, monkeypatch):
    before = content(saved)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            BundleError, match=r"cannot write the model to .*deu: No space left on device; what was there before is unchanged"
        ):
            save_bundle(saved, bundle(seed=1))
        with pytest.raises(BundleError, match="No space left"):
            save_bundle(tmp_path / "new", bundle(seed=1))
    assert content(saved) == before
    assert not list(saved.glob(".incoming*"))
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written(bundle, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match=r"cannot write the model to .*file"):
        save_bundle(tmp_path / "file", bundle())


def test_an_own_attention_is_asked_for(bundle, tmp_path):
    def mechanism(key_size=10, attention_size=3):
        return AdditiveConfig(attention_size=attention_size).build(query_size=7, key_size=key_size)

    made = bundle(attention=mechanism(), custom="attention")
    save_bundle(tmp_path / "m", made)
    with pytest.raises(
        RequestError, match=r"the attention of .*m is a Python object of the model's author.*regard\.load\(.*attention=…\)"
    ):
        load_bundle(tmp_path / "m")
    assert equal(load_bundle(tmp_path / "m", attention=mechanism()).model, made.model)
    with pytest.raises(BundleError, match=r"the tensor '.*attention.*' has shape .* according to the given attention$"):
        load_bundle(tmp_path / "m", attention=mechanism(attention_size=4))
    with pytest.raises(
        BundleError,
        match=r"m: the given attention does not fit: attention \(Additive\) has key_size=11, but the encoder's states "
        "are 10 wide: build it with key_size=10",
    ):
        load_bundle(tmp_path / "m", attention=mechanism(key_size=11))


def test_an_own_model_is_asked_for(bundle, tmp_path):
    made, other = bundle(custom="model"), bundle(seed=3).model
    save_bundle(tmp_path / "m", made)
    with pytest.raises(RequestError, match=r"the model of .* is a Python object of the model's author"):
        load_bundle(tmp_path / "m")
    assert equal(load_bundle(tmp_path / "m", model=other).model, made.model)


def test_nothing_is_asked_for_that_is_not_needed(saved, bundle):
    with pytest.raises(RequestError, match=r"load: .*deu builds its own model from its config\.yaml; leave model out"):
        load_bundle(saved, model=bundle().model)


def test_a_reader_meets_the_old_or_the_new_while_a_writer_replaces(bundle, tmp_path):
    folder, versions = tmp_path / "deu", [bundle(seed=seed) for seed in (1, 2)]
    save_bundle(folder, versions[0])
    known = [model.model.state_dict() for model in versions]
    over = threading.Event()

    def write() -> None:
        try:
            for number in range(30):
                save_bundle(folder, versions[number % 2])
        finally:
            over.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads = 0
    while not over.is_set() or not reads:
        found = load_bundle(folder).model.state_dict()
        assert any(all(torch.equal(found[name], one[name]) for name in one) for one in known)
        reads += 1
    writer.join()
