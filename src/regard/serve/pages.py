"""Two small pages without scripts: the list of the models, and the reference of the endpoints."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from regard.task import TextOperation, find_task

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #8885; vertical-align: top; }
pre { overflow-x: auto; padding: .8rem; background: #8881; border-radius: 6px; }
"""
_FRAME = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
{content}
</html>
"""


def home(models: Sequence[Mapping[str, Any]]) -> str:
    """Return a page that lists the models.

    Args:
        models: Descriptions of the models, from `Served.describe`.
    """
    rows = [[model["name"], model["task"], ", ".join(_paths(model["task"])), ", ".join(model["sites"])] for model in models]
    content = (
        "<h1>regard</h1><h2>Models</h2>"
        + _table(["name", "task", "endpoints", "attention"], rows)
        + '<p><a href="docs">Reference of the endpoints</a> · <a href="openapi.json">OpenAPI</a> · '
        + '<a href="metrics">metrics</a></p>'
    )
    return _FRAME.format(title="regard", style=_STYLE, content=content)


def _paths(task: str) -> list[str]:
    return [f"/v1/{one.name}" for one in find_task(task).operations if issubclass(one, TextOperation)]


def reference(schema: Mapping[str, Any]) -> str:
    """Return a page that describes the endpoints.

    Args:
        schema: The OpenAPI description.
    """
    parts = [f"<h1>Endpoints</h1><p>{escape(schema['info']['description'])}</p>"]
    components = schema.get("components", {}).get("schemas", {})
    for path, methods in schema["paths"].items():
        for method, facts in methods.items():
            parts.append(f"<h2>{method.upper()} {escape(path)}</h2>")
            parts += [f"<p>{escape(part)}</p>" for part in facts.get("description", "").split("\n\n")]
            if "requestBody" in facts:
                name = facts["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                parts.append(_body(path, components[name]))
            answered = [(status, answer["description"]) for status, answer in facts["responses"].items()]
            parts.append("<h3>Answers</h3>" + _table(["status", "meaning"], answered))
    return _FRAME.format(title="regard: endpoints", style=_STYLE, content="\n".join(parts))


def _body(path: str, schema: Mapping[str, Any]) -> str:
    """Return HTML that describes the body of a request: an example of a command, and a table of the fields."""
    required = schema.get("required", ())
    rows = []
    for name, field in schema["properties"].items():
        default = "required" if name in required else json.dumps(field.get("default"))
        rows.append([name, _kind(field), default, field.get("description", "")])
    example = {name: field["examples"][0] for name, field in schema["properties"].items() if field.get("examples")}
    command = f"curl --json '{json.dumps(example)}' http://127.0.0.1:8000{path}"
    return f"<pre>{escape(command)}</pre>" + _table(["field", "type", "default", "meaning"], rows)


def _kind(field: Mapping[str, Any]) -> str:
    """Return the type of a field, with its limits."""
    kinds = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    one = kinds[0] if kinds else field
    limits = {"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
    shown = [f"{sign} {one[name]:g}" for name, sign in limits.items() if name in one]
    if one.get("type") == "array":
        return f"list of {_kind(one['items'])}, at most {one['maxItems']}" if "maxItems" in one else "list"
    if "maxLength" in one:
        shown.append(f"at most {one['maxLength']:,} characters")
    return ", ".join([one.get("type", ""), *shown])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{lines}</table>"
