"""regard: the attention toolkit for PyTorch.

A public name is imported when it is first used, so that `import regard` does not import torch. `__init__.pyi` contains all
public names.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from regard.errors import missing_package
from regard.homes import read_homes
from regard.processes.cores import wait_passively
from regard.rendering import set_renderer

_HOMES = {**read_homes(__file__), "fit": "regard.training"}
__all__ = sorted(_HOMES.keys() - {"__version__"})


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name) or (f"regard.{name}" if name in _submodules() else "")
    if not home:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    wait_passively()
    try:
        found = import_module(home)
    except ModuleNotFoundError as error:
        if advice := missing_package(error):
            raise ModuleNotFoundError(f"regard.{name} {advice}", name=error.name) from error
        raise
    return getattr(found, name) if name in _HOMES else found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_submodules()})


@cache
def _submodules() -> set[str]:
    """Return the names of this package's public modules and packages. `__getattr__` imports each of them at its first use."""
    return {module.name for module in iter_modules(__path__) if not module.name.startswith("_")}


def _find_renderer() -> Any:
    from regard.viz import drawing

    return drawing


set_renderer(_find_renderer)
