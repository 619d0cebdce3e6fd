"""What is installed: the hashed lock of a release, the readable one, and the audit of both."""

import importlib.util
import json
import re
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
USERS_EXTRAS = ("spacy", "onnx", "serve", "sklearn")


@pytest.fixture(scope="module")
def audit():
    spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["audit"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def locked():
    """Name, version, marker and hashes of each package of the hashed lock."""
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = line.split("--hash=sha256:")
            requirement = Requirement(pin.strip())
            yield requirement, [value.strip() for value in hashes]


def test_every_package_of_the_lock_has_hashes():
    packages = list(locked())
    assert len(packages) > 80
    for requirement, hashes in packages:
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in hashes), requirement


def test_both_locks_agree(audit):
    """Packages that only some platforms install, such as CUDA's, are in the hashed lock alone."""
    readable = audit.read_lock(ROOT / "constraints.txt")
    for requirement, _ in locked():
        name, version = canonicalize_name(requirement.name), str(requirement.specifier).removeprefix("==")
        assert readable.get(name, version if requirement.marker else "missing") == version, name


def test_every_pinned_version_runs_on_the_oldest_python(audit):
    """Debian 12 has Python 3.11.2, and some packages ask for a later 3.11."""
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=") + ".0"
    refused, found = [], 0
    for name in audit.read_lock(ROOT / "constraints.txt"):
        try:
            wanted = metadata(name).get("Requires-Python")
        except PackageNotFoundError:
            continue
        found += 1
        if wanted and not SpecifierSet(wanted).contains(oldest):
            refused.append(f"{name} {wanted}")
    assert not refused
    assert found > 80


def test_the_lock_holds_all_that_users_install():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(each for name in USERS_EXTRAS for each in project["optional-dependencies"][name])]
    found = {canonicalize_name(requirement.name): str(requirement.specifier)[2:] for requirement, _ in locked()}
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(found[canonicalize_name(requirement.name)]), requirement


def advisory(number, *, withdrawn=None, **affected):
    return {
        "id": f"TEST-{number}",
        "modified": "2026-11-01T00:00:00Z",
        "summary": f"Problem {number}",
        **({"withdrawn": withdrawn} if withdrawn else {}),
        "affected": [{"package": {"ecosystem": "PyPI", "name": "Some_Package"}, **affected}],
    }


def ranges(*events):
    return {"ranges": [{"type": "ECOSYSTEM", "events": list(events)}]}


@pytest.mark.parametrize(
    ("affected", "versions"),
    [
        ({"versions": ["1.0", "1.1"]}, {"1.0", "1.1"}),
        (ranges({"introduced": "0"}, {"fixed": "1.10"}), {"1.0", "1.1", "1.9.post1"}),
        (ranges({"introduced": "1.1"}, {"last_affected": "1.10"}), {"1.1", "1.9.post1", "1.10"}),
        (ranges({"introduced": "0"}, {"fixed": "1.1"}, {"introduced": "2.0"}), {"1.0", "2.0"}),
        (ranges({"introduced": "not a version"}), set()),
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, set()),
    ],
)
def test_which_versions_an_advisory_is_about(audit, affected, versions):
    tried = ("1.0", "1.1", "1.9.post1", "1.10", "2.0")
    found = {each for each in tried if audit.find_matches({"some-package": each}, [advisory(1, **affected)])}
    assert found == versions


def test_withdrawn_advisories_and_other_packages_do_not_count(audit):
    withdrawn = advisory(1, withdrawn="2026-01-01", versions=["1.0"])
    assert not audit.find_matches({"some-package": "1.0"}, [withdrawn])
    assert not audit.find_matches({"another": "1.0"}, [advisory(2, versions=["1.0"])])


@pytest.mark.parametrize("form", ["zip", "folder", "list"])
def test_the_audit_of_a_saved_file(audit, tmp_path, capsys, form):
    torch = audit.read_lock(ROOT / "constraints.txt")["torch"]
    applies = advisory(7, **ranges({"introduced": "0"}, {"fixed": "999"}))
    applies["affected"][0]["package"]["name"] = "Torch"
    others = [advisory(8, versions=["1.0"])]
    path = tmp_path / "saved"
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for each in (applies, *others):
                archive.writestr(f"{each['id']}.json", json.dumps(each))
    elif form == "folder":
        path.mkdir()
        for each in (applies, *others):
            (path / f"{each['id']}.json").write_text(json.dumps(each))
    else:
        path.write_text(json.dumps([applies, *others]))
    assert audit.main(["--advisories", str(path)]) == 1
    said = capsys.readouterr().out
    assert "2 advisories, the newest of 2026-11-01" in said
    assert said.count(f"torch {torch}: TEST-7: Problem 7 (fixed in 999)") >= 2  # in both locks
    path = tmp_path / "nothing.json"
    path.write_text(json.dumps(others))
    assert audit.main(["--advisories", str(path)]) == 0


def test_the_audit_says_when_it_has_checked_nothing(audit, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    assert audit.main(["--source", "http://127.0.0.1:9/all.zip"]) == 3
    assert "cannot reach http://127.0.0.1:9/all.zip (<urlopen error [Errno 111] Connection refused>)" in capsys.readouterr().err
    assert not list((tmp_path / "build").iterdir())
    (tmp_path / "broken").write_bytes(b"no advisories")
    assert audit.main(["--advisories", str(tmp_path / "broken")]) == 3
    assert "holds no advisories in the OSV format" in capsys.readouterr().err
