"""Two small pages, made from `pages.html`: the models, with a form to try them, and the reference of the endpoints."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from regard.task import TextOperation, find_task

_TEMPLATE = Environment(loader=PackageLoader("regard.serve", ""), autoescape=True, undefined=StrictUndefined).get_template(
    "pages.html"
)
_SCRIPT = files("regard.serve").joinpath("pages.js").read_text(encoding="utf-8")
_HASH = f"sha256-{base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()}"
_LIMITS = {"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}


def home(models: Sequence[Mapping[str, Any]]) -> str:
    """Return a page that lists the models, given their descriptions from `Served.describe`."""
    rows, tried = [], []
    for model in models:
        operations = [one for one in find_task(model["task"]).operations if issubclass(one, TextOperation)]
        paths = ", ".join(f"/v1/{one.name}" for one in operations)
        rows.append([model["name"], model["task"], paths, ", ".join(model["sites"])])
        for one in operations[:1]:
            facts = {"inputs": one.inputs, "example": one.example, "streams": one.streams}
            tried.append({"name": model["name"], "path": f"v1/{one.name}", **facts})
    return _TEMPLATE.render(title="regard", models=rows, tried=tried, script=_SCRIPT, hash=_HASH)


def reference(schema: Mapping[str, Any], address: str) -> str:
    """Return a page that describes the endpoints, given the OpenAPI description and the address of the service."""
    facts = {"description": schema["info"]["description"], "endpoints": list(_endpoints(schema)), "address": address}
    return _TEMPLATE.render(title="regard: endpoints", hash=_HASH, **facts)


def _endpoints(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    components = schema.get("components", {}).get("schemas", {})
    for path, methods in schema["paths"].items():
        for method, facts in methods.items():
            properties, required = {}, ()
            if "requestBody" in facts:
                name = facts["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                properties, required = components[name]["properties"], components[name].get("required", ())
            yield {
                "path": path,
                "method": method.upper(),
                "parts": facts.get("description", "").split("\n\n"),
                "example": json.dumps({name: one["examples"][0] for name, one in properties.items() if one.get("examples")}),
                "fields": [
                    (
                        name,
                        _kind(field),
                        "required" if name in required else json.dumps(field.get("default")),
                        field.get("description", ""),
                    )
                    for name, field in properties.items()
                ],
                "answer": list(_answer(facts["responses"]["200"]["content"]["application/json"]["schema"], components)),
            }


def _answer(schema: Mapping[str, Any], components: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield path, type and meaning of each field of an answer; parts of the same kind inside a part are not repeated."""
    while schema.get("type") == "array":
        schema, path = schema["items"], f"{path}[]"
    name = schema.get("$ref", "").rpartition("/")[2]
    for field, own in components[name]["properties"].items() if name else ():
        place = f"{path}.{field}".lstrip(".")
        inner, of = _plain(own), ""
        while inner.get("type") == "array":
            inner, of = inner["items"], "list of " + of
        kind = "object" if "$ref" in inner else _kind(inner)
        yield place, of + kind, own.get("description", "")
        if name not in inner.get("$ref", name):
            yield from _answer(_plain(own), components, place)


def _plain(field: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the type of an optional field, which pydantic describes as a choice between this type and null."""
    return next((one for one in field.get("anyOf", [field]) if one.get("type") != "null"), field)


def _kind(field: Mapping[str, Any]) -> str:
    """Return the type of a field, with its limits."""
    one = _plain(field)
    if one.get("type") == "array":
        return f"list of {_kind(one['items'])}, at most {one['maxItems']}" if "maxItems" in one else "list"
    shown = [f"{sign} {one[name]:g}" for name, sign in _LIMITS.items() if name in one]
    shown += [f"at most {one['maxLength']:,} characters"] if "maxLength" in one else []
    return ", ".join([one.get("type", ""), *shown])
