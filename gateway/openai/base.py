"""What all request bodies share: strict types, unknown fields ignored, fields that we do not offer refused by name.

What a field does here is said where it is declared: its docstring is the line in `docs/openai-compatibility.md` and in
our OpenAPI document (`compatibility.py` says how). Source: OpenAI's API specification; extras as vLLM names them.
Knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from gateway.errors import InvalidRequest, UnsupportedParameter

T = TypeVar("T")

IGNORED = "x-ignored"
"""Marks a field in our OpenAPI document."""
Ignored = Annotated[T, Field(json_schema_extra={IGNORED: True})]
"""A field that is validated and has no effect, on purpose."""


Extra = Annotated[T | None, Field(exclude_if=lambda value: value is None)]
"""A field of an answer that OpenAI's does not have: absent unless it was asked for."""


@dataclass(frozen=True)
class Refused:
    """A field that is not offered. `neutral`: values (besides null) that ask for nothing, and are let pass."""

    why: str
    neutral: tuple[Any, ...] = ()


class ApiModel(BaseModel):
    """No coercion ("3", true and 2.0 are not 3), no NaN, unknown fields ignored."""

    model_config = ConfigDict(
        strict=True,
        extra="ignore",
        allow_inf_nan=False,
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class RequestBody(ApiModel):
    """A request body: `parse` is the way in."""

    not_offered: ClassVar[Mapping[str, Refused]] = {}

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Validate decoded JSON.

        Raises:
            UnsupportedParameter: it asks for something that we do not offer.
            InvalidRequest: a field is wrong; `param` names it.
        """
        if not isinstance(value, dict):
            raise InvalidRequest("The request body must be a JSON object.", code="invalid_type")
        cls._refuse_not_offered(value)
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise _explain(error, value) from error

    @classmethod
    def _refuse_not_offered(cls, value: dict[str, Any]) -> None:
        for name in sorted(value.keys() & cls.not_offered.keys()):
            asked, refused = value[name], cls.not_offered[name]
            if asked is not None and not any(_same(asked, neutral) for neutral in refused.neutral):
                raise UnsupportedParameter(f"'{name}' with this value is not supported: {refused.why}.", param=name)


def _same(asked: Any, neutral: Any) -> bool:
    return type(asked) is type(neutral) and bool(asked == neutral)


_FIELD = "field"


def contradiction(field: str, message: str) -> PydanticCustomError:
    """What a validator of the whole model raises: `field` is what does not go with another one."""
    return PydanticCustomError("invalid_value", "{message}", {"message": message, _FIELD: (field,)})


_CODES = {
    "missing": "missing_required_parameter",
    "missing_content": "missing_required_parameter",
    "union_tag_not_found": "missing_required_parameter",
    "unsupported_parameter": "unsupported_parameter",
}
_MESSAGES = {"union_tag_invalid": "Input should be one of the roles of a message"}
"""Of pydantic's messages, those that repeat the input."""
_DISCRIMINATOR = "role"
"""The one field that chooses between shapes."""


def _explain(error: ValidationError, value: dict[str, Any]) -> InvalidRequest:
    """The most specific of pydantic's complaints, as one sentence. The input itself is never repeated."""
    complaints = []
    for item in error.errors(include_url=False, include_input=False):
        kind = item["type"]
        place = (*item["loc"], *item.get("ctx", {}).get(_FIELD, ()))
        complaints.append((_path(place, value, kind=kind), kind, _MESSAGES.get(kind, item["msg"])))
    path, kind, message = max(complaints, key=lambda complaint: len(complaint[0]))
    param = _spell(path) or None
    code = _CODES.get(kind) or ("invalid_type" if kind.endswith("_type") else "invalid_value")
    where = f"Invalid '{param}': " if param else ""
    return InvalidRequest(f"{where}{message[:300]}.".replace("..", "."), param=param, code=code)


def _path(loc: tuple[int | str, ...], value: Any, *, kind: str) -> list[int | str]:
    """The part of a location that exists in the input: pydantic also names the members of unions that it tried."""
    path: list[int | str] = []
    for step in loc:
        if _has(value, step):
            value = value[step]
            path.append(step)
    if kind == "missing":
        path.append(loc[-1])
    elif kind.startswith("union_tag"):
        path.append(_DISCRIMINATOR)
    return path


def _has(value: Any, step: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def _spell(path: list[int | str]) -> str:
    """`["messages", 0, "content"]` as `messages[0].content`."""
    spelled = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return spelled.removeprefix(".")[:200]
