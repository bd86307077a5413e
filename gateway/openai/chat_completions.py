"""The request and the answer of `/v1/chat/completions`.

Source: `CreateChatCompletionRequest`, `CreateChatCompletionResponse`, `CreateChatCompletionStreamResponse` of OpenAI's
specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Extra, Ignored, Refused, contradiction
from gateway.openai.messages import AssistantMessage, Content, Message, ToolCall, check_tool_results, text_of
from gateway.openai.prompt_logprobs import PromptLogprobs
from gateway.openai.sampling import INT32_MAX, SamplingRequest
from gateway.openai.tools import Choice, NamedTool, Tools, check_choice
from gateway.openai.usage import CompletionUsage

MAX_MESSAGES = 2048
RESERVED_TEMPLATE_ARGUMENTS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "documents",
        "max_length",
        "messages",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tokenizer_kwargs",
        "tools",
        "truncation",
    }
)
"""Arguments of `apply_chat_template` itself: never a client's to set."""

TemplateName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
TemplateValue = bool | int | float | Annotated[str, StringConstraints(max_length=1024)] | None


class Prediction(ApiModel):
    """Text that the answer will probably contain."""

    type: Literal["content"]
    content: Content


class ChatCompletionRequest(SamplingRequest):
    """Body of `POST /v1/chat/completions`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        **SamplingRequest.not_offered,
        "functions": Refused("deprecated: use `tools`", ([],)),
        "function_call": Refused("deprecated: use `tool_choice`", ("none", "auto")),
        "add_special_tokens": Refused("the template writes what the model was trained with", (False,)),
        "modalities": Refused("answers are text", (["text"],)),
        "web_search_options": Refused("models don't search the web"),
        "moderation": Refused("nothing is moderated"),
        "chat_template": Refused("clients bring no templates"),
        "documents": Refused("put them into the messages", ([],)),
        "media_io_kwargs": Refused("content is text", ({},)),
        "mm_processor_kwargs": Refused("content is text", ({},)),
    }

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    """The conversation; content is a string or text parts for every role, `developer` is `system` where the model's
    template does not know it."""
    max_completion_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Tokens to generate at most, whatever `max_tokens` (its old name) says; neither: the operator's limit, or what the
    context has left if that is less."""
    echo: bool | None = None
    """The answer begins with the last message, if that is the assistant's."""
    logprobs: bool | None = None
    """The log probability of each token of the answer, before temperature, penalties and cuts."""
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """And so many of the most likely tokens at each position."""
    tools: Tools | None = None
    """Functions that the model may call, at most 128; custom tools are refused. A call that must be made matches its
    schema, `strict` or not; with `auto` the arguments are the model's own."""
    tool_choice: Choice | None = None
    """`none`, `auto`, `required`, a function or `allowed_tools`."""
    parallel_tool_calls: bool | None = None
    """More than one call in an answer; default true."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """Told to models whose chat template reads it; `none` also sets `enable_thinking` to false; others ignore it."""
    verbosity: Ignored[Literal["low", "medium", "high"] | None] = None
    """No model knows it."""
    prediction: Ignored[Prediction | None] = None
    """A hint for speed only: tokens are guessed from the prompt anyway."""
    audio: Ignored[dict[str, Any] | None] = None
    """How spoken answers sound; whether an answer is spoken is said by `modalities`, which offers text."""
    safety_identifier: Ignored[Annotated[str, StringConstraints(max_length=64)] | None] = None
    """An API key says who asks."""
    prompt_cache_key: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """Cached prompts are found by their content."""
    prompt_cache_retention: Ignored[Literal["in_memory", "in-memory", "24h"] | None] = None
    """Prompts are kept as long as there is room."""
    prompt_cache_options: Ignored[dict[str, Any] | None] = None
    """Prompts are kept as long as there is room."""
    include_reasoning: Ignored[bool | None] = None
    """Reasoning is a part of the text."""
    add_generation_prompt: bool | None = None
    """Begin the assistant's turn; default true, unless the final message is continued."""
    continue_final_message: bool | None = None
    """Go on with the last message, which must be the assistant's."""
    chat_template_kwargs: Annotated[dict[TemplateName, TemplateValue], Field(max_length=32)] | None = None
    """Options of the model's chat template (such as `enable_thinking`): scalars, and only names that it reads."""

    @field_validator("messages")
    @classmethod
    def _tool_results(cls, messages: list[Message]) -> list[Message]:
        check_tool_results(messages)
        return messages

    @field_validator("tool_choice")
    @classmethod
    def _possible(cls, choice: Choice | None, info: ValidationInfo) -> Choice | None:
        if "tools" in info.data:  # else they are wrong themselves
            check_choice(choice, info.data["tools"] or [])
        return choice

    @field_validator("chat_template_kwargs")
    @classmethod
    def _template_arguments(cls, values: dict[str, Any] | None) -> dict[str, Any] | None:
        if values and RESERVED_TEMPLATE_ARGUMENTS & values.keys():
            raise PydanticCustomError("invalid_value", "only variables that the template reads can be set")
        return values

    @model_validator(mode="after")
    def _consistent_chat(self) -> Self:
        if self.top_logprobs is not None and not self.logprobs:
            raise contradiction("top_logprobs", "it is only allowed when 'logprobs' is true")
        if self.continue_final_message and self.add_generation_prompt:
            raise contradiction("continue_final_message", "it and 'add_generation_prompt' exclude each other")
        if self.continue_final_message and not isinstance(self.messages[-1], AssistantMessage):
            raise contradiction("continue_final_message", "it needs a last message from the assistant")
        return self

    @property
    def may_call(self) -> bool:
        """Whether the answer may have tool calls in it."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def names_a_tool(self) -> bool:
        """Whether a certain tool must be called."""
        return isinstance(self.tool_choice, NamedTool)

    @property
    def token_limit(self) -> int | None:
        """`max_completion_tokens`, or its deprecated name."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def echoed(self) -> str:
        """What the answer begins with, besides what the model says."""
        last = self.messages[-1]
        return (text_of(last.content) or "") if self.echo and isinstance(last, AssistantMessage) else ""

    @property
    def top_logprobs_wanted(self) -> int | None:
        """`top_logprobs` if logprobs are wanted at all."""
        return (self.top_logprobs or 0) if self.logprobs else None


class TopLogprob(ApiModel):
    """One candidate token; `bytes` is its UTF-8."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The chosen token and the most likely candidates at its position."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(ApiModel):
    """Log probabilities of a message's tokens."""

    content: list[TokenLogprob] | None
    refusal: list[TokenLogprob] | None


class ChatAnswerMessage(ApiModel):
    """What the model said: words, calls or both. `tool_calls` are left out where there are none."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None
    tool_calls: Annotated[list[ToolCall] | None, Field(exclude_if=lambda calls: calls is None)] = None


class ChatChoice(ApiModel):
    """One of the `n` answers."""

    index: int
    message: ChatAnswerMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]
    token_ids: Extra[list[int]] = None


class ChatCompletion(ApiModel):
    """The answer without streaming."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    service_tier: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: CompletionUsage
    prompt_logprobs: Extra[PromptLogprobs] = None
    prompt_token_ids: Extra[list[int]] = None


class FunctionCallDelta(ApiModel):
    """More of a call: its function in the first chunk, then more of its arguments."""

    name: str | None = None
    arguments: str


class ToolCallChunk(ApiModel):
    """More of one of a message's calls; `id`, `type` and the function's name are sent once."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionCallDelta


class ChatDelta(ApiModel):
    """What a chunk adds to a choice's message; only the keys that are sent."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallChunk] | None = None


class ChatChunkChoice(ApiModel):
    """A chunk's part of one choice."""

    index: int
    delta: ChatDelta
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None
    token_ids: Extra[list[int]] = None


class ChatCompletionChunk(ApiModel):
    """One frame of the stream."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    service_tier: str
    system_fingerprint: str
    choices: list[ChatChunkChoice]
    usage: CompletionUsage | None = None
    prompt_token_ids: Extra[list[int]] = None
    """In the first chunk."""
