"""No two files of the package repeat each other.

Two measures are tested. The plain one counts every line that says something (`plain_lines`); 15% holds between most packages,
and `ABOVE` lists the limits that hold where files implement one contract. The narrow one counts statements only, and 15% holds
everywhere.

The share of two files is the number of lines of statements that both have, divided by the number of non-blank lines of the
smaller one. Lines that files have in common because they follow one contract or one style do not count: imports, docstrings,
comments, signatures, decorators, fields of classes (two configs with a setting of the same name), constructors that store
their arguments, lines that only open or close a bracket, and lines of keywords alone, such as `else:`. The programs in
`export/examples` do not count either: each is copied next to an exported model and runs there alone, without this package.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

import regard

PACKAGE = Path(regard.__file__).parent
STANDALONE = PACKAGE / "export" / "examples"
LARGEST_SHARE = 0.15
SMALLEST_FILE = 40
"""Number of non-blank lines below which a share says little."""
_OPENING = re.compile(r"(return |raise |yield |with |[\w.]+ = )?[\w.]*[(\[{]+")
_STORING = re.compile(r"self\.(\w+) = \1|super\(\)\.__init__\(\)")
_KEYWORDS = frozenset(("while True:", "else:", "try:", "finally:", "break", "continue", "pass", "return", "return None"))


def _left_out(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of everything that is not a statement by this module's measure."""
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                yield node.lineno, node.end_lineno or node.lineno
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                first = min(node.lineno, *(decorator.lineno for decorator in node.decorator_list), node.lineno)
                yield first, node.body[0].lineno - 1
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign):
                    yield field.lineno, field.end_lineno or field.lineno


def statements(source: str) -> Counter[str]:
    """Return the lines of statements in a file, without indentation."""
    skipped = {line for first, last in _left_out(ast.parse(source)) for line in range(first, last + 1)}
    lines = ((number, line.strip()) for number, line in enumerate(source.split("\n"), 1))
    return Counter(
        line
        for number, line in lines
        if number not in skipped
        and any(map(str.isalnum, line))
        and not line.startswith("#")
        and line not in _KEYWORDS
        and not _OPENING.fullmatch(line)
        and not _STORING.fullmatch(line)
    )


def share(first: str, second: str) -> float:
    """Return the share of common statements in the non-blank lines of the smaller of two files."""
    sizes = [sum(bool(line.strip()) for line in source.split("\n")) for source in (first, second)]
    return (statements(first) & statements(second)).total() / min(sizes)


def test_no_two_files_share_more_than_a_few_statements():
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")) if path.parent != STANDALONE}
    sizes = {path: sum(bool(line.strip()) for line in source.split("\n")) for path, source in sources.items()}
    counts = {path: statements(source) for path, source in sources.items() if sizes[path] >= SMALLEST_FILE}
    shares = [
        ((counts[first] & counts[second]).total() / min(sizes[first], sizes[second]), first, second)
        for first, second in combinations(counts, 2)
    ]
    largest, first, second = max(shares)
    names = f"{first.relative_to(PACKAGE)} and {second.relative_to(PACKAGE)}"
    assert largest <= LARGEST_SHARE, f"{names} share {largest:.0%} of the smaller one; give what they share one home"


SMALLEST_COMMON = 10
"""Number of common lines below which a share of a short file says little: a few imports."""
_EMPTY_WORDS = frozenset(
    (
        "from __future__ import annotations",
        "if TYPE_CHECKING:",
        "Args:",
        "Returns:",
        "Raises:",
        "Yields:",
        "Attributes:",
        *_KEYWORDS,
    )
)
ABOVE = {
    ("attention", "attention"): (0.60, "every mechanism has the constructor, `prepare` and `attend` of one contract"),
    ("models", "models"): (0.60, "every model has the constructor, `encode`, `decode` and `step` of one contract"),
    ("inference", "models"): (0.30, "packed models have the methods of models"),
    ("layers", "layers"): (0.50, "decoders with and without a source have the same arguments"),
    ("decoding", "decoding"): (0.55, "greedy search, beam search, sampling and forcing document the same arguments"),
    ("decoding", "tasks"): (0.20, "imports, and the arguments of a search"),
    ("tasks", "tasks"): (0.55, "every task implements one interface with the same imports"),
    ("task", "task"): (0.20, "abstract methods"),
    ("config", "config"): (0.35, "decorators of dataclasses, and signatures of `build`"),
    ("cli", "cli"): (0.40, "every command begins with the same imports and a parser"),
    ("viz", "viz"): (0.55, "pictures of one record have the same imports and arguments"),
    ("export", "export"): (0.70, "each of the programs in `export/examples` is copied next to a model and runs there alone"),
    ("text", "text"): (0.25, "every kind of data implements one schema"),
    ("training", "training"): (0.20, "a folder, and the same folder for several processes, have the same methods"),
    ("bundle", "training"): (0.20, "imports"),
    ("analysis", "records"): (0.20, "arguments of functions that build records"),
}
"""By packages of a pair: the largest share that it may have where 15% does not hold yet, and the reason for it."""


def plain_lines(source: str) -> Counter[str]:
    """Return the lines of a file that say something, without indentation.

    Counted are imports, docstrings, comments, signatures, decorators and fields. Blank lines do not, nor do those without
    a letter or a digit (brackets, the quotes of a docstring) and lines that every file has, such as `else:` or `Args:`.
    """
    lines = map(str.strip, source.split("\n"))
    return Counter(line for line in lines if any(map(str.isalnum, line)) and line not in _EMPTY_WORDS)


def plain_share(first: Counter[str], second: Counter[str]) -> float:
    """Return the share of common lines in the lines of the shorter file; 0 if there are too few common lines to judge."""
    common = (first & second).total()
    return common / min(first.total(), second.total()) if common >= SMALLEST_COMMON else 0.0


def test_no_two_files_share_many_lines():
    files = {path.relative_to(PACKAGE): plain_lines(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    wrong = []
    for (first, one), (second, other) in combinations(sorted(files.items()), 2):
        packages = tuple(sorted((first.parts[0], second.parts[0])))
        limit, _ = ABOVE.get(packages, (LARGEST_SHARE, ""))
        if (share := plain_share(one, other)) > limit:
            wrong.append(f"{first} and {second} share {share:.0%} of the shorter one's lines, at most {limit:.0%} is allowed")
    assert not wrong, "; ".join(wrong) + ": give what they share one home"


def test_a_copied_field_and_its_docstring_count():
    config = "\n".join(f'size_{number}: int = 0\n"""Size {number}."""' for number in range(6))
    assert plain_share(plain_lines(config), plain_lines(f"import math\n{config}\n\n)\nelse:")) == 1
    assert plain_share(plain_lines("a = 1\nb = 2"), plain_lines("a = 1\nb = 2")) == 0


COPIED = """
def area(width: float, height: float) -> float:
    \"\"\"Return the area.\"\"\"
    product = width * height
    if product < 0:
        product = -product
    return product
"""


def test_a_copy_is_found_under_another_name_and_docstring():
    other = COPIED.replace("def area", "def surface").replace("Return the area.", "Return the surface.")
    assert share(COPIED, other) == pytest.approx(4 / 6)
    assert share(COPIED, "import math\n\n\ndef half(x: float) -> float:\n    return x / 2\n") == 0


def test_child_processes_do_not_import_from_the_working_directory():
    """With -m or -c, Python imports modules from the working directory first, which may be the folder of a stranger's model."""

    def starts(text):
        return re.findall(r"sys\.executable, *([^,)]*)", text)

    assert starts('run([sys.executable, "-m", "regard"])') == ['"-m"']
    started = [found for path in PACKAGE.rglob("*.py") for found in starts(path.read_text())]
    assert set(started) <= {'"-P"', '"-I"'}
