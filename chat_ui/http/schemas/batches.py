"""Response models of the project's batches."""

from __future__ import annotations

from typing import Literal

from chat_ui.http.schemas.base import Schema


class LineProblem(Schema):
    """Why a batch failed."""

    line: int | None
    message: str


class Batch(Schema):
    """A batch: a file of requests that are answered in the background. Times are Unix seconds."""

    id: str
    name: str
    """Name of the input file; empty if the batch was created by an API key."""
    model: str | None
    """Model of the first line."""
    endpoint: str
    state: Literal[
        "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
    ]
    total: int
    """Number of lines; 0 until they are validated."""
    completed: int
    failed: int
    """Number of the lines that ended with an error."""
    problems: list[LineProblem]
    created: int
    began: int | None
    """Time at which the first line began."""
    expires: int
    """Time after which lines are given up."""
    has_output: bool
    has_errors: bool


class BatchList(Schema):
    """The newest batches of the project."""

    batches: list[Batch]
