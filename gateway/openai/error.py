"""Models of the API's error bodies for the OpenAPI document; the error table builds the bodies themselves."""

from __future__ import annotations

from gateway.openai.base import ApiModel


class ErrorDetail(ApiModel):
    """The `error` object of an error body. All four keys are always present."""

    message: str
    type: str
    param: str | None
    """Name of the invalid field, or null."""
    code: str | None


class ErrorBody(ApiModel):
    """Body of every response with a status of 400 or more, and of the last event of a failed stream."""

    error: ErrorDetail
