"""The body of every error, for our own OpenAPI document; `gateway/errors.py` makes them."""

from __future__ import annotations

from gateway.openai.base import ApiModel


class ErrorDetail(ApiModel):
    """All four keys are always there."""

    message: str
    type: str
    param: str | None
    """The field that is wrong, if one is."""
    code: str | None


class ErrorBody(ApiModel):
    """What comes with a status from 400 on, and as an event of a stream that fails."""

    error: ErrorDetail
