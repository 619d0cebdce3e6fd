"""The commands that a newcomer finds first: in the README, on the documentation's first page, and in error messages."""

import re
import subprocess
from pathlib import Path

import pytest

from regard.errors import install_command

ROOT = Path(__file__).parents[2]
ADDRESS = "git+https://github.com/regard-attention/regard"
FIRST_SCREEN = 30
_GOAL = re.compile(r"^make (\S+)", re.M)
_INSTALL = re.compile(r"pip install [^`\n]*")


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/start/install.md"])
def test_make_demo_and_make_test_come_first(page):
    first = "\n".join((ROOT / page).read_text().splitlines()[:FIRST_SCREEN])
    assert _GOAL.findall(first)[:2] == ["demo", "test"]
    rules = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {"demo", "test"} <= set(rules)


def test_continuous_integration_runs_the_tests_of_the_readme():
    [line] = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make test")]
    assert line.split()[:2] == ["make", "test"]
    assert "make test " in (ROOT / "README.md").read_text()


def test_no_page_installs_regard_from_an_index_that_does_not_have_it():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    found = {command for page in pages if "_build" not in page.parts for command in _INSTALL.findall(page.read_text())}
    assert not {each for each in found if re.search(r"[ '\"]regard(?![./-])", each) and ADDRESS not in each}
    assert any(ADDRESS in command for command in _INSTALL.findall((ROOT / "README.md").read_text()))


@pytest.mark.parametrize(("extra", "name"), [("", "regard"), ("onnx", "regard[onnx]")])
def test_errors_name_a_command_that_pip_understands(extra, name):
    requirement = pytest.importorskip("packaging.requirements").Requirement(install_command(extra).split("'")[1])
    assert (str(requirement).split(" @")[0], requirement.url) == (name, ADDRESS)


def test_no_file_names_a_host_of_a_package_registry():
    """`pip` and `npm` know their registries, and a user may have set others."""
    endings = {
        "org": "pypi pythonhosted npmjs anaconda golang",
        "com": "npmjs yarnpkg unpkg",
        "net": "jsdelivr",
        "io": "crates",
    }
    hosts = [f"{name}.{ending}" for ending, names in endings.items() for name in names.split()]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    contents = {file: file.read_bytes() for file in files if file.is_file()}
    assert not [(file, host) for file, content in contents.items() for host in hosts if host.encode() in content]
