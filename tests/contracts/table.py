"""Runs the matrix of mechanisms and prints it as a table: `make contracts`.

    python tests/contracts/table.py [-k NAME]

Each cell says how many of its circumstances (masked, empty rows, batch of one, one key, one query) passed; what was refused is
listed below with its reason, and so is what failed. Exits with 1 if anything did. Compiled cells take a second each.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
MATRICES = [f"{HERE / name}::test_cell" for name in ("test_attention_matrix.py", "test_pooling_matrix.py")]
FORMS, DTYPES = ("plain", "fast", "compiled"), ("float64", "float32", "bfloat16")


class Recorder:
    """A pytest plugin that keeps each cell's outcome."""

    def __init__(self) -> None:
        self.outcomes: dict[str, tuple[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple | list) else ""
            self.outcomes[report.nodeid] = report.outcome, reason


def run(marker: str, arguments: list[str]) -> dict[str, tuple[str, str]]:
    """The matrix's outcomes, in a process of its own: under `torch.compile` shapes are not checked."""
    environment = os.environ | ({"JAXTYPING_DISABLE": "1"} if marker == "compile" else {})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcomes.json"
        command = [sys.executable, __file__, "--record", str(out), "-m", marker, *arguments]
        subprocess.run(command, env=environment, check=False, stdout=sys.stderr)
        return json.loads(out.read_text()) if out.exists() else {}


def record(out: Path, arguments: list[str]) -> int:
    recorder = Recorder()
    code = pytest.main([*MATRICES, "-q", *arguments], plugins=[recorder])
    out.write_text(json.dumps(recorder.outcomes))
    return int(code)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--record"]:
        return record(Path(arguments[1]), arguments[2:])
    outcomes = run("not compile", arguments) | run("compile", arguments)
    cells: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    refused: dict[str, set[str]] = defaultdict(set)
    for node, (outcome, reason) in outcomes.items():
        found = re.search(r"\[(?P<form>plain|fast|compiled)-(?P<circumstance>[a-z ]+)-(?P<dtype>\w+?)-(?P<case>\w+)\]$", node)
        assert found is not None, node
        cells[found["case"]][found["form"], found["dtype"]].append(outcome)
        if outcome == "skipped":
            refused[reason.removeprefix("Skipped: ")].add(f"{found['form']} {found['dtype']} {found['circumstance']}")
    console = Console(width=max(128, Console().width))
    console.print(as_table(cells))
    for reason, where in sorted(refused.items()):
        console.print(f"refused  {reason} [{len(where)} cells]", markup=False)
    failed = [node for node, (outcome, _) in outcomes.items() if outcome == "failed"]
    for node in failed:
        console.print(f"failed  {node}", markup=False)
    counts = {name: sum(outcome == name for outcome, _ in outcomes.values()) for name in ("passed", "skipped", "failed")}
    console.print(f"{counts['passed']:,} cells passed, {counts['skipped']:,} refused, {counts['failed']:,} failed")
    return 1 if failed or not outcomes else 0


def as_table(cells: dict[str, dict[tuple[str, str], list[str]]]) -> Table:
    table = Table(caption="circumstances passed (− refused, with the reasons below)")
    table.add_column("mechanism", no_wrap=True)
    for form in FORMS:
        for dtype in DTYPES:
            table.add_column(f"{form}\n{dtype}")
    for case, row in sorted(cells.items()):
        table.add_row(case, *(summary(row[form, dtype]) for form in FORMS for dtype in DTYPES))
    return table


def summary(outcomes: list[str]) -> str:
    passed, skipped = outcomes.count("passed"), outcomes.count("skipped")
    if "failed" in outcomes or not outcomes:
        return f"[red]{passed} of {len(outcomes)}[/]"
    return f"{passed}" + (f" [dim](−{skipped})[/]" if skipped else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
