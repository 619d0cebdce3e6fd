"""Schemas of the response bodies, for the OpenAPI description of the service."""

from typing import Any

from pydantic import BaseModel, Field


class Translation(BaseModel):
    """A translation."""

    text: str
    score: float | None = Field(description="Score that ranks translations: log probability with length reward and penalty.")
    log_probability: float | None
    finished: bool
    alternatives: list["Translation"] = []
    source_words: list[str] = []
    words: list[str] = []
    alignment: str = ""


class Translations(BaseModel):
    """A translation of each text, in the order of the texts."""

    model: str
    translations: list[Translation]


class Classification(BaseModel):
    """The label of a text, with probabilities."""

    label: str
    probability: float
    labels: list[str]
    probabilities: dict[str, float]
    cut_at: int | None


class Classifications(BaseModel):
    """A label for each text, in the order of the texts."""

    model: str
    classifications: list[Classification]


class Generation(BaseModel):
    """A text that a language model wrote."""

    text: str
    log_probability: float | None
    num_tokens: int
    finished: bool


class Generations(BaseModel):
    """The samples of each prompt, in the order of the prompts."""

    model: str
    generations: list[list[Generation]]


class Records(BaseModel):
    """The attention of each text, as `AttentionRecord.to_json` writes it; null if the model has none to record."""

    model: str
    records: list[dict[str, Any] | None]


class Error(BaseModel):
    """Status, code and message of an error."""

    status: int
    code: str
    message: str


class Refusal(BaseModel):
    """The answer to a request that gets no result."""

    error: Error
