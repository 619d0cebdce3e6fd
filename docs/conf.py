"""Sphinx settings of the documentation; `make docs` builds it into docs/_build."""

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
# IPython writes its history into its folder, so the kernels get a copy of docs/site/ipython.
os.environ["IPYTHONDIR"] = str(shutil.copytree(HERE / "site" / "ipython", HERE / "_build" / "ipython", dirs_exist_ok=True))
sys.path.insert(0, str(HERE.parent))  # for docs.site

import regard  # noqa: E402
from docs.site import address  # noqa: E402

project = "regard"
author = "regard maintainers"
copyright = "the regard maintainers"
release = version = regard.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "docs.site.diagrams",
    "docs.site.docstrings",
    "docs.site.mathml",
    "docs.site.execution",
    "docs.site.generated",
    "docs.site.notebooks",
    "docs.site.slides",
    "docs.site.tables",
]
exclude_patterns = ["_build", "generate", "site", "lessons/notebooks", "lessons/student", "lessons/slides", "**/*.py"]
templates_path = ["_templates"]

# Lessons run when the documentation is built. An error in one fails the build; a slow cell does not (docs.site.execution).
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "jupyter_cache")
nb_execution_timeout = 900  # seconds for a cell, of which the slowest takes two minutes on a machine that does nothing else
nb_execution_in_temp = True  # lessons write files
suppress_warnings = ["mystnb.exec"]  # docs.site.execution reports what failed
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autoclass_content = "class"  # constructors are documented in the docstring of their class
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"regard {release}"
html_math_renderer = "mathml"  # MathML is drawn by the browser itself, without a script
html_static_path = ["_static"]
html_css_files = ["regard.css", "diagrams.css"]
html_js_files = [("regard.js", {"defer": "defer"})]
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": True,
    "source_repository": address.SOURCE,  # for the link "Edit this page"
    "source_branch": address.BRANCH,
    "source_directory": "docs/",
}
html_logo = html_favicon = "_static/logo.svg"
html_context = {"repository": address.SOURCE}
_BEFORE, _AFTER = ("brand", "search"), ("scroll-start", "navigation", "scroll-end")
html_sidebars = {
    "**": [*(f"sidebar/{part}.html" for part in _BEFORE), "repository.html", *(f"sidebar/{part}.html" for part in _AFTER)]
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
