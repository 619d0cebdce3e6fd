"""Every Python snippet of the documentation runs, and every command in it has the options that it is given."""

import re
import unittest
from importlib.util import find_spec
from pathlib import Path

import pytest
from docs.site.commands import help_of
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

from regard.cli.main import command_names

ROOT = Path(__file__).parents[2]
GENERATED = {
    "mechanisms",
    "lessons",
    "_build",
    "generated",
}  # tested where they are made, or run when the documentation is built
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if not GENERATED & set(path.relative_to(ROOT / "docs").parts)),
]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
_FENCE = re.compile(r"^```shell\n(.*?)^```", re.M | re.S)


def run(path: Path, *, quick: bool) -> int:
    """Run the snippets of a document in order, in one namespace; `quick` leaves out those that train."""
    document = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()]).parse(path)
    document.namespace.update(
        quick=quick,
        no_transformers=find_spec("transformers") is None,
        no_sklearn=find_spec("sklearn") is None,
        no_onnx=find_spec("onnxruntime") is None,
        __name__="snippets",
    )
    number = 0
    for example in document.examples():
        try:
            example.evaluate()
        except (pytest.skip.Exception, unittest.SkipTest):  # sybil skips with the latter
            continue
        except Exception as error:
            error.add_note(f"in the snippet at line {example.line} of {path}")
            raise
        number += 1
    return number


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_the_snippets_run(path, workspace):
    run(path, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if "if(quick" in path.read_text(encoding="utf-8")], ids=str)
def test_the_snippets_that_train_run(path, workspace):
    assert run(path, quick=False)


def commands(text: str) -> list[list[str]]:
    """Return the words of each `regard` command of the shell snippets."""
    found = []
    for block in _FENCE.findall(text):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            for match in re.finditer(r"(?:^|[|;$] ?|python |do |-no-python |[0-9] )regard ([a-z].*?)(?=$| #| \| |;)", line):
                found.append(match[1].split())
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_the_commands_have_the_options_that_are_documented(path):
    for words in commands(path.read_text(encoding="utf-8")):
        command = words[:2] if words[0] == "train" and len(words) > 1 else words[:1]
        assert command[0] in command_names(), f"no command is named {command[0]}"
        if command == ["train", "…"] or command == ["train"]:
            continue
        known = set(re.findall(r"--[\w.-]+", help_of([*command, *(["--help-all"] if command[0] == "train" else [])])))
        if command[0] == "resume":
            known |= set(re.findall(r"--[\w.]+", help_of(["train", "translation", "--help-all"])))
        if command[0] == "search":
            settings = re.findall(r"--[\w.]+", help_of(["train", words[1], "--help-all"]))
            known |= {*settings, *(name.replace("--", "--search.") for name in settings)}
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known, f"regard {' '.join(words)}: no option {sorted(options - known)}"


def lines_outside(blocks: str, path):
    """Return the numbered lines of a page, with empty lines in place of the blocks that a pattern describes."""
    text = re.sub(blocks, lambda block: "\n" * block[0].count("\n"), path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return enumerate(text.splitlines(), 1)


def test_snippets_are_fenced():
    """An indented block is neither coloured nor tested."""
    indented = []
    for path in DOCUMENTS:
        if path.name != "architecture.md":
            lines = lines_outside(r"^```.*?^```", path)
            indented += [
                f"{path.name}:{number}" for number, line in lines if re.match(r"    (regard|import|from|torchrun|pip) ", line)
            ]
    assert not indented


def test_no_wrapped_formula_begins_a_list():
    """A line that begins with a plus sign is a list item in Markdown, so a wrapped formula would be torn apart."""
    torn = []
    for path in (*DOCUMENTS, *sorted((ROOT / "docs" / "lessons").glob("*.md"))):
        lines = lines_outside(r"^```.*?^```|^\$\$.*?\$\$$", path)
        torn += [f"{path.name}:{number}" for number, line in lines if re.match(r"\s*\+ ", line)]
    assert not torn
