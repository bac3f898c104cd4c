"""Errors of requests: every error is one JSON object with a status and one line that says what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from pydantic import ValidationError
from pydantic_core import to_json

RETRY_AFTER = {"retry-after": "1"}


class RequestError(Exception):
    """Error of a request, with its HTTP status and further headers of the answer."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


def error_body(status: int, message: str) -> bytes:
    """Return the JSON object of an error."""
    return to_json({"error": {"status": status, "type": HTTPStatus(status).phrase, "message": message}})


def first_problem(error: ValidationError, fields: Iterable[str]) -> str:
    """Return the first problem of an invalid body in one line, such as `texts.0: Input should be a valid string`.

    For an unknown field, the known `fields` are listed.
    """
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, problem["loc"]))
    unknown = problem["type"] == "extra_forbidden"
    message = f"unknown field; expected {', '.join(fields)}" if unknown else problem["msg"]
    text = f"{where}: {message}" if where else message
    return " ".join(text.split())
