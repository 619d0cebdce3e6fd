"""Two small pages without scripts, made from `pages.html`: the list of the models, and the reference of the endpoints."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from regard.task import TextOperation, find_task

_TEMPLATE = Environment(loader=PackageLoader("regard.serve", ""), autoescape=True, undefined=StrictUndefined).get_template(
    "pages.html"
)
_LIMITS = {"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}


def home(models: Sequence[Mapping[str, Any]]) -> str:
    """Return a page that lists the models, given their descriptions from `Served.describe`."""
    rows = []
    for model in models:
        paths = [f"/v1/{one.name}" for one in find_task(model["task"]).operations if issubclass(one, TextOperation)]
        rows.append([model["name"], model["task"], ", ".join(paths), ", ".join(model["sites"])])
    return _TEMPLATE.render(title="regard", models=rows)


def reference(schema: Mapping[str, Any]) -> str:
    """Return a page that describes the endpoints, given the OpenAPI description."""
    endpoints = list(_endpoints(schema))
    return _TEMPLATE.render(title="regard: endpoints", description=schema["info"]["description"], endpoints=endpoints)


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
            }


def _kind(field: Mapping[str, Any]) -> str:
    """Return the type of a field, with its limits."""
    # pydantic describes an optional field as a choice between its type and null.
    one = next((one for one in field.get("anyOf", [field]) if one.get("type") != "null"), field)
    if one.get("type") == "array":
        return f"list of {_kind(one['items'])}, at most {one['maxItems']}" if "maxItems" in one else "list"
    shown = [f"{sign} {one[name]:g}" for name, sign in _LIMITS.items() if name in one]
    shown += [f"at most {one['maxLength']:,} characters"] if "maxLength" in one else []
    return ", ".join([one.get("type", ""), *shown])
