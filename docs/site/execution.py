"""What happens to lessons that did not run to their end: a slow machine is no reason to have no documentation, an error is one.

A lesson with a cell that takes longer than `nb_execution_timeout` is shown without the outputs of that cell and of those below
it, and the build says so. The next build tries it again. An error in a cell is an error of the build.
"""

from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at the results of the lessons when all pages have been read."""
    app.connect("env-updated", _look)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _look(app: Sphinx, env: BuildEnvironment) -> None:
    for name in sorted(env.found_docs):
        result = NbMetadataCollector.get_exec_data(env, name)
        if result is None or result["succeeded"]:
            continue
        if result["error"] != "CellTimeoutError":
            raise ExtensionError(f"{name}: a cell failed with {result['error']}\n{result['traceback']}")
        limit = app.config.nb_execution_timeout
        print(
            f"skipped: the rest of {name}, because one of its cells took more than {limit} s; "
            "run `make docs` again when the machine is less busy"
        )
