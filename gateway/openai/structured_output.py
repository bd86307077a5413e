"""Request models of structured output, OpenAI's `response_format` and vLLM's `structured_outputs`, and their grammars.

Only types and sizes are checked here; the worker decides whether it can compile a grammar. Source:
`ResponseFormatText`, `ResponseFormatJsonObject`, `ResponseFormatJsonSchema` of OpenAI's specification;
`StructuredOutputsParams` of vLLM.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel
from gateway.openai.json_schema import MAX_BYTES, MAX_ENUM, check_pattern, check_schema
from router.messages import Grammar, GrammarKind
from runtime.strict_json import MalformedRequest, parse_now

Schema = Annotated[dict[str, Any], AfterValidator(check_schema)]


def _decoded(value: Any) -> Any:
    """Decode a schema that was sent as text, which vLLM allows."""
    if not isinstance(value, str):
        return value
    try:
        return parse_now(value.encode())
    except (MalformedRequest, UnicodeEncodeError) as error:
        raise PydanticCustomError("invalid_value", "the text is not JSON") from error


class NamedSchema(ApiModel):
    """Value of `response_format.json_schema`: a schema and its name."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: Annotated[str, StringConstraints(max_length=16_384)] | None = None
    """Not shown to the model."""
    schema_: Schema = Field(alias="schema")
    strict: bool | None = None
    """The answer matches the schema whether this is set or not."""


class ResponseFormat(ApiModel):
    """Value of OpenAI's `response_format`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None

    @model_validator(mode="after")
    def _has_schema(self) -> Self:
        if self.type == "json_schema" and self.json_schema is None:
            raise PydanticCustomError("missing_content", "'json_schema' must be given with this type")
        return self

    def grammar(self) -> Grammar | None:
        """Return the grammar that this `response_format` makes the worker enforce; `None` for plain text."""
        if self.type == "json_schema" and self.json_schema is not None:
            return Grammar(kind=GrammarKind.JSON_SCHEMA, source=_text(self.json_schema.schema_))
        return Grammar(kind=GrammarKind.JSON_OBJECT) if self.type == "json_object" else None


class StructuredOutputs(ApiModel):
    """Value of vLLM's `structured_outputs`: exactly one of these fields."""

    model_config = ConfigDict(extra="forbid")

    json_: Annotated[Schema, BeforeValidator(_decoded)] | None = Field(default=None, alias="json")
    json_object: Literal[True] | None = None
    regex: Annotated[str, AfterValidator(check_pattern)] | None = None
    """Regular expression that the whole answer matches, in the syntax of Rust's `regex`: no look-around, no
    back-references."""
    choice: (
        Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]],
            Field(min_length=1, max_length=MAX_ENUM),
        ]
        | None
    ) = None
    grammar: Annotated[str, StringConstraints(min_length=1, max_length=MAX_BYTES)] | None = None
    """Context-free grammar in Lark's notation."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(value is not None for _, value in self) != 1:
            raise PydanticCustomError(
                "invalid_value", "exactly one of 'json', 'json_object', 'regex', 'choice' and 'grammar' must be given"
            )
        return self

    def as_grammar(self) -> Grammar:
        """Return the grammar that this `structured_outputs` makes the worker enforce."""
        kind, source = self._kind()
        return Grammar(kind=kind, source=source, param="structured_outputs")

    def _kind(self) -> tuple[GrammarKind, str]:
        if self.json_ is not None:
            return GrammarKind.JSON_SCHEMA, _text(self.json_)
        if self.regex is not None:
            return GrammarKind.REGEX, self.regex
        if self.choice is not None:
            return GrammarKind.CHOICE, _text(self.choice)
        if self.grammar is not None:
            return GrammarKind.LARK, self.grammar
        return GrammarKind.JSON_OBJECT, ""


def grammar_of(response_format: ResponseFormat | None, structured_outputs: StructuredOutputs | None) -> Grammar | None:
    """Return the grammar of a request, from the one of both fields that is set.

    Return `None` if the output is unconstrained.
    """
    if structured_outputs is not None:
        return structured_outputs.as_grammar()
    return response_format.grammar() if response_format is not None else None


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
