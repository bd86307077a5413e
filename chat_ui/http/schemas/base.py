"""Base classes of the chat API's response models and query parameters, and the model of its error responses."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Schema(BaseModel):
    """A response or a part of one: every field is always present, `null` if it has no value.

    `model_validate` copies a record's attributes of the same names; a `validation_alias` is the name of the attribute
    where it differs from the field's.
    """

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, from_attributes=True)


class QueryParameters(BaseModel):
    """Query parameters of a route; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ErrorDetail(Schema):
    """An error, with a message for people."""

    message: str
    type: str
    param: str | None
    """The field that is wrong, if the error concerns one."""
    code: str


class ErrorBody(Schema):
    """The body of every error response."""

    error: ErrorDetail
