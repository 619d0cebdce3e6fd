"""Pages that are written when the documentation is built: commands, settings, presets and errors from the code; the changelog.

Those from the code are written into docs/reference/generated, which is not part of the repository.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from docs.site import commands, errors
from docs.site.folding import folded, search_field

FOLDER = Path(__file__).parents[1] / "reference" / "generated"
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
_CHANGES = re.compile(r"^### (.+)\n\n((?:[- ] .*\n|\n(?=[- ] ))+)", re.M)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads its sources."""
    app.connect("builder-inited", lambda _: write_pages())
    app.connect("builder-inited", lambda _: remove_old_names(FOLDER / "api"), priority=900)  # after autosummary
    app.connect("source-read", _add_changelog)
    app.connect("html-page-context", _leave_out_edit_link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages() -> None:
    """Write all pages. Files whose text has not changed stay as they are, so that Sphinx does not read them again."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    pages = {"commands.md": commands.page(), "presets.md": presets(), "errors.md": errors.page(), **settings()}
    for name, text in pages.items():
        file = FOLDER / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def remove_old_names(folder: Path) -> None:
    """Remove the pages of names that an earlier build has documented and that are gone since."""
    for file in folder.glob("*.rst"):
        module, _, name = file.stem.rpartition(".")
        try:
            known = hasattr(import_module(module), name)
        except ImportError:
            known = False
        if not known:
            file.unlink()


def _leave_out_edit_link(app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave out the link "Edit this page" on pages whose text is written from the code."""
    if name.startswith(("reference/generated/", "mechanisms/", "changelog")):
        context["page_source_suffix"] = ""


def _add_changelog(app: Sphinx, name: str, source: list[str]) -> None:
    if name == "changelog":
        app.env.note_dependency(str(CHANGELOG))
        source[0] = changelog()


def changelog() -> str:
    """Return the changelog with the entries below each heading folded, and a field to search them."""

    def fold(found: re.Match[str]) -> str:
        entries = found[2].strip()
        count = len(re.findall("^- ", entries, re.M))
        return f"### {found[1]}\n\n{folded(f'{count} entries' if count > 1 else '1 entry', entries)}\n\n"

    text = _CHANGES.sub(fold, CHANGELOG.read_text(encoding="utf-8"))
    return text.replace("\n## ", f"\n{search_field('Search the changes:')}\n\n## ", 1)


def settings() -> dict[str, str]:
    """Return the page about settings, and one page for the settings of each task, by the names of their files."""
    from regard.config.plugins import BUILT_IN, locate_task

    tasks = {name: locate_task(name).config_class for name in BUILT_IN}
    about = [
        "Set them in a YAML file (`regard train translation run.yaml`), on the command line (`--training.max_epochs 20`), or",
        'from Python (`regard.choose_config("translation", {"training.max_epochs": 20})`). Without a preset, settings that you',
        "leave out are chosen from the data; the defaults on these pages apply with a preset or a file. See",
        "[How settings are chosen](../../explanation/choosing.md).",
    ]
    links = [f"- [Settings of {task}](settings-{task}.md)" for task in tasks]
    contents = "\n".join(["```{toctree}", ":hidden:", "", *(f"settings-{task}" for task in tasks), "```"])
    pages = {"settings.md": "\n\n".join(["# Settings", " ".join(about), "\n".join(links), contents]) + "\n"}
    for task, config in tasks.items():
        pages[f"settings-{task}.md"] = "\n\n".join([f"# Settings of {task}", *_sections(config)]) + "\n"
    return pages


def _sections(config: type) -> Iterator[str]:
    """Yield the headings and the settings of a config, in order; the settings below a heading are folded."""
    from regard.config.describe import describe

    yield search_field("Search the settings:")
    entries: list[str] = []
    for setting in describe(config):
        if setting.heading:
            yield from _folded(entries)
            entries = []
            kind = f" with `kind: {setting.kind}`" if setting.kind else ""
            yield f"## `{setting.name}`{kind}\n\n{setting.doc}"
        else:
            choices = f" One of {', '.join(f'`{choice}`' for choice in setting.choices)}." if setting.choices else ""
            default = f" (default: `{setting.default}`)" if setting.default else ""
            entries.append(f"`{setting.name}`{default}\n: {setting.doc.replace('<', '&lt;')}{choices}")
    yield from _folded(entries)


def _folded(entries: list[str]) -> Iterator[str]:
    if entries:
        yield folded(f"{len(entries)} setting{'s' * (len(entries) > 1)}", "\n\n".join(entries))


def presets() -> str:
    """Return the page with every preset and its comments."""
    parts = ["# Presets", "Use one with `--preset NAME`; `regard presets NAME` prints it."]
    for file in sorted(files("regard.presets").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".yaml"):
            parts += [f"## {file.name.removesuffix('.yaml')}", f"```yaml\n{file.read_text(encoding='utf-8').rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"
