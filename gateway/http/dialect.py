"""Dialect of a route's API: how bodies are sent, errors and streams written. Other vendors' routes have their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.answers.event_frames import DONE, frame
from gateway.http.http_errors import error_body, http_error

EVENT_STREAM = "text/event-stream"
JSON_LINES = "application/x-ndjson"


def _status(error: Exception) -> int:
    return http_error(error).status


def _error_frame(error: Exception) -> str:
    return frame(error_body(error))


@dataclass(frozen=True)
class Dialect:
    """How the routes of one API read bodies, and write errors and streams; without arguments OpenAI's."""

    error_status: Callable[[Exception], int] = _status
    """Returns the HTTP status of an error."""
    error_body: Callable[[Exception], dict[str, Any]] = error_body
    """Returns the JSON body of an error's response."""
    error_frame: Callable[[Exception], str] = _error_frame
    """Writes the error that ends a stream, after the status line."""
    media_type: str = EVENT_STREAM
    """Media type of a stream."""
    done: str = DONE
    """End of a whole stream, which is appended to its last frames."""
    has_comments: bool = True
    """Whether a stream can have comments, which keep its connection open."""
    typed_bodies: bool = True
    """Whether a body needs `Content-Type: application/json`."""
    request_id_header: str | None = None
    """A further name of the header `x-request-id`."""


OPENAI = Dialect()


def dialect_of(scope: Mapping[str, Any]) -> Dialect:
    """Return the dialect of a request's route; OpenAI's if no route was matched or the route names none."""
    dialect: Dialect = getattr(scope.get("route"), "dialect", OPENAI)
    return dialect
