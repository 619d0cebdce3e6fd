"""Folders that are no bundles, damaged ones and hostile ones: one clear message each, and nothing in them is run."""

import hashlib
import json
import os
import pickle
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from regard.bundle import load_bundle, read_start, save_bundle
from regard.bundle.signature import checksum_of
from regard.cli.main import main
from regard.errors import BundleError

SIGNED = ("config.yaml", "model.safetensors", "report.json", "tokenizer.source.json", "tokenizer.target.json")


def resign(folder: Path, **changes) -> None:
    """What somebody does who wants a changed file to be taken for the true one."""
    path = folder / "signature.json"
    signature = json.loads(path.read_text())
    signature["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in signature["files"]}
    signature |= changes
    path.write_text(json.dumps({**signature, "checksum": checksum_of(signature)}) + "\n")


def refuse(folder: Path, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        load_bundle(folder)


def test_no_folder(tmp_path):
    refuse(tmp_path / "none", r"there is no folder .*none; expected one that `regard train` made")


def test_a_file(tmp_path):
    (tmp_path / "model.pt").write_text("")
    refuse(tmp_path / "model.pt", r"model\.pt is a file, expected the folder of a trained model")


def test_another_folder(tmp_path):
    refuse(tmp_path, r"is not a trained model: it has no signature\.json")


def test_a_run_without_a_model_yet(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "run.json").touch()
    refuse(tmp_path, r"holds a run without a model yet: its training has not finished its first validation; .*`regard resume ")


def test_a_folder_of_models_names_one(saved):
    refuse(saved.parent, r"is not a trained model: it has no signature\.json; .* made; it contains the model deu: name .*deu")


@pytest.mark.parametrize("name", SIGNED)
def test_a_missing_file(saved, name):
    (saved / name).unlink()
    refuse(saved, rf"{name} is missing: the model's folder is incomplete")


@pytest.mark.parametrize("name", SIGNED)
def test_a_truncated_file(saved, name):
    path = saved / name
    path.write_bytes(path.read_bytes()[:-1])
    refuse(
        saved, rf"{name} is damaged: its content does not match the checksum in signature\.json; copy the whole folder again"
    )


@pytest.mark.parametrize("name", SIGNED)
def test_a_flipped_bit(saved, name):
    data = bytearray((saved / name).read_bytes())
    data[len(data) // 2] ^= 1
    (saved / name).write_bytes(bytes(data))
    refuse(saved, rf"{name} is damaged")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_a_bundle_error_at_most(saved, data):
    """Any byte of any file, even where the checksum is made to fit."""
    name = data.draw(st.sampled_from([*SIGNED, "signature.json"]))
    true = {path: path.read_bytes() for path in saved.iterdir()}
    damaged = bytearray(true[saved / name])
    at = data.draw(st.integers(0, len(damaged) - 1))
    if data.draw(st.booleans()):
        damaged[at] = data.draw(st.integers(0, 255))
    else:
        del damaged[at:]
    (saved / name).write_bytes(bytes(damaged))
    if name != "signature.json" and data.draw(st.booleans()):
        resign(saved)
    try:
        load_bundle(saved)
    except BundleError:
        pass
    finally:
        for path, content in true.items():
            path.write_bytes(content)


def test_a_newer_format(saved):
    resign(saved, format_version=3, versions={"regard": "3.0"})
    refuse(
        saved,
        r"the model has format 3, written by regard 3\.0; this regard, .* reads format 2: upgrade with: pip install",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged: it is not JSON"),
        ("[" * 100_000, "is damaged: it is not JSON"),
        ("[]", "has no format_version"),
        ('{"format_version": 2}', "is damaged: task is None, expected one of: translation, classification"),
        ('{"format_version": 2, "task": []}', r"is damaged: task is \[\], expected one of"),
        ('{"format_version": 2, "task": "translation"}', "does not name the files of a model"),
        (
            '{"format_version": 2, "task": "translation", "files": {"../../etc/passwd": "0"}}',
            "does not name the files of a model",
        ),
    ],
)
def test_a_signature_that_is_none(saved, text, message):
    (saved / "signature.json").write_text(text)
    refuse(saved, message)


@pytest.mark.parametrize("version", [0, -1, True, False, 1.0, "2", None, [], -(10**4000)])
def test_a_format_version_that_is_none(saved, version):
    resign(saved, format_version=version)
    refuse(
        saved,
        r"signature\.json is damaged: format_version is .{1,70}, expected a number; copy the model again",
    )


@pytest.mark.parametrize("change", [{"hidden_size": 1 << 62}, {"hidden_size": 10**8}])
def test_a_model_of_impossible_size_takes_no_memory(saved, change, monkeypatch):
    text = (saved / "config.yaml").read_text()
    (saved / "config.yaml").write_text(text.replace("hidden_size: 7", f"hidden_size: {change['hidden_size']}"))
    resign(saved)
    monkeypatch.setattr("regard.models.build.build_recurrent", None)  # nothing is built, not even on the meta device
    refuse(saved, "hidden_size is")


FACTS = {"updates": 3, "epochs": 1.5, "kept": [3], "data": "x", "seed": 1, "finished": True, "scores": {}, "versions": {}}
FACTS["started_from"] = {"folder": "x", "weights": "y", "data": "z", "updates": 3}
VALUES = (None, True, -1, 10**400, float("nan"), "\x1b]0;x", [[1]], {}, {"x": {}}, {"regard": []})


@pytest.mark.parametrize("name", FACTS)
def test_facts_of_every_type_in_a_signature(saved, name, tmp_path, capsys):
    """Each is refused, or the model is described, saved again, and used to start from."""
    refused = 0
    for value in VALUES:
        resign(saved, **FACTS | {name: value})
        try:
            save_bundle(tmp_path / "again", load_bundle(saved))
            read_start(saved).pack()
        except BundleError as error:
            refused += 1
            assert f"signature.json is damaged: {name}" in str(error)  # noqa: PT017
        assert main(["info", str(saved)]) in (0, 2)
        assert "Traceback" not in capsys.readouterr().err
    assert 0 < refused <= len(VALUES)


class Bomb:
    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self):
        return (os.mkdir, (str(self.flag),))


@pytest.mark.parametrize("wrap", [pickle.dumps, lambda bomb: struct.pack("<Q", 4) + pickle.dumps(bomb)])
def test_a_pickle_in_place_of_the_weights_is_not_opened(saved, tmp_path, wrap):
    flag = tmp_path / "exploded"
    (saved / "model.safetensors").write_bytes(wrap(Bomb(flag)))
    resign(saved)
    refuse(saved, r"model\.safetensors is not a safetensors file .*nothing in it was run")
    assert not flag.exists()


def test_a_torch_file_in_place_of_the_weights_is_not_opened(saved, tmp_path):
    torch.save({"a": Bomb(tmp_path / "exploded")}, saved / "model.safetensors")
    resign(saved)
    refuse(saved, r"model\.safetensors is not a safetensors file")
    assert not (tmp_path / "exploded").exists()


def test_yaml_tags_are_not_followed(saved, tmp_path):
    flag = tmp_path / "exploded"
    (saved / "config.yaml").write_text(f'out: !!python/object/apply:os.mkdir ["{flag}"]\n')
    resign(saved)
    refuse(saved, r"the model's settings cannot be read: .*config\.yaml:1: out is")
    assert not flag.exists()


def test_yaml_aliases_do_not_multiply(saved):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    (saved / "config.yaml").write_text("\n".join(lines))
    resign(saved)
    refuse(saved, r"config\.yaml:\d+: settings cannot contain YAML aliases")


@pytest.mark.parametrize(
    ("find", "replace", "message"),
    [
        ("seed: 1", "sead: 1", r"settings cannot be read: .*config\.yaml:\d+: unknown setting 'sead'; did you mean 'seed'\?"),
        ("seed: 1", "seed: one", "seed is 'one', expected a whole number"),
        ("seed: 1", "seed: [", r"config\.yaml"),
        ("hidden_size: 7", "hidden_size: 11", r"model\.safetensors"),
        (
            "hidden_size: 7",
            "hidden_size: 1000000",
            r"safetensors holds [\d,]+ numbers, too few for config\.yaml, where model\.decoder\.hidden_size is 1,000,000$",
        ),
        (
            "hidden_size: 7",
            "hidden_size: 170",
            r"model\.safetensors holds [\d,]+ numbers, but config\.yaml and the tokenizers need",
        ),
        (
            "hidden_size: 7",
            "hidden_size: 4611686018427387904",
            r"hidden_size is 4\.61169e\+18, expected 1 or more, and at most",
        ),
        (
            "attention_size: 0",
            "attention_size: 999999999",
            r"holds .* where model\.decoder\.attention\.attention_size is 999,999,999",
        ),
        (
            "num_layers: 1",
            "num_layers: 999",
            r"model\.safetensors holds \d+ tensors, too few for config\.yaml, where .*num_layers is 999",
        ),
        ("length_penalty: 1.0", "length_penalty: 1.0e+308", r"length_penalty is 1e\+308, expected from 0 to 10"),
        ("hidden_size: 7", "hidden_size: -1", "hidden_size is -1"),
        ("num_layers: 1", "num_layers: 2", r"model\.safetensors"),
    ],
)
def test_a_config_that_does_not_fit(saved, find, replace, message):
    path = saved / "config.yaml"
    text = path.read_text()
    assert find in text
    path.write_text(text.replace(find, replace))
    resign(saved)
    refuse(saved, message)


def change_tensors(folder: Path, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    resign(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update({"extra": torch.ones(2)}), "the tensor 'extra' does not belong to the model"),
        (
            lambda t: t.update({"extra": torch.ones(100), "output.bias2": t.pop("output.bias")}),
            "the tensor 'output.bias' is missing; did you mean 'output.bias2'",
        ),
        (
            lambda t: t.update({"output.bias": t["output.bias"][None].clone()}),
            r"the tensor 'output.bias' has shape \(1, \d+\), expected \(\d+,\)",
        ),
        (
            lambda t: t.update({"output.bias": t["output.bias"].double()}),
            r"the tensor 'output.bias' has dtype torch.float64, expected torch.float32",
        ),
    ],
)
def test_wrong_tensors(saved, change, message):
    change_tensors(saved, change)
    refuse(saved, rf"model\.safetensors: {message}")


@pytest.mark.parametrize("size", [2**63, 2**40, 10**6])
def test_a_header_that_claims_to_be_huge(saved, size):
    (saved / "model.safetensors").write_bytes(struct.pack("<Q", size) + b"{}")
    resign(saved)
    refuse(saved, r"model\.safetensors is not a safetensors file \(Error while deserializing: .*\); nothing in it")


@pytest.mark.parametrize("name", [*SIGNED, "signature.json"])
def test_links_are_not_followed(saved, tmp_path, name):
    secret = tmp_path / "secret"
    (saved / name).rename(secret)
    (saved / name).symlink_to(secret)
    refuse(saved, rf"{name}: it is not an ordinary file \(a link or a folder\)")


def test_a_link_to_a_folder_of_incoming_files_is_not_followed(saved, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "signature.json").write_text("{")
    (saved / ".incoming").symlink_to(outside)
    load_bundle(saved)


def test_a_file_too_large_to_be_one(saved):
    with open(saved / "config.yaml", "r+b") as file:
        file.truncate(1 << 27)  # sparse
    refuse(saved, r"config\.yaml: it has 134,217,728 bytes, expected at most")


def test_tokenizers_of_another_model(saved):
    (saved / "tokenizer.target.json").write_bytes((saved / "tokenizer.source.json").read_bytes())
    resign(saved)
    try:
        load_bundle(saved)  # vocabularies may happen to be of one size
    except BundleError as error:
        assert "model.safetensors" in str(error)  # noqa: PT017
