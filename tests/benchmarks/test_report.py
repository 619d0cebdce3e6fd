"""The page of claims: which benchmarks run, what is kept, and what is written."""

import json
import re
import types
from pathlib import Path

import pytest
from benchmarks import report

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for the results and the page, on a machine that is quiet."""
    monkeypatch.setattr(report, "RESULTS", tmp_path / "claims.json")
    monkeypatch.setattr(report, "PAGE", tmp_path / "claims.md")
    monkeypatch.setattr(report.os, "getloadavg", lambda: (0.1, 0.1, 0.1))
    return tmp_path


@pytest.fixture
def ran(monkeypatch):
    """The commands that ran; the benchmark `additive` prints other ratios in each round."""
    commands = []

    def run(command, **options):
        commands.append(command[2:])
        ratio = {"regard_compiled_over_compiled": 10.0 + len(commands)}
        found = {"long": {"forward": ratio, "forward_backward": {"regard_compiled_over_compiled": 3.0}}}
        return types.SimpleNamespace(returncode=0, stdout=f"a line\n{json.dumps(found)}\n")

    monkeypatch.setattr(report.subprocess, "run", run)
    return commands


def test_the_ratio_is_the_median_and_the_page_lists_it(place, ran):
    report.main(["--only", "additive", "--rounds", "3"])
    assert ran == [["benchmarks.additive"]] * 3, "both claims of a benchmark come from the same runs"
    kept = json.loads((place / "claims.json").read_text())
    assert {key: kept["additive-forward"][key] for key in ("median", "lowest", "highest", "rounds")} == {
        "median": 12.0,
        "lowest": 11.0,
        "highest": 13.0,
        "rounds": 3,
    }
    page = (place / "claims.md").read_text()
    assert "**12.00×** (11.00 to 13.00, 3 runs)" in page
    assert "**3.00×**" in page
    assert "`python -m benchmarks additive`" in page
    assert "Not measured yet: linear attention, forward" in page


def test_the_page_of_the_documentation_is_that_of_the_kept_results():
    assert report.PAGE.read_text(encoding="utf-8") == report.render(report.read_results())
    assert set(json.loads(report.RESULTS.read_text(encoding="utf-8"))) <= {claim.name for claim in report.CLAIMS}


def test_every_ratio_that_cites_the_page_is_on_it():
    measured = {claim["median"] for claim in report.read_results().values()}
    pages = [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
    cited = 0
    for path in pages:
        for paragraph in re.split(r"\n\n|\n\|", path.read_text(encoding="utf-8")):
            if re.search(r"\]\([^)]*claims\.(html|md)\)", paragraph) and path != report.PAGE:
                for ratio in re.findall(r"(\d+(?:\.\d+)?)×", paragraph):
                    digits = len(ratio.partition(".")[2])
                    assert float(ratio) in {round(value, digits) for value in measured}, f"{path.name}: {ratio}×"
                    cited += 1
    assert cited >= 8
