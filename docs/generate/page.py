"""Pages in Markdown, from entries, docstrings and results."""

import contextlib
import inspect
import io
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

import regard.attention
from docs.formulas import FORMULAS
from docs.generate.docstring import call, describe, signature
from docs.generate.entry import Mechanism
from docs.generate.heads import HEADS
from docs.generate.ordered import ORDERED
from docs.generate.pictures import percent, solved_otherwise
from docs.generate.plain import section
from docs.generate.recurrent import RECURRENT
from docs.generate.scored import SCORED
from docs.generate.softmax_heads import SOFTMAX_HEADS
from docs.generate.toy import TASKS
from docs.papers import link_papers
from regard.attention import MultiHead

MECHANISMS: list[Mechanism] = [*SCORED, *HEADS, *SOFTMAX_HEADS, *RECURRENT, *ORDERED]
SOFT_FORM = {"HardMonotonic": "SoftMonotonic", "HardMoChA": "MoChA"}
Results = Mapping[str, Any]
_BETTER_THAN_CHANCE, _NEARLY_ALWAYS = 0.2, 0.9
"""At an accuracy below the first limit, a model only guesses: always writing the same letter of the source is right in one of
eight steps (0.125). The second limit is for the share of steps in which the correct letter has the largest weight.
"""


def render(entry: Mechanism, results: Results) -> str:
    """Return the page of a mechanism."""
    described = describe(entry.kind)
    blocks = [
        f"# {entry.name}",
        described.text[0],
        f"$$\n{FORMULAS[entry.name]}\n$$",
        *described.text[1:],
        *(_labelled(label, text) for label, text in described.labelled.items() if label != "Cost"),
        "## Example",
        show_example(entry.example),
        "## The plain form",
        f"{section(entry.kind)} {entry.settings}",
        "## Properties",
        _declarations(entry),
        "## Copying, reversing, sorting",
        _results(entry, results),
        "## Arguments",
        _arguments(entry.kind),
        *_called(entry),
        "## Cost",
        f"Operations are multiply-adds, and the numbers of bytes are for float32. {COST_LINK}.\n\n"
        f"- Operations: {entry.operations}\n- Bytes: {entry.memory}",
        "## When to choose it, and when not",
        entry.when,
        *([entry.notes.strip()] if entry.notes else []),
        *([f"## {entry.also_title}"] if entry.also else []),
        *(render_function(function) for function in entry.also),
        "## Tests",
        "\n".join(f"- [{path}](../../{path})" for path in entry.tests),
    ]
    return join_blocks(blocks)


COST_LINK = "[The index](index.md#cost) explains the letters"


def render_function(documented: Callable[..., Any], *, level: int = 3) -> str:
    """Return the section on a function, or on a class that is not a mechanism."""
    described = describe(documented)
    blocks = [
        f"{'#' * level} {documented.__name__}",
        *described.text,
        *(_labelled(label, text) for label, text in described.labelled.items()),
        _arguments(documented),
    ]
    if "Returns" in described.sections:
        blocks.append(f"Returns: {described.sections['Returns']}")
    return "\n\n".join(blocks)


def join_blocks(blocks: list[str]) -> str:
    """Join blocks with an empty line between them, and leave out blocks without text."""
    return "\n\n".join(block.strip() for block in blocks if block.strip()) + "\n"


def _labelled(label: str, text: str) -> str:
    """Return a paragraph with its label and links to papers. After "Differs from …", the text gets a capital letter."""
    text = link_papers(text, "[{}]({})".format)
    return f"**{label}.** {text[0].upper() + text[1:] if label.startswith('Differs') else text}"


def _declarations(entry: Mechanism) -> str:
    """Return the table of the properties that the class declares."""
    rows = []
    for name, meaning in (
        ("normalized", "the weights of a row sum to one, or to zero where there is nothing to attend to"),
        ("permutation_equivariant", "permuting the keys permutes the weights"),
        ("stateful", "the weights depend on earlier queries, so queries must be given in order"),
        ("sequential", "queries are computed one after the other; `torch.export` then needs a fixed number of queries"),
    ):
        rows.append(f"| `{name}` | {_declared(entry, name)} | {meaning} |")
    table = "\n".join(["| property | value | if yes |", "|---|---|---|", *rows])
    return f"{table}\n\nState: {entry.state}."


def _declared(entry: Mechanism, name: str) -> str:
    if entry.name == "AttentionPooling":
        return {"normalized": "as its normalizer", "permutation_equivariant": "yes", "stateful": "no", "sequential": "no"}[name]
    if entry.name == "MultiHead" and name != "normalized":
        return {
            "permutation_equivariant": "yes, unless it is causal or has a window or positions",
            "stateful": "if it is causal, or if its window ends at the query",
            "sequential": "no",
        }[name]
    made = _small(entry)
    value = "yes" if getattr(made, name) else "no"
    takes_one = "normalizer" in {p.name for p in signature(entry.kind)} or hasattr(made, "scorer")
    return f"{value}, as its normalizer" if name == "normalized" and value == "yes" and takes_one else value


def _small(entry: Mechanism) -> nn.Module:
    """Return an instance of the mechanism, whose properties the page shows; a hard form is made from its soft form."""
    soft = SOFT_FORM.get(entry.name)
    if soft is None:
        assert entry.build is not None
        return entry.build()
    [other] = [m for m in MECHANISMS if m.name == soft]
    assert other.build is not None
    hard: nn.Module = other.build().hard()  # type: ignore[operator]
    return hard


def _results(entry: Mechanism, results: Results) -> str:
    found = results[entry.name]
    scores = ", ".join(f"{task} {percent(found[task]['accuracy'])}" for task in TASKS)
    return (
        f"![Weights of {entry.name} in three toy problems](figures/{entry.slug}.png)\n\n"
        f"Correct letters in 512 new sequences: {scores}. {entry.picture}".rstrip()
        + f"\n\n{_meaning(found)}\n\n[How to read the picture](index.md#the-toy-problem)."
    )


def _meaning(found: Mapping[str, Any]) -> str:
    """Return sentences that say how often the correct letter has the largest weight.

    They also name steps in which the model writes the correct letter although another letter has the largest weight.
    """
    shares = ", ".join(f"{task} {percent(found[task]['attended'])}" for task in TASKS)
    sentences = [f"Share of the steps in which the correct letter has the largest weight: {shares}."]
    rows = [
        f"in {task} `{found[task]['target'][row]}` is written while "
        + (f"`{letter}` has a weight of {weight:.2f}" if weight >= 0.005 else "no letter has a weight")
        for task in TASKS
        for row, (letter, weight) in solved_otherwise(found[task]).items()
        if found[task]["accuracy"] >= _BETTER_THAN_CHANCE
    ]
    if all(found[task]["accuracy"] < _BETTER_THAN_CHANCE for task in TASKS):
        sentences.append(
            "This is no better than guessing. In an orange row, the guess is right although another letter has the largest "
            "weight."
        )
    elif rows:
        listed = "; ".join(rows[:3]) + (f"; and {len(rows) - 3} more" if len(rows) > 3 else "")
        sentences.append(f"In orange rows, the letter is right although another one has the largest weight: {listed}.")
    gaps = {task: found[task]["accuracy"] - found[task]["attended"] for task in TASKS}
    largest = max(gaps, key=lambda task: gaps[task])
    if gaps[largest] >= 0.02:
        sentences.append(
            f"In {largest}, the model sometimes writes the correct letter although another letter has the largest weight: the "
            "output layer has learned to recognise some letters from contexts that consist mostly of other letters "
            "([why](index.md#what-the-weights-mean))."
        )
    elif not rows and min(found[task]["attended"] for task in TASKS) > _NEARLY_ALWAYS:
        sentences.append("So the largest weight shows which letter the model copies.")
    return " ".join(sentences)


def _arguments(documented: Callable[..., Any]) -> str:
    described, parameters = describe(documented), signature(documented)
    lines = [f"```python\n{call(documented)}\n```"]
    if parameters:
        rows = ["| argument | type | default | meaning |", "|---|---|---|---|"]
        for parameter in parameters:
            default = "" if parameter.default is None else f"`{_cell(parameter.default)}`"
            meaning = _cell(described.arguments.get(parameter.name, ""))
            rows.append(f"| `{parameter.name}` | `{_cell(parameter.kind)}` | {default} | {meaning} |")
        lines.append("\n".join(rows))
    if "Raises" in described.sections:
        lines.append(f"Raises: {described.sections['Raises']}")
    return "\n\n".join(lines)


def _called(entry: Mechanism) -> list[str]:
    if entry.name == "AttentionPooling":
        return [
            "It is called with `values` (B,K,D) and, if some are padding, a boolean `key_mask` (B,K). It returns the "
            "context (B,D) and the weights (B,K). `reweight` is a function of the weights and of a mask that can be broadcast "
            "to their shape; its result replaces the weights."
        ]
    has_heads = issubclass(entry.kind, MultiHead)
    weights = "(B,H,Q,K)" if has_heads else "(B,Q,K)"
    width = "D" if has_heads or entry.name == "SelfAttention" else "Dv"
    return [
        "Like every mechanism, it is called with `query` (B,Q,Dq), `key` (B,K,Dk) and, unless the keys are the values, "
        f"`value` (B,K,Dv). It returns the context (B,Q,{width}) and the weights {weights}. See [the call](index.md#the-call)."
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def show_example(example: str) -> str:
    """Return the code of an example, and its output."""
    code = example_code(example)
    return f"```python\n{code}\n```\n\nIt prints:\n\n```text\n{run_example(code)}\n```"


def example_code(example: str) -> str:
    """Return the example with the imports that it needs."""
    names = sorted((n for n in regard.attention.__all__ if re.search(rf"\b{n}\b", example)), key=lambda n: (n[0].islower(), n))
    return f"import torch\nfrom regard.attention import {', '.join(names)}\n\n{example.strip()}"


def run_example(code: str) -> str:
    """Return the output of an example, without changing the state of the random numbers."""
    printed = io.StringIO()
    with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(printed):
        torch.manual_seed(0)
        exec(compile(code, "<example>", "exec"), {"__name__": "example"})
    return printed.getvalue().rstrip()


def is_public_mechanism(thing: object) -> bool:
    """Return whether an exported object is a mechanism that can be built. Such mechanisms have pages."""
    kinds = (regard.attention.Attention, regard.attention.AttentionPooling)
    return inspect.isclass(thing) and issubclass(thing, kinds) and not inspect.isabstract(thing)
