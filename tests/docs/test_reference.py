"""The API reference has every public name, and each name has an example and describes its parameters."""

import ast
import dataclasses
import inspect
import re
from importlib import import_module
from pathlib import Path
from types import UnionType

import pytest
from docs.site import docstrings
from docs.site.errors import collect, page
from docs.site.examples import example_of, examples
from docs.site.examples.configs import generated, place_of
from docs.site.related import links

import regard
import regard.attention
import regard.config
from regard.cli.train import split_settings
from regard.config.fields import field_docs
from regard.config.loading import load_config, parse_layer
from regard.presets import load_preset

ROOT = Path(__file__).parents[2]
MODULES = (regard, regard.attention, regard.config)
_CURRENT = re.compile(r"currentmodule:: (\S+)\n.*?:nosignatures:\n\n(.*?)```", re.S)
_CODE = re.compile(r"^```(?:\{code-cell\} ipython3|python)\n(.*?)^```", re.M | re.S)
_IMPORT = re.compile(r"^ *from (regard[\w.]*) import (?:\((.*?)\)|([^\n]*))", re.M | re.S)


def listed() -> set[tuple[str, str]]:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference").glob("api*.md"))
    return {(module, name) for module, names in _CURRENT.findall(text) for name in names.split()}


PUBLIC = [(module, name) for module in MODULES for name in module.__all__] + [
    (import_module(module), name) for module, name in sorted(listed()) if module not in {each.__name__ for each in MODULES}
]


def test_the_reference_lists_every_public_name_once():
    names = [(module.__name__, name) for module, name in PUBLIC]
    public = {module for module, _ in names}
    assert {entry for entry in listed() if entry[0] in public} == set(names), (
        "add the name to a page docs/reference/api*.md, or remove it"
    )
    assert all(hasattr(import_module(module), name) for module, name in listed())


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value))
def test_every_public_name_has_an_example(module, name):
    doc = inspect.getdoc(getattr(module, name)) or ""
    assert re.search(r"^Examples?:$", doc, re.M) or example_of(module.__name__, name), "add an example to docs/site/examples"


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value))
def test_every_parameter_is_described(module, name):
    public = getattr(module, name)
    if dataclasses.is_dataclass(public):
        missing = [field for field, doc in field_docs(public).items() if not doc and field != "kind" and field[0] != "_"]
        assert not missing, f"{name}: add a docstring below {missing}"
        return
    if isinstance(public, UnionType) or (inspect.isclass(public) and issubclass(public, Exception)):
        return  # the page of a union names its classes
    made = public.__init__ if inspect.isclass(public) else public
    if inspect.isclass(public) and ("__init__" not in vars(public) or inspect.isabstract(public)):
        return
    # Arguments that a class shares with its base class are described there.
    docs = [inspect.cleandoc(each.__doc__ or "") for each in (public.__mro__ if inspect.isclass(public) else [public])]
    doc = "\n".join(docs) + "\n" + (inspect.cleandoc(made.__doc__ or "") if made is not public else "")
    described = set(re.findall(r"^ {0,4}(\w+)(?: \([^)]*\))?: ", doc, re.M))
    parameters = {
        parameter.name
        for parameter in inspect.signature(made).parameters.values()
        if parameter.name != "self" and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    assert parameters <= described, f"{name}: describe {sorted(parameters - described)} under Args"


def test_the_configurations_of_a_run_have_generated_examples():
    assert len(generated()) > 50
    assert {"CoverageConfig", "SparsemaxConfig", "TrainingConfig", "BPEConfig", "LanguageModelConfig"} <= generated().keys()


@pytest.mark.parametrize("name", generated())
def test_python_yaml_and_command_choose_the_same(name):
    example, cls = generated()[name], getattr(regard.config, name)
    place = place_of(cls)
    namespace = {}
    exec(example.python, namespace)  # asserts that the class is chosen
    assert (
        part(load_config(parse_layer(example.yaml, "run.yaml")), place.path).__class__
        is part(namespace["config"], place.path).__class__
    )
    options, rest = split_settings("train", example.command.replace("\\\n", "").split()[3:], {"--preset": True})
    [_, option, preset] = rest
    assert option == "--preset"
    assert load_preset(preset, options) == namespace["config"]


def part(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


def test_signatures_of_configurations_are_python():
    text, _ = docstrings._signature(None, "class", "", regard.config.TransformerConfig, None, None, None)
    plain = text.replace("~", "")  # Sphinx shortens the names after it
    assert "NormalizerConfig = ..." in plain
    ast.parse(f"def made{plain}: ...")


def test_no_example_is_left_over():
    names = {name for _, name in PUBLIC} | {f"{module.__name__}.{name}".removeprefix("regard.") for module, name in PUBLIC}
    assert examples().keys() <= names


def test_the_error_index_has_the_messages():
    text = page()
    assert len(collect()) > 300
    assert "already holds a run" in text
    assert "give both the same number" in text
    assert "line …: has more than … bytes; shorten its texts" in text  # by a helper, `Table._error`
    assert "no column looks like …" in text  # in a variable
    assert "training.score\\_folds is 1, expected 0" in text  # a conflict of settings


def test_a_name_links_to_its_mechanism_and_to_pages_that_use_it():
    assert ":doc:`formula, weights and cost </mechanisms/additive>`" in links("Additive")
    assert any("</lessons/01-attention-in-ten-lines>" in link for link in links("Additive"))
    assert links("LinearPoolingConfig")[0] == ":py:obj:`~regard.attention.AttentionPooling`"
    assert links("no_such_name") == []


def test_pages_import_only_names_of_the_reference():
    names, modules = listed(), {module for module, _ in listed()}
    table = (ROOT / "docs/reference/api-config.md").read_text(encoding="utf-8").partition("## Types of settings")[2]
    types = {("regard.config.fields", name) for name in re.findall(r"^\| `(\w+)`", table, re.M)}
    assert all(hasattr(import_module(module), name) for module, name in types)
    missing = []
    for file in [ROOT / "README.md", *(ROOT / "docs").glob("[!_]*/*.md")]:
        for module, several, one in _IMPORT.findall("\n".join(_CODE.findall(file.read_text(encoding="utf-8")))):
            for name in re.findall(r"^ *(\w+)|, *(\w+)", several + one, re.M):
                found = "".join(name)
                if (module, found) not in names | types and f"{module}.{found}" not in modules:
                    missing.append(f"{file.name}: from {module} import {found}")
    assert not missing, "add the names to docs/reference/api.md"
