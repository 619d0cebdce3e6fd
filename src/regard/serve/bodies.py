"""Schemas of the request bodies, which check the limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from regard.errors import nearest
from regard.serve.errors import ServiceError
from regard.serve.limits import Limits

_LARGEST_SEED = 1 << 32


class Body(BaseModel):
    """Fields that every request may have."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: Annotated[str, Field(max_length=200, description="Name of the model; needed if several models fit.")] | None = None
    timeout: Annotated[float, Field(gt=0, description="Seconds until the answer must be complete.")] | None = None


@dataclass(frozen=True)
class Bodies:
    """The classes of bodies, by endpoint."""

    translate: type[Body]
    classify: type[Body]
    generate: type[Body]
    attention: type[Body]


def build_bodies(limits: Limits) -> Bodies:
    """Build the classes of bodies for these limits. The OpenAPI description shows the limits."""
    Text = Annotated[str, StringConstraints(max_length=limits.characters)]
    Short = Annotated[str, StringConstraints(max_length=limits.attention_characters)]
    Count = Annotated[int, Field(ge=1, le=limits.tokens)]
    Penalty = Annotated[float, Field(ge=0, le=100)]
    Repeat = Annotated[float, Field(ge=1, le=100)]

    class Translate(Body):
        """Texts to translate. Settings that are left out are those of the model."""

        texts: list[Text] = Field(
            description="Texts of one sentence each.", examples=[["she kissed him ."]], min_length=1, max_length=limits.texts
        )
        beam_size: int | None = Field(None, ge=1, le=limits.beam, description="Hypotheses kept at each step; 1 is greedy.")
        n_best: int = Field(1, ge=1, le=limits.beam, description="Number of translations of each text.")
        length_penalty: Penalty | None = Field(None, description="Higher values favour longer translations.")
        length_reward: Penalty | None = Field(None, description="Reward added to the score for each token, in nats.")
        max_length: Count | None = Field(None, description="Maximum number of tokens of a translation.")
        min_length: Count | None = Field(None, description="Minimum number of tokens of a translation.")
        no_repeat_ngrams: int | None = Field(
            None, ge=0, le=100, description="No sequence of this many tokens occurs twice; 0 for no limit."
        )
        repetition_penalty: Repeat | None = Field(None, description="Penalty for tokens that occurred before; 1 for none.")
        suppress_unknown: bool | None = Field(None, description="Never produce the unknown symbol.")
        replace_unknown: bool | None = Field(
            None, description="Replace each unknown symbol with the source word of the largest weight."
        )
        prefix: Short | None = Field(None, description="Beginning of every translation.")
        alignment: bool = Field(False, description="Also return the words and their alignment, in Pharaoh format.")

    class Classify(Body):
        """Texts to label."""

        texts: list[Text] = Field(
            description="The texts.", examples=[["a gripping , honest film"]], min_length=1, max_length=limits.texts
        )
        top_k: int | None = Field(None, ge=1, description="Number of labels in `probabilities`; default: all.")

    class Generate(Body):
        """Prompts to continue. Settings that are left out are those of the model."""

        prompts: list[Text] = Field(
            description="Beginnings of texts.", examples=[["once upon a time"]], min_length=1, max_length=limits.texts
        )
        stream: bool = Field(True, description="Send the text while it is written, as server-sent events.")
        samples: int = Field(1, ge=1, le=limits.samples, description="Number of texts for each prompt.")
        temperature: float | None = Field(None, ge=0, le=100, description="0 takes the most probable word at each step.")
        top_k: int | None = Field(None, ge=0, le=1 << 30, description="Sample from the k most probable words; 0 for all.")
        top_p: float | None = Field(None, gt=0, le=1, description="Sample from the top words with this total probability.")
        max_length: Count | None = Field(None, description="Maximum number of tokens that are added.")
        no_repeat_ngrams: int | None = Field(
            None, ge=0, le=100, description="No sequence of this many tokens occurs twice; 0 for no limit."
        )
        repetition_penalty: Repeat | None = Field(None, description="Penalty for tokens that occurred before; 1 for none.")
        seed: int | None = Field(None, ge=0, lt=_LARGEST_SEED, description="Seed, which makes the result reproducible.")

    class Attention(Body):
        """Texts whose attention is returned."""

        texts: list[Short] = Field(
            description="The texts.", examples=[["she kissed him ."]], min_length=1, max_length=limits.texts
        )
        targets: list[Short] | None = Field(
            None, description="Given translations, one for each text.", min_length=1, max_length=limits.texts
        )
        sites: list[Annotated[str, Field(max_length=100)]] | None = Field(
            None, min_length=1, max_length=200, description="Attention sites, such as `cross`; default: the main one."
        )

    return Bodies(Translate, Classify, Generate, Attention)


def refusal(error: RequestValidationError, body: type[Body] | None) -> ServiceError:
    """Return the error for an invalid body. The error quotes names of the body's fields, but none of their values.

    Args:
        error: The error of the validation.
        body: The expected class of the body, if the endpoint has one.
    """
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
        return ServiceError(422, "invalid_request", f"there is no field {_quoted(name)}{guess}")
    status = 413 if kind in ("string_too_long", "too_long") else 422
    code = "too_large" if status == 413 else "invalid_request"
    return ServiceError(status, code, f"{_path(place)}: {first.get('msg', 'invalid')}")


def _path(place: Sequence[Any]) -> str:
    """Return a path such as `texts[2]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _quoted(name: str) -> str:
    return repr(name.encode("ascii", "backslashreplace").decode()[:60])
