"""Request models of Anthropic's `/v1/messages` and `/v1/messages/count_tokens`, translated to chat completions.

Source: `MessageCreateParams` of Anthropic's SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gateway.dialects.anthropic.blocks import TextBlock, Turn
from gateway.dialects.anthropic.conversation import is_continued, messages_of
from gateway.openai.base import ApiModel, Ignored, Refused, RequestBody
from gateway.openai.chat_completions import MAX_MESSAGES, ChatCompletionRequest
from gateway.openai.messages import MAX_PARTS
from gateway.openai.sampling import INT32_MAX, StopString
from gateway.openai.structured_output import Schema
from gateway.openai.tools import MAX_TOOLS, Parameters, ToolName

Effort = Literal["low", "medium", "high", "xhigh", "max"]


class CustomTool(ApiModel):
    """A tool that the client runs. Tools that Anthropic runs or defines have another `type` and are refused."""

    type: Literal["custom"] | None = None
    name: ToolName
    description: Annotated[str, StringConstraints(max_length=16_384)] | None = None
    input_schema: Parameters
    strict: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_custom(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type") not in (None, "custom"):
            raise PydanticCustomError("unsupported_parameter", "only custom tools, with an 'input_schema', are offered")
        return value

    def as_function(self) -> dict[str, Any]:
        """Return the tool as an item of `tools` of a chat completion."""
        function = {"name": self.name, "description": self.description, "parameters": self.input_schema}
        return {"type": "function", "function": function | {"strict": self.strict}}


class ToolChoiceParam(ApiModel):
    """Value of `tool_choice`."""

    type: Literal["auto", "any", "tool", "none"]
    name: ToolName | None = None
    disable_parallel_tool_use: bool | None = None

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        if self.type == "tool" and self.name is None:
            raise PydanticCustomError("missing_content", "'name' must be given with this type")
        return self

    def as_tool_choice(self) -> Any:
        """Return the value of `tool_choice` of a chat completion."""
        if self.type == "tool":
            return {"type": "function", "function": {"name": self.name}}
        return "required" if self.type == "any" else self.type


class Thinking(ApiModel):
    """Value of `thinking`."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(ApiModel):
    """Value of `output_config.format`: a JSON schema that the answer matches."""

    type: Literal["json_schema"]
    schema_: Schema = Field(alias="schema")


class OutputConfig(ApiModel):
    """Value of `output_config`."""

    effort: Effort | None = None
    format: OutputFormat | None = None


class MessagesPrompt(RequestBody):
    """Body of `POST /v1/messages/count_tokens`: the fields of a message that determine its prompt."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "container": Refused("no code is executed for clients"),
        "mcp_servers": Refused("the operator chooses tool servers", ([],)),
    }

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Name of the model, as `/v1/models` lists it."""
    messages: Annotated[list[Turn], Field(min_length=1, max_length=MAX_MESSAGES)]
    """The conversation: text, images (base64, data URLs and addresses of this platform), thinking, `tool_use` and
    `tool_result`. Neighbouring messages of one role are one turn; a last message of the assistant is continued."""
    system: str | Annotated[list[TextBlock], Field(max_length=MAX_PARTS)] | None = None
    """Instructions before the conversation."""
    tools: Annotated[list[CustomTool], Field(max_length=MAX_TOOLS)] | None = None
    """Custom tools, at most 128. `strict` is honoured; tools that Anthropic runs or defines are refused."""
    tool_choice: ToolChoiceParam | None = None
    """`auto`, `any`, `tool` or `none`; `disable_parallel_tool_use` allows one call at most."""
    thinking: Thinking | None = None
    """`disabled` asks the model not to think; the other types leave it to the model. `budget_tokens` is a limit, after
    which the model is made to answer; `display`: `omitted` leaves the thinking out of the answer."""
    output_config: OutputConfig | None = None
    """`effort` is `reasoning_effort` of a chat completion; `format` is a JSON schema that the answer matches."""
    cache_control: Ignored[dict[str, Any] | None] = None
    """The prefix cache is looked up by content. `cache_control` of blocks and tools is ignored too."""
    context_management: Ignored[dict[str, Any] | None] = None
    """Conversations are read as they are sent."""
    speed: Ignored[Literal["standard", "fast"] | None] = None
    """Models have one speed."""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Validate the decoded JSON body of a request, and translate it.

        Raises:
            UnsupportedParameter, InvalidRequest: As `RequestBody.parse` does; `param` may name a chat completion's
                field.
        """
        request = super().parse(value)
        _ = request.chat  # translated here, where a long request is parsed in a thread
        return request

    @cached_property
    def chat(self) -> ChatCompletionRequest:
        """The chat completion that this request is translated to."""
        return ChatCompletionRequest.parse(self._fields())

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "model": self.model,
            "messages": messages_of(self.system, self.messages),
            "tools": [tool.as_function() for tool in self.tools or []],
        }
        if self.tool_choice is not None:
            fields["tool_choice"] = self.tool_choice.as_tool_choice()
            fields["parallel_tool_calls"] = not self.tool_choice.disable_parallel_tool_use
        if is_continued(self.messages):
            fields |= {"continue_final_message": True, "add_generation_prompt": False}
        if self.output_config is not None and self.output_config.format is not None:
            schema = {"name": "answer", "schema": self.output_config.format.schema_}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        return fields | self._reasoning()

    def _reasoning(self) -> dict[str, Any]:
        effort = None if self.output_config is None else self.output_config.effort
        if self.thinking is None:
            return {"reasoning_effort": effort}
        return {
            "reasoning_effort": "none" if self.thinking.type == "disabled" else effort,
            "thinking_token_budget": self.thinking.budget_tokens,
            "include_reasoning": self.thinking.display != "omitted",
        }


class MessagesRequest(MessagesPrompt):
    """Body of `POST /v1/messages`."""

    max_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)]
    """Maximum number of tokens to generate."""
    stop_sequences: Annotated[list[StopString], Field(max_length=4)] | None = None
    """Strings that end the text, at most 4; the one that did is `stop_sequence` of the answer."""
    stream: bool | None = None
    """Send Anthropic's events as tokens are generated."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature, default 1."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Sample from the most likely tokens whose probabilities sum to this value."""
    top_k: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    """Sample from this number of most likely tokens; 0: from all."""
    service_tier: Literal["auto", "standard_only"] | None = None
    """Both are the default service class."""
    metadata: Ignored[dict[str, Any] | None] = None
    """Callers are identified by their API key."""
    inference_geo: Ignored[str | None] = None
    """The operator chooses where models run."""

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {
            "max_completion_tokens": self.max_tokens,
            "stop": self.stop_sequences,
            "stream": self.stream,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
        }
