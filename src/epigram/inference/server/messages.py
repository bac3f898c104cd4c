"""Requests and answers as JSON, and their schemas in openapi.json."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from epigram.inference.server.errors import RequestError, first_problem
from epigram.inference.server.settings import ServerSettings

EXPLAINED_CHARACTERS = 1_000  # a network predicts once for each word

Given = Annotated[str, Field(min_length=1)]  # the default "" stands for a field that is absent


class PredictRequest(BaseModel):
    """Body of a prediction request: one text or several, and the name of a model."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = ""
    texts: list[str] = []
    model: Given = ""

    def listed(self) -> list[str]:
        """Return the texts as a list. Raises RequestError if both fields are given, or none."""
        if len({"text", "texts"} & self.model_fields_set) != 1:
            raise RequestError(422, 'expected "text" or "texts", one of the two')
        return [self.text] if "text" in self.model_fields_set else self.texts


class ExplainRequest(BaseModel):
    """Body of a request for an explanation: a text, the name of a model, and a label, by default the predicted one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    model: Given = ""
    label: Given = ""


class ScoreAnswer(BaseModel):
    """A word of the text, with its positions; a score above 0 speaks for the label, one below 0 against it."""

    text: str
    start: int
    end: int
    score: float


class SimilarAnswer(BaseModel):
    """A training text with its labels, and the cosine similarity to the text."""

    text: str
    labels: list[str]
    similarity: float


class ExplainAnswer(BaseModel):
    """Words of a text that speak for a label and against it, by the named method, and the nearest training texts."""

    model: str
    text: str
    label: str
    probability: float
    method: str
    words: list[ScoreAnswer]
    base: float | None = None
    similar: list[SimilarAnswer] = []


class WordAnswer(BaseModel):
    """A word of the text, with its positions and its label."""

    text: str
    start: int
    end: int
    label: str
    probability: float


class TextAnswer(BaseModel):
    """Prediction for one text: `label` of a model with one label per text, or the `labels` of one with several."""

    label: str | None = None
    labels: list[str] = []
    probabilities: dict[str, float]
    words: list[WordAnswer] = []
    truncated: bool


class PredictAnswer(BaseModel):
    """Predictions in the order of the texts."""

    model: str
    predictions: list[TextAnswer]


class ModelAnswer(BaseModel):
    """A model that the server has loaded."""

    name: str
    labels: list[str]
    multi_label: bool
    max_tokens: int
    min_confidence: float
    loaded: str


class ModelsAnswer(BaseModel):
    """All models; the first one is the default."""

    models: list[ModelAnswer]


class StatusAnswer(BaseModel):
    """State of the server."""

    status: str


class Problem(BaseModel):
    """Status, its name, and one line that says what is wrong."""

    status: int
    type: str
    message: str


class ErrorAnswer(BaseModel):
    """Answer of every request that fails."""

    error: Problem


def read_request(body: bytes, settings: ServerSettings) -> tuple[list[str], str]:
    """Return the texts and the model's name of a request.

    Raises RequestError for a body that is invalid or beyond a limit.
    """
    try:
        asked = PredictRequest.model_validate_json(body)
    except ValidationError as error:
        raise RequestError(422, first_problem(error, PredictRequest.model_fields)) from None
    texts = asked.listed()
    if len(texts) > settings.max_texts:
        raise RequestError(422, f"{len(texts):,} texts; at most {settings.max_texts:,} are allowed in a request")
    longest = max(map(len, texts), default=0)
    if longest > settings.max_characters:
        raise RequestError(422, f"a text has {longest:,} characters; at most {settings.max_characters:,} are allowed")
    return texts, asked.model


def read_explain_request(body: bytes) -> ExplainRequest:
    """Return the request. Raises RequestError for a body that is invalid or has a text that is too long."""
    try:
        asked = ExplainRequest.model_validate_json(body)
    except ValidationError as error:
        raise RequestError(422, first_problem(error, ExplainRequest.model_fields)) from None
    if len(asked.text) > EXPLAINED_CHARACTERS:
        raise RequestError(
            422, f"the text has {len(asked.text):,} characters; at most {EXPLAINED_CHARACTERS:,} are explained"
        )
    return asked


def explain_schema(models: list[str]) -> dict[str, Any]:
    """Return what openapi.json says about the body of a request for an explanation."""
    properties = {
        "text": {"type": "string", "maxLength": EXPLAINED_CHARACTERS},
        "model": {"type": "string", "enum": models, "description": "default: the first model"},
        "label": {"type": "string", "minLength": 1, "description": "default: the predicted label"},
    }
    return _body(properties, required=["text"], example={"text": "a text"})


def request_schema(models: list[str], settings: ServerSettings) -> dict[str, Any]:
    """Return what openapi.json says about the body of a prediction request."""
    text = {"type": "string", "maxLength": settings.max_characters}
    properties = {
        "text": text,
        "texts": {"type": "array", "items": text, "maxItems": settings.max_texts},
        "model": {"type": "string", "enum": models, "description": "default: the first model"},
    }
    one_of = [{"required": ["text"]}, {"required": ["texts"]}]
    return _body(properties, oneOf=one_of, example={"texts": ["a text", "another text"]})


def _body(properties: dict[str, Any], **other: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **other}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
