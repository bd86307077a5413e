"""What all shapes share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """An answer, or a part of one: every field is always there, `null` where there is nothing to say."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, from_attributes=True)


class ErrorNote(Shape):
    """What went wrong, in words for people."""

    message: str
    type: str
    param: str | None
    """The field that is wrong, if it is one."""
    code: str


class ErrorBody(Shape):
    """The body of every answer that is an error."""

    error: ErrorNote
