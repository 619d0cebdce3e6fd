"""Models on the hub, with a local server that speaks its protocol."""

import json
import os
import shutil
from pathlib import Path

import pytest
from bundle.conftest import make as make_translator
from bundle.test_classifiers import make as make_classifier

import regard
from regard.bundle import save_bundle
from regard.bundle.signature import checksum_of
from regard.cli.main import main
from regard.errors import BundleError, RequestError
from regard.hub import Address, is_address, local_folder

TEXTS = ["she kissed him .", "a cat sleeps on the mat ."]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "deu"
    save_bundle(folder, make_translator())
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "secret.pt").write_bytes(b"x")
    (folder / "log.txt").write_text("x")
    return folder


def translations(translator):
    return [(one.text, one.score) for one in translator.translate(TEXTS)]


def test_a_round_trip(hub, run):
    address = regard.push(run, "user/deu")
    assert Address.parse(address).repository == "user/deu"
    names = set(hub.commits["user/deu"][hub.heads["user/deu"]["main"]])
    signed = set(json.loads((run / "signature.json").read_text())["files"])
    assert names == signed | {"signature.json", "README.md"}
    own = translations(regard.load(run, device="cpu"))
    assert translations(regard.load("hf://user/deu", device="cpu")) == own
    assert translations(regard.load(address, device="cpu")) == own
    got = {path.name for path in local_folder(address).iterdir()}
    assert got == signed | {"signature.json"}


def test_the_commands_take_addresses(hub, run, capsys):
    assert main(["push", str(run), "user/deu", "--private"]) == 0
    address = capsys.readouterr().out.strip()
    assert address.startswith("hf://user/deu@")
    assert "user/deu" in hub.private
    assert main(["translate", "hf://user/deu", TEXTS[0], "--device=cpu"]) == 0
    assert capsys.readouterr().out.strip() == regard.load(run, device="cpu").translate(TEXTS[:1])[0].text.strip()
    assert main(["info", address]) == 0
    assert "translator" in capsys.readouterr().out.lower()


def test_only_what_the_signature_names_is_downloaded(hub, run):
    regard.push(run, "user/deu")
    hub.commit("user/deu", {"evil.py": b"import os", "model.pkl": b"x", "a/b.json": b"{}"})
    hub.requests.clear()
    folder = local_folder("hf://user/deu")
    assert not [request for request in hub.requests if "evil" in request or "pkl" in request or "README" in request]
    assert not [path for path in folder.rglob("*") if path.suffix in (".py", ".pkl")]


def test_a_commit_in_the_cache_needs_no_network(hub, run):
    address = regard.push(run, "user/deu")
    regard.load(address, device="cpu")
    hub.requests.clear()
    regard.load(address, device="cpu")
    assert not hub.requests


def test_a_branch_is_looked_up_and_downloaded_once(hub, run):
    regard.push(run, "user/deu")
    first = local_folder("hf://user/deu")
    hub.requests.clear()
    assert local_folder("hf://user/deu") == first
    assert hub.requests == ["GET /api/models/user/deu/revision/main"]
    save_bundle(run, make_translator(seed=1))
    regard.push(run, "user/deu")
    assert local_folder("hf://user/deu") != first


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "signature.json"])
def test_a_flipped_byte_is_refused(hub, run, name, tmp_path):
    regard.push(run, "user/deu")
    content = bytearray(hub.commits["user/deu"][hub.heads["user/deu"]["main"]][name])
    content[len(content) // 2] ^= 1
    hub.commit("user/deu", {name: bytes(content)})
    with pytest.raises(BundleError, match=f"{name}.* is damaged"):
        regard.load("hf://user/deu", device="cpu")
    assert not list((tmp_path / "cache" / "hub" / "user--deu").glob("[0-9a-f]*")), "damaged files were kept"


def test_a_flipped_byte_in_the_cache_is_refused(hub, run):
    address = regard.push(run, "user/deu")
    path = local_folder(address) / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(BundleError, match=r"model.safetensors is damaged"):
        regard.load(address, device="cpu")


def test_a_signature_that_names_other_files_is_refused(hub, run):
    regard.push(run, "user/deu")
    signature = json.loads((run / "signature.json").read_text())
    signature["files"]["../../outside"] = "0" * 64
    signature["checksum"] = checksum_of(signature)
    hub.commit("user/deu", {"signature.json": (json.dumps(signature) + "\n").encode()})
    with pytest.raises(BundleError, match="does not name the files of a model"):
        regard.load("hf://user/deu")
    assert not [request for request in hub.requests if "outside" in request]


def test_what_is_not_there(hub, run):
    regard.push(run, "user/deu")
    with pytest.raises(BundleError, match=r"hf://user/deu@v9: the model has no revision 'v9'; see http"):
        regard.load("hf://user/deu@v9")
    with pytest.raises(
        BundleError, match=r"hf://user/dee@main: .* has no such model, or you may not read it; check the name, or log in"
    ):
        regard.load("hf://user/dee")
    hub.commit("user/other", {"README.md": b"x"})
    with pytest.raises(BundleError, match=r"is not a trained model of regard, or is incomplete: it has no signature.json"):
        regard.load("hf://user/other")


def test_without_a_network_the_cache_is_used(hub, run):
    regard.push(run, "user/deu")
    own = translations(regard.load("hf://user/deu", device="cpu"))
    hub.stop()
    with pytest.warns(UserWarning, match=r"cannot be reached; the copy in the cache is used"):
        assert translations(regard.load("hf://user/deu", device="cpu")) == own
    [reference] = Path(os.environ["REGARD_CACHE"], "hub").glob("*/refs/main")
    reference.write_bytes(b"\xff")
    with pytest.raises(BundleError, match=r"hf://user/deu@main: http.* cannot be reached .* the cache has no copy in"):
        regard.load("hf://user/deu")
    with pytest.raises(BundleError, match=r"hf://user/new@main: http.* cannot be reached .* the cache has no copy in"):
        regard.load("hf://user/new")
    with pytest.raises(RequestError, match=r"push: http.* cannot be reached .*; nothing was uploaded"):
        regard.push(run, "user/deu")


def test_local_folders_come_first(hub, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    local = tmp_path / "hf:" / "user"
    local.mkdir(parents=True)
    save_bundle(local / "reviews", make_classifier())
    assert not is_address("hf://user/reviews")
    assert isinstance(regard.load("hf://user/reviews", device="cpu"), regard.Classifier)
    shutil.copytree(run, tmp_path / "user" / "deu")
    assert isinstance(regard.load("user/deu", device="cpu"), regard.Translator)
    assert not hub.requests


@pytest.mark.parametrize(
    "name", ["hf://", "hf://deu", "hf://a/b/c", "hf://user/de u", "hf://user/../x", "hf://user/deu@", "hf://.a/b"]
)
def test_addresses_of_another_form(name):
    with pytest.raises(RequestError, match="is not an address on the hub, expected hf://user/name or hf://user/name@revision"):
        regard.load(name)


def test_what_push_refuses(hub, run, tmp_path, capsys):
    with pytest.raises(RequestError, match="names a revision, which the hub chooses; leave @v1 out"):
        regard.push(run, "user/deu@v1")
    assert main(["push", str(tmp_path / "nothing"), "user/deu"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    (run / "config.yaml").write_text("damaged")
    with pytest.raises(BundleError, match=r"config.yaml is damaged"):
        regard.push(run, "user/deu")
    assert not hub.requests
