"""regard installed without its dependencies: attention needs four packages, and everything else says what is missing."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIGHT = {"torch", "numpy", "jaxtyping", "pyyaml"}
_BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Absent())
"""


def absent_modules() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = {requirement.partition(">")[0].strip() for requirement in project["dependencies"]}
    assert packages >= LIGHT
    return {package.replace("-", "_") for package in packages - LIGHT} | {"scipy", "pandas", "huggingface_hub", "spacy"}


def run_light(code: str) -> subprocess.CompletedProcess:
    program = _BLOCK.format(absent=sorted(absent_modules())) + code
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_attention_needs_four_packages():
    done = run_light(
        """
import torch
import regard.attention
from regard.attention import Additive, MultiHead

for name in regard.attention.__all__:
    getattr(regard.attention, name)
x = torch.randn(2, 5, 64)
print(*(tuple(module(x, x).context.shape) for module in (Additive(64), MultiHead(64, num_heads=8))))
print(regard.record([[1.0]], ["a"], ["b"]).pharaoh())
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["(2, 5, 64) (2, 5, 64)", "0-0"]


def test_everything_else_names_the_missing_package():
    done = run_light("import regard; regard.load('runs/mine')")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: regard.load needs the package '")
    assert last.endswith("install the rest: pip install 'regard @ git+https://github.com/regard-attention/regard'")


def test_a_command_names_the_missing_package_without_a_traceback(tmp_path):
    done = run_light(f"from regard.cli.main import main; sys.exit(main(['demo', '--out', r'{tmp_path / 'demo'}']))")
    assert done.returncode == 2
    assert done.stderr.startswith("regard: demo needs the package '")
    assert done.stderr.endswith("install the rest: pip install 'regard @ git+https://github.com/regard-attention/regard'\n")


def test_a_module_of_regard_that_does_not_exist_is_no_missing_package():
    from regard.errors import missing_package

    assert missing_package(ModuleNotFoundError("No module named 'regard.nothing'", name="regard.nothing")) == ""
