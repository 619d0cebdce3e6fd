"""No two files of the package repeat each other's statements.

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
