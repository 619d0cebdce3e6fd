"""The pages of docs/mechanisms: complete, as the generator writes them, and true."""

import inspect
import json
import re

import pytest
from docs.generate import toy
from docs.generate.docstring import describe, signature
from docs.generate.entry import slug
from docs.generate.page import MECHANISMS, example_code, is_public_mechanism, run_example
from docs.generate.pictures import solved_otherwise
from docs.generate.plain import plain_form
from docs.generate.results import FOLDER, RESULTS
from docs.generate.topics import pages

import regard.attention
from regard.attention import Additive, AttentionPooling, HardMonotonic, MultiHead, SoftMonotonic
from regard.attention.heads import attend
from regard.config import AttentionConfig, PoolingConfig

ROOT = FOLDER.parent.parent
REMEDY = "write the pages again: python -m docs.generate --text (make docs-figures for the pictures too)"


@pytest.fixture(scope="module")
def results() -> dict:
    return json.loads(RESULTS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def written(results) -> dict[str, str]:
    """What the generator writes now."""
    return pages(results)


def test_every_mechanism_that_can_be_built_has_a_page_and_a_line_in_the_index(written):
    public = {name for name in regard.attention.__all__ if is_public_mechanism(getattr(regard.attention, name))}
    assert public == {entry.name for entry in MECHANISMS}, "add an entry to docs/generate (scored, heads or ordered)"
    for name in public:
        assert f"| [{name}]({slug(name)}.md) |" in written["index.md"]


def test_every_function_normalizer_and_position_is_on_a_page(written):
    bases = "Attention|(Scored|History|Monotonic)Attention|(Projected|Recurrent)Heads|HeadModifier|RotaryScaling"
    internal = re.compile(rf"(Memory|State|Output)$|^({bases}|Pooled|Observation|build_\w+)$")
    everything, names = "\n".join(written.values()), [name for name in regard.attention.__all__ if not internal.search(name)]
    missing = [name for name in names if not re.search(rf"^(#+ {name}$|- `{name}`: )", everything, re.M)]
    assert not missing, "describe them in docs/generate"


def test_the_pages_are_what_the_generator_writes(written):
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert on_disk.keys() == written.keys(), REMEDY
    changed = [name for name in written if on_disk[name] != written[name]]
    assert not changed, REMEDY


@pytest.mark.parametrize("entry", MECHANISMS, ids=lambda entry: entry.name)
def test_what_a_page_says_is_complete(entry):
    described = describe(entry.kind)
    assert described.labelled.keys() & {"Reference", "Differs from the paper", "Differs from the tutorial"}
    assert described.arguments.keys() == {p.name for p in signature(entry.kind)}, "the constructor's docstring names others"
    assert 1 <= len(entry.when.split(". ")) <= 4
    lines = entry.example.splitlines()
    assert 3 <= len(lines) <= 6
    assert max(map(len, lines)) <= 128
    names = "|".join([entry.name, *(thing.__name__ for thing in entry.also)])
    for path in entry.tests:
        assert path.endswith("test_attention.py") or re.search(rf"\b({names})\b", (ROOT / path).read_text("utf-8")), path


@pytest.mark.parametrize("entry", MECHANISMS, ids=lambda entry: entry.name)
def test_a_page_links_the_papers_that_it_cites(entry, written):
    [*references] = re.findall(r"^\*\*Reference\.\*\* (.*)$", written[f"{entry.slug}.md"], re.M)
    assert references or "Reference" not in describe(entry.kind).labelled
    for reference in references:
        text, number = re.subn(r"\]\(https://[^)]*\)", "", reference)
        assert number >= len(re.findall(r"\b(?:19|20)\d\d\b", text)) > 0, "add the paper to docs/papers.py"


@pytest.mark.parametrize("entry", MECHANISMS, ids=lambda entry: entry.name)
def test_every_example_runs_and_shows_no_false(entry):
    """Examples print shapes and claims; a claim that came out False would be printed as well."""
    printed = run_example(example_code(entry.example))
    assert printed
    if entry.name != "Additive":
        assert "False" not in printed


def test_every_code_block_of_the_pages_runs(written):
    for name, text in written.items():
        for block in re.findall(r"```python\n(import .*?)```", text, re.S):
            assert run_example(block), name


def test_every_link_and_picture_is_there(written):
    for name, text in written.items():
        for target in re.findall(r"\]\((?!https:)([^)#]+?)(?:#[\w-]+)?\)", text):
            assert (FOLDER / target).is_file(), f"{name}: {target}"


def test_every_page_shows_the_plain_form_and_the_option(written):
    """The form is taken from the module, and the option is one that the configuration of a run knows."""
    for entry in MECHANISMS:
        text, source = (
            written[f"{entry.slug}.md"],
            inspect.getsource(attend if entry.kind is MultiHead else inspect.getmodule(entry.kind)),
        )
        shown = text.split("## The plain form")[1].split("```python\n")[1].split("```")[0]
        assert re.search(r"^def \w+", shown), entry.name
        for line in shown.splitlines():
            assert line in source or line.strip() == '"""' or '"""' in line, f"{entry.name}: {line}"
        [name] = set(re.findall(r"`--model\.(?:decoder\.attention|pooling)\.kind (\w+)", text))
        assert name in AttentionConfig.kinds() | PoolingConfig.kinds(), entry.name


def test_the_readme_shows_six_mechanisms_with_their_scores():
    rows = re.findall(
        r"^\| \[(\w+)\]\(\S+/mechanisms/([\w-]+)\.html\) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.M
    )
    entries = {entry.name: entry.slug for entry in MECHANISMS}
    assert len(rows) == 6
    assert all(entries[name] == page for name, page in rows)


def test_the_functions_of_a_plain_form_are_those_that_the_class_calls():
    def names(kind):
        return re.findall(r"^def (\w+)", plain_form(kind), re.M)

    assert names(Additive) == ["plain_additive_scores", "fastest_scores"]
    assert names(AttentionPooling) == ["linear_scores"]
    assert names(SoftMonotonic) == ["stopping_energies", "plain_alignments", "expected_alignments"]
    assert set(names(MultiHead)) == {"split_heads", "join_heads", "head_product", "head_scores"}
    assert "Args:" not in plain_form(HardMonotonic)


def test_the_results_are_what_the_words_beside_them_say(results):
    def accuracy(name: str, task: str) -> float:
        return results[name][task]["accuracy"]

    for name in ("Additive", "Concat", "SumConcat", "Dot", "General", "ScaledDot", "SelfAttention", "MultiHead"):
        assert accuracy(name, "copy") > 0.95, name
        assert accuracy(name, "reverse") > 0.95, name
    for name in ("SoftMonotonic", "HardMonotonic", "MoChA", "HardMoChA"):
        assert accuracy(name, "copy") > 0.95, name
        assert accuracy(name, "reverse") < 0.7, "what is monotonic cannot reverse"
    for name in ("LinearConcat", "AttentionPooling"):
        assert all(accuracy(name, task) < 0.2 for task in toy.TASKS), "what ignores the query gives one letter everywhere"


def test_the_toy_problem_can_be_learnt_and_comes_out_the_same_again():
    [first], [second] = (toy.run(lambda: Additive(toy.WIDTH), "copy", steps=40) for _ in range(2))
    assert (first.weights == second.weights).all()
    assert first.accuracy == second.accuracy > 0.15


def test_rows_that_are_right_for_another_reason_are_found_and_named(written):
    weights = [[[0, 900, 100], [0, 1000, 0], [0, 0, 0]]]
    found = {"source": "abc", "target": "aba", "output": "abc", "thousandths": weights, "accuracy": 0.9, "attended": 0.8}
    assert solved_otherwise(found) == {0: ("b", 0.9)}
    assert "in sort `b` is written while `k` has a weight of 0.99" in written["coverage.md"]
    assert "This is no better than guessing" in written["linear-concat.md"]
