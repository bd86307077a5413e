"""Base classes of the API's request and response models: strict types, unknown fields ignored, unsupported refused.

A field's docstring is its description in `docs/openai-compatibility.md` (written by `compatibility.py`) and in the
OpenAPI document. Source: OpenAI's API specification; extensions as vLLM names them.
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
"""Key that marks an ignored field in the OpenAPI document."""
Ignored = Annotated[T, Field(json_schema_extra={IGNORED: True})]
"""Type of a request field that is validated and has no effect, on purpose."""

OmitIfNone = Annotated[T | None, Field(exclude_if=lambda value: value is None)]
"""Type of a response field that is left out where it is `None`."""


@dataclass(frozen=True)
class Refused:
    """A request field that is not supported. `neutral`: values besides null that have no effect and are accepted."""

    reason: str
    neutral: tuple[Any, ...] = ()


class ApiModel(BaseModel):
    """Base of all API models: no coercion ("3", true and 2.0 are not 3), no NaN, unknown fields ignored."""

    model_config = ConfigDict(
        strict=True,
        extra="ignore",
        allow_inf_nan=False,
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class Answer(ApiModel):
    """Base of the responses with generated text and of their streams' chunks: the fields that all of them have."""

    id: str
    object: str
    created: int
    model: str
    service_tier: str
    system_fingerprint: str


class RequestBody(ApiModel):
    """Base of all request bodies. Create one with `parse`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {}
    """Fields that are refused, by name."""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Validate the decoded JSON body of a request, and return it as an instance of this model.

        Raises:
            UnsupportedParameter: A field in `not_offered` has a value that is not neutral.
            InvalidRequest: A field is invalid; `param` names it.
        """
        if not isinstance(value, dict):
            raise InvalidRequest("The request body must be a JSON object.", code="invalid_type")
        cls._refuse_not_offered(value)
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise _invalid_request(error, value) from error

    @classmethod
    def _refuse_not_offered(cls, value: dict[str, Any]) -> None:
        for name in sorted(value.keys() & cls.not_offered.keys()):
            given, refused = value[name], cls.not_offered[name]
            if given is not None and not any(_is_same(given, neutral) for neutral in refused.neutral):
                raise UnsupportedParameter(f"'{name}' with this value is not supported: {refused.reason}.", param=name)


def _is_same(given: Any, neutral: Any) -> bool:
    return type(given) is type(neutral) and bool(given == neutral)


_FIELD = "field"
"""Key of an error's context that holds the name of the invalid field."""


def conflict(field: str, message: str) -> PydanticCustomError:
    """Create the error (400 with that `param`) for a model validator to raise if `field` conflicts with another."""
    return PydanticCustomError("invalid_value", "{message}", {"message": message, _FIELD: (field,)})


def missing(field: str, message: str) -> PydanticCustomError:
    """Create the error (400 with that `param`) for a model validator to raise if `field` is missing."""
    return PydanticCustomError("missing", "{message}", {"message": message, _FIELD: (field,)})


_CODES = {
    "missing": "missing_required_parameter",
    "missing_content": "missing_required_parameter",
    "union_tag_not_found": "missing_required_parameter",
    "unsupported_parameter": "unsupported_parameter",
}


def _invalid_request(error: ValidationError, value: dict[str, Any]) -> InvalidRequest:
    """Return the most specific of pydantic's errors as one sentence, which must not repeat the input."""
    errors = []
    for item in error.errors(include_url=False, include_input=False):
        kind = item["type"]
        context = item.get("ctx", {})
        loc, message = (*item["loc"], *context.get(_FIELD, ())), item["msg"]
        if kind == "union_tag_invalid":  # pydantic's message would repeat the input
            message = f"Input should be one of {context['expected_tags']}"
        discriminator = context.get("discriminator", "").strip("'")
        errors.append((_path(loc, value, kind=kind, discriminator=discriminator), kind, message))
    path, kind, message = max(errors, key=lambda each: len(each[0]))
    param = _format_path(path) or None
    code = _CODES.get(kind) or ("invalid_type" if kind.endswith("_type") else "invalid_value")
    where = f"Invalid '{param}': " if param else ""
    return InvalidRequest(f"{where}{message[:300]}.".replace("..", "."), param=param, code=code)


def _path(loc: tuple[int | str, ...], value: Any, *, kind: str, discriminator: str) -> list[int | str]:
    """Return the part of a location that exists in the input: pydantic also lists the union members that it tried."""
    path: list[int | str] = []
    for step in loc:
        if _has(value, step):
            value = value[step]
            path.append(step)
    if kind == "missing" and path[-1:] != [loc[-1]]:  # it may be there with the value null
        path.append(loc[-1])
    elif kind.startswith("union_tag"):
        path.append(discriminator)
    return path


def _has(value: Any, step: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def _format_path(path: list[int | str]) -> str:
    """Format `["messages", 0, "content"]` as `messages[0].content`."""
    formatted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return formatted.removeprefix(".")[:200]
