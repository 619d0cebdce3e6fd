"""Schemas of requests and answers, made from the operations of the tasks and the limits of the service."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Annotated, Any, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from regard.errors import nearest
from regard.serve.errors import ServiceError
from regard.serve.limits import Limits
from regard.task import TextOperation, all_tasks

_LONGEST_NAME = 200


class Body(BaseModel):
    """Fields that every request may have."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: Annotated[str, Field(max_length=_LONGEST_NAME)] | None = Field(
        None, description="Name of the model; needed if several models fit."
    )
    timeout: Annotated[float, Field(gt=0)] | None = Field(None, description="Seconds until the answer must be complete.")


@dataclass(frozen=True)
class Endpoint:
    """An endpoint: the operations of one name, by task, with the schemas of requests and answers."""

    name: str
    operations: Mapping[str, type[TextOperation]]
    body: type[Body]
    answer: type[BaseModel]

    @property
    def first(self) -> type[TextOperation]:
        """The operation of the first task."""
        return next(iter(self.operations.values()))


def find_endpoints(limits: Limits) -> list[Endpoint]:
    """Return the endpoints for the operations of all tasks. The OpenAPI description shows the limits."""
    found: dict[str, dict[str, type[TextOperation]]] = {}
    for task in all_tasks().values():
        for operation in task.operations:
            if issubclass(operation, TextOperation):
                found.setdefault(operation.name, {})[task.name] = operation
    return [Endpoint(name, kinds, *_schemas(name, [*kinds.values()], asdict(limits))) for name, kinds in found.items()]


def _schemas(name: str, kinds: Sequence[type[TextOperation]], limits: Mapping[str, Any]) -> tuple[type[Body], type[BaseModel]]:
    """Return the schemas of the requests and answers of operations that share a name."""
    first = kinds[0]
    # Tasks that share an endpoint may have different limits; `serve.endpoints` checks that of the model's task.
    longest = [limits[kind.longest] for kind in kinds]
    text = Annotated[str, StringConstraints(max_length=max(longest))]
    # Targets are texts, even if the inputs of another task's model are images.
    short = Annotated[str, StringConstraints(max_length=min(longest))]
    shared: dict[str, Any] = {"min_length": 1, "max_length": limits["texts"]}
    fields: dict[str, Any] = {first.inputs: (list[text], Field(description="The texts.", examples=[[first.example]], **shared))}
    for kind in kinds:
        for option in kind.options():
            if option not in kind.command_only and not kind.per_text.get(option):
                fields[option] = _field(kind, option, limits)
        # Options of single texts are lists in a body, in the order of the texts.
        for option, listed in kind.per_text.items():
            if listed:
                words = f"{kind.options()[option].help} One for each text."
                fields[listed] = (list[short] | None, Field(None, description=words, **shared))
    if first.streams:
        fields["stream"] = (bool, Field(True, description="Send the text while it is written, as server-sent events."))
    title = "".join(part.title() for part in name.split("_"))
    body = create_model(title, __base__=Body, __doc__=first.__doc__, **fields)
    for part in (first.answer, *get_args(first.answer)):
        if is_dataclass(part):
            part.__pydantic_config__ = ConfigDict(use_attribute_docstrings=True)  # type: ignore[union-attr]
    model = (str, Field(description="Name of the model that answered."))
    results: dict[str, Any] = {
        "model": model,
        first.answers: (list[first.answer], Field(description="A result for each text.")),
        "unknown_words": (list[list[str]], Field(description="The words of each text that are not in the vocabulary.")),
    }
    return body, create_model(f"{title}Answer", **results)


def _field(kind: type[TextOperation], option: str, limits: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the type of a field of a request, with its range and limit, and its description."""
    facts = kind.options()[option]
    cap = limits[kind.caps[option]] if option in kind.caps else None
    bounds: list[Any] = []
    hint: Any = facts.type
    if hint in (int, float):
        low, high = facts.range.low, facts.range.high if cap is None else min(cap, facts.range.high)
        low = max(low, 1) if option in kind.caps else low  # 0 would lift the limit
        bounds += [Gt(low) if facts.range.open_low else Ge(low)] if low > float("-inf") else []
        bounds += [Lt(high) if facts.range.open_high and cap is None else Le(high)] if high < float("inf") else []
    elif hint is str:
        bounds.append(Field(max_length=_LONGEST_NAME if cap is None else cap))
    elif get_origin(hint) is tuple:
        hint = list[Annotated[str, Field(max_length=_LONGEST_NAME)]]
        bounds.append(Field(min_length=1, max_length=_LONGEST_NAME))
    if bounds:
        hint = Annotated[hint, *bounds]
    return hint | None, Field(None, description=facts.help)


def refusal(error: RequestValidationError, body: type[Body] | None) -> ServiceError:
    """Return the error for an invalid body, which quotes names of the body's fields, but none of their values."""
    first: dict[str, Any] = dict(error.errors()[0])
    kind, place = first.get("type", ""), [*first.get("loc", ())][1:]
    if kind == "json_invalid":
        return ServiceError(400, "invalid_json", "the body is not valid JSON")
    if not place:
        return ServiceError(422, "invalid_request", "the body is not a JSON object with the fields of this request")
    if kind == "extra_forbidden":
        known = [] if body is None else list(body.model_fields)
        name = str(place[-1])
        guess = nearest(name, known) or f"; expected: {', '.join(known)}"
        quoted = repr(name.encode("ascii", "backslashreplace").decode()[:60])
        return ServiceError(422, "invalid_request", f"there is no field {quoted}{guess}")
    status = 413 if kind in ("string_too_long", "too_long") else 422
    code = "too_large" if status == 413 else "invalid_request"
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    return ServiceError(status, code, f"{path}: {first.get('msg', 'invalid')}")
