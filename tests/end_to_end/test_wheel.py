"""The wheel, outside the clone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from regard.presets import preset_names

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation: the tools are those of this environment, and nothing is downloaded.
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = folder.glob("regard-*.whl")
    return path


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
