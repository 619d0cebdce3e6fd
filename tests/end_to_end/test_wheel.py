"""The wheel and the source distribution, outside the clone."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

import regard
from regard.presets import preset_names

ROOT = Path(__file__).parents[2]


def build(source: Path, kind: str, folder: Path) -> Path:
    """Build a distribution. Without isolation: the tools are those of this environment, and nothing is downloaded."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", folder, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = folder.glob("regard-*.whl" if kind == "wheel" else "regard-*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
def test_the_source_distribution_builds_the_same_wheel(wheel, sdist, tmp_path):
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    (tmp_path / "dist").mkdir()
    assert contents(build(source, "wheel", tmp_path / "dist")) == contents(wheel)


def test_the_source_distribution_has_the_tests_and_no_fuzz_corpus(sdist):
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"src/regard/__init__.py", "tests/robustness/fuzz/run.py", "docs/index.md", "CHANGELOG.md", "CITATION.cff"} <= set(
        names
    )
    assert not any(name.startswith(("tests/robustness/fuzz/corpus", "docs/_build", "runs", ".venv")) for name in names)
    assert sdist.stat().st_size < 10_000_000  # 3.8 MB for onnxruntime, 1.9 MB for the built-in corpora


def test_the_metadata_name_the_version_and_the_project(wheel):
    [name] = [name for name in contents(wheel) if name.endswith("METADATA")]
    metadata = message_from_bytes(contents(wheel)[name])
    assert metadata["Version"] == regard.__version__
    links = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL"))
    assert links.keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(link.startswith("https://") and "regard-attention" in link for link in links.values())
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)} <= set(metadata.get_all("Classifier"))


def test_the_index_accepts_the_files(wheel, sdist):
    pytest.importorskip("twine", reason="pip install twine")
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_citation_and_the_changelog_have_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == regard.__version__
    assert f"## [{regard.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_it_holds_the_data_and_the_licence(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"regard/presets/{name}.yaml" for name in preset_names()} <= names
    assert {"regard/py.typed", "regard/cli/main.py"} <= names
    assert any(name.endswith("LICENSE") for name in names)
    assert not any(name.startswith(("tests", "docs", "benchmarks")) for name in names)


def test_it_works_without_the_clone(wheel, tmp_path):
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel]
    subprocess.run(install, check=True, capture_output=True)
    run = [
        sys.executable,
        "-P",
        "-c",
        "import regard, sys; print(regard.__file__); from regard.cli.main import main; sys.exit(main())",
    ]
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run([*run, "presets"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    location, *listed = done.stdout.splitlines()
    assert Path(location).is_relative_to(target)
    assert [line.split()[0] for line in listed] == preset_names()
    done = subprocess.run([*run, "presets", "luong"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "kind: luong" in done.stdout
