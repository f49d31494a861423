"""Errors as `application/problem+json` (RFC 9457), each with a sentence in `detail`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.responses import Response

from labelspace._core.plain import plain
from labelspace.errors import (
    DataError,
    InputError,
    LabelspaceError,
    ParameterError,
    UnsupportedError,
)

MEDIA_TYPE = "application/problem+json"
_SHOWN = 5  # errors of one request
_LONGEST = 1000  # characters of a sentence, which may quote what was sent


class Problem(BaseModel):
    """An error: `detail` says what is wrong, and where possible what to do."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not Found",
                    "status": 404,
                    "detail": "there is no model 'news'; there are: debtags",
                }
            ]
        }
    )

    type: str = "about:blank"
    title: str
    status: int = Field(ge=100, lt=600)
    detail: str


class Failure(Exception):
    """A request cannot be answered; becomes a problem with this status."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})

    def response(self) -> Response:
        """Return the answer."""
        return problem(self.status, self.detail, self.headers)


def overloaded(detail: str) -> Failure:
    """Return the failure of a request that finds the queue full."""
    return Failure(503, detail, {"Retry-After": "1"})


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with a problem."""
    content = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": plain(detail if len(detail) <= _LONGEST else f"{detail[:_LONGEST]} ..."),
    }
    return Response(to_json(content), status, dict(headers or {}), MEDIA_TYPE)


def status_of(error: LabelspaceError) -> int:
    """Return the status of an error that a model raised."""
    wrong = (ParameterError, InputError, DataError, UnsupportedError)
    return 422 if isinstance(error, wrong) else 500


def invalid(errors: Sequence[Any]) -> str:
    """Return a sentence on what of a request is not valid, without quoting its content."""
    shown = []
    for error in errors[:_SHOWN]:
        where = ".".join(str(part) for part in error["loc"] if part != "body")
        message = str(error["msg"])
        reason = error.get("ctx", {}).get("error")
        if error["type"] == "json_invalid" and reason is not None:
            where, message = "", f"not valid JSON: {reason}"
        if tuple(error["loc"]) == ("body",) and error["type"] != "missing":
            message += "; send JSON with Content-Type: application/json"
        shown.append(f"{where}: {message}" if where else message)
    more = len(errors) - _SHOWN
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a route for its OpenAPI description."""
    return {
        status: {
            "description": _DESCRIPTIONS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


_DESCRIPTIONS = {
    400: "The request is not valid.",
    401: "A bearer token is missing or not known.",
    403: "The token does not allow it, or the server does not.",
    404: "There is no such model or label.",
    408: "The body of the request did not arrive in time.",
    413: "The body or a text is too long.",
    415: "The body has an encoding other than gzip.",
    421: "The Host header names another server.",
    422: "A value is not valid, or the model does not support the operation.",
    503: "Too many requests are waiting; Retry-After says when to repeat it.",
    504: "The computation took too long.",
}
