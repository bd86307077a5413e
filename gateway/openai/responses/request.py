"""Request bodies of `POST /v1/responses` and `/v1/responses/input_tokens`.

Source: `CreateResponse` of OpenAI's specification; extensions are those of chat completions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gateway.openai.base import ApiModel, Ignored, Refused, RequestBody, conflict, missing
from gateway.openai.chat_completions import Consent, OwnToolName, TemplateName, TemplateValue
from gateway.openai.responses.items import InputItems
from gateway.openai.responses.tools import (
    ChosenFileSearch,
    ChosenImageTool,
    FileSearchTool,
    OfferedTool,
    ResponseToolChoice,
    ResponseTools,
    image_tool,
)
from gateway.openai.sampling import INT32_MAX, INT64_MAX, Metadata
from gateway.openai.test_time_compute import SearchOptions

LOGPROBS = "message.output_text.logprobs"
"""Value of `include` that requests log probabilities."""
ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""Value of `include` that requests reasoning in a form that can be sent back."""
SEARCH_RESULTS = "file_search_call.results"
"""Value of `include` that requests what file searches have found."""


_SAME_IN_CHAT = (
    "temperature",
    "top_p",
    "stream",
    "service_tier",
    "seed",
    "top_k",
    "min_p",
    "repetition_penalty",
    "chat_template_kwargs",
    "thinking_token_budget",
    "cache_salt",
    "tools_off",
    "tools_allowed",
)
"""Fields of `ResponseRequest` that chat completions have too."""


class ReasoningOptions(ApiModel):
    """Value of `reasoning`: how much a model reasons, and how its reasoning is shown."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """The chat completion's `reasoning_effort`."""
    summary: Literal["auto", "concise", "detailed"] | None = None
    """Show the reasoning as a summary (its whole text, for models here don't summarise it) instead of as content."""
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    """The deprecated name of `summary`."""


class TextOutputFormat(ApiModel):
    """Value of `text.format`: `text`, `json_object`, or `json_schema` with the fields of its schema beside the type."""

    type: Literal["text", "json_object", "json_schema"]
    name: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")] | None = None
    description: Annotated[str, StringConstraints(max_length=16_384)] | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None

    @model_validator(mode="after")
    def _has_schema(self) -> Self:
        if self.type == "json_schema":
            for name, value in (("name", self.name), ("schema", self.schema_)):
                if value is None:
                    raise missing(name, "it must be given with the type 'json_schema'")
        return self

    def to_chat(self) -> dict[str, Any]:
        """Return the format as a chat completion's `response_format`."""
        if self.type != "json_schema":
            return {"type": self.type}
        schema = {"name": self.name, "description": self.description, "schema": self.schema_, "strict": self.strict}
        return {"type": self.type, "json_schema": {name: value for name, value in schema.items() if value is not None}}


class TextOptions(ApiModel):
    """Value of `text`: the format of the answer."""

    format: TextOutputFormat | None = None
    verbosity: Ignored[Literal["low", "medium", "high"] | None] = None
    """No served model has this option."""


ConversationId = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class ConversationReference(ApiModel):
    """Value of `conversation`: the conversation's id in an object."""

    id: ConversationId


class ContextFields(RequestBody):
    """Fields that determine the context of a model, and the fields about how a request is served."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Name of the model, as `/v1/models` lists it."""
    input: str | InputItems | None = None
    """A user's message, or items: messages with `input_text`, `input_image` and `input_file` (as chat completions read
    images and files) and `output_text`, `function_call`, `custom_tool_call` and their outputs (texts, images and
    files), `reasoning`, `file_search_call`, `compaction`, and `item_reference` to items of stored responses. Other
    items are refused."""
    instructions: Annotated[str, StringConstraints(max_length=4_194_304)] | None = None
    """A system message before the input; it is not carried over to responses that continue this one."""
    previous_response_id: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Id of a stored response, whose context, input and output come before the input."""
    service_tier: Literal["auto", "default", "flex", "priority", "fast"] | None = None
    """Service class of the request: `fast` is `priority`, `auto` is `default`; a response names the class used."""
    prompt_cache_key: Annotated[str, StringConstraints(max_length=512)] | None = None
    """Repeated in a response; the prefix cache is looked up by content."""
    prompt_cache_retention: Ignored[Literal["in_memory", "in-memory", "24h"] | None] = None
    """Prefixes stay cached until their blocks are needed."""
    prompt_cache_options: Ignored[dict[str, Any] | None] = None
    """Prefixes stay cached until their blocks are needed."""

    @property
    def conversation_id(self) -> str | None:
        """Id of the conversation that the context begins with; `None`: with none."""
        return None


class PromptFields(ContextFields):
    """Fields that determine the prompt of a response: its model, context, input, tools and format."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "prompt": Refused("there are no stored prompts"),
    }

    conversation: ConversationId | ConversationReference | None = None
    """Id of a conversation, or an object with its `id`: its items come before the input, and input and output are
    appended to it. It can't be combined with `previous_response_id`."""
    tools: ResponseTools | None = None
    """Functions, as in chat completions, custom tools, whose input is text, with the format `text` or a grammar of the
    syntax `regex` or `lark`, and `file_search` ([documents.md](documents.md#citations-in-responses)); or
    `image_generation`, not beside `file_search`, for an assistant with an image model, which draws PNG files of its own
    size. Tools of other types are refused."""
    tool_choice: ResponseToolChoice | None = None
    """`none`, `auto`, `required`, a tool by type and name, or `allowed_tools`; `file_search` searches for the question
    before the model answers, `image_generation` draws the last message as it is."""
    parallel_tool_calls: bool | None = None
    """Allow more than one call in an answer; default true."""
    text: TextOptions | None = None
    """`format` is `text`, `json_object` or `json_schema`, enforced as in chat completions; `verbosity` is ignored."""
    reasoning: ReasoningOptions | None = None
    """`effort` is chat completions' `reasoning_effort`. With `summary`, reasoning is sent as a summary (the whole text,
    as models here write no summaries) instead of as content."""
    truncation: Literal["auto", "disabled"] | None = None
    """`auto`: leave out the oldest turns of a conversation that does not fit, and if its last turn does not fit either,
    its first tokens; else such a request is 400. Prompts with images can't be truncated."""

    @model_validator(mode="after")
    def _has_one_context_and_the_chosen_tool(self) -> Self:
        if self.conversation is not None and self.previous_response_id is not None:
            raise conflict("conversation", "it and 'previous_response_id' exclude each other")
        choice = self.tool_choice
        only_draws = self.draws and len(self.offered_tools) == 1
        if isinstance(choice, ChosenImageTool) and not self.draws:
            raise conflict("tool_choice", "it names a tool that is not among the 'tools'")
        if not isinstance(choice, str | ChosenImageTool | None) and only_draws:
            raise conflict("tool_choice", "it names a tool that is not among the 'tools'")
        if choice == "required" and self.draws and not only_draws:
            raise conflict("tool_choice", "with 'image_generation' and functions it is 'auto', 'none' or one of them")
        return self

    @property
    def conversation_id(self) -> str | None:
        """Id of the conversation that the response belongs to; `None`: to none."""
        named = self.conversation
        return named.id if isinstance(named, ConversationReference) else named

    @property
    def offered_tools(self) -> list[OfferedTool]:
        """Tools of the request; empty if there are none."""
        return self.tools or []

    @property
    def draws(self) -> bool:
        """Whether the request offers image generation, whose images become output items."""
        return image_tool(self.offered_tools) is not None

    @property
    def may_draw(self) -> bool:
        """Whether the model decides on drawing: no tool or function is chosen, and drawing is not ruled out."""
        return self.draws and self.tool_choice in (None, "auto")

    @property
    def must_draw(self) -> bool:
        """Whether the last message is drawn as it is, without a choice among answers and tools."""
        return self.draws and (self.tool_choice == "required" or isinstance(self.tool_choice, ChosenImageTool))

    @property
    def format(self) -> TextOutputFormat | None:
        """Format of the answer's text; `None`: plain text."""
        return None if self.text is None else self.text.format

    def options(self) -> dict[str, Any]:
        """Return the fields of the chat completion that have no part in the prompt."""
        return {}


class InputTokensRequest(PromptFields):
    """Body of `POST /v1/responses/input_tokens`."""


class ResponseStreamOptions(ApiModel):
    """Value of `stream_options`."""

    include_obfuscation: Ignored[bool | None] = None
    """No padding is sent: an event joins the tokens of a window, and the operator provides TLS."""


class ResponseRequest(PromptFields):
    """Body of `POST /v1/responses`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        **PromptFields.not_offered,
        "moderation": Refused("the checks of texts are set for a project"),
        "context_management": Refused("contexts are compacted by `/v1/responses/compact` only", ([],)),
    }

    max_output_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Maximum number of tokens to generate; without it as in chat completions. A response that reaches it is
    `incomplete`."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature, default 1. Values below 0.00001 mean greedy decoding."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Sample from the most likely tokens whose probabilities sum to this value (nucleus sampling)."""
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """Number of most likely tokens to return at each position; needs `include` of `message.output_text.logprobs`."""
    max_tool_calls: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    """Maximum number of file searches, at most and by default 4; an assistant calls one of its own tools at most."""
    include: Annotated[list[str], Field(max_length=32)] | None = None
    """`message.output_text.logprobs` adds log probabilities, `reasoning.encrypted_content` reasoning in a form that can
    be sent back instead of storing it, `file_search_call.results` the passages that a file search has found; other
    values are ignored."""
    background: bool | None = None
    """Generate the response while no client waits: it is answered at once, with the status `queued`, and goes on after
    the death of its gateway; needs `store`, and excludes `conversation`."""
    stream: bool | None = None
    """Send the events of the response as Server-Sent Events while it is generated."""
    stream_options: ResponseStreamOptions | None = None
    """`include_obfuscation` is ignored."""
    metadata: Metadata | None = None
    """Pairs that the response repeats."""
    store: bool | None = None
    """Store the response for `GET /v1/responses/{response_id}` and `previous_response_id`; default true."""
    user: Annotated[str, StringConstraints(max_length=512)] | None = None
    """Repeated in the response; callers are identified by their API key."""
    safety_identifier: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Repeated in the response; callers are identified by their API key."""
    seed: Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    """An extension, as in chat completions."""
    top_k: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """An extension, as in chat completions."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """An extension, as in chat completions."""
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    """An extension, as in chat completions."""
    chat_template_kwargs: Annotated[dict[TemplateName, TemplateValue], Field(max_length=32)] | None = None
    """An extension, as in chat completions."""
    thinking_token_budget: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """An extension, as in chat completions."""
    cache_salt: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """An extension, as in chat completions."""
    tools_off: Annotated[list[OwnToolName], Field(max_length=64)] | None = None
    """An extension, as in chat completions."""
    tools_allowed: Annotated[list[Consent], Field(max_length=64)] | None = None
    """An extension, as in chat completions."""
    test_time_compute: SearchOptions | None = None
    """An extension, as in chat completions."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise conflict("stream_options", "it is only allowed when 'stream' is true")
        if self.background and not self.stores:
            raise conflict("background", "it needs 'store'")
        if self.background and self.conversation is not None:
            raise conflict("background", "responses in the background can't extend a conversation")
        if self.background and self.includes_encrypted_reasoning:
            raise conflict("include", "responses in the background are continued by 'previous_response_id'")
        return self

    @property
    def file_search(self) -> FileSearchTool | None:
        """The tool that searches files; `None`: there is none, or none may be called."""
        if self.tool_choice == "none":
            return None
        return next((tool for tool in self.offered_tools if isinstance(tool, FileSearchTool)), None)

    @property
    def searches_first(self) -> bool:
        """Whether files are searched before the model answers, because no other tool may be called."""
        if isinstance(self.tool_choice, ChosenFileSearch):
            return True
        return self.tool_choice == "required" and len(self.offered_tools) == 1

    @property
    def includes_results(self) -> bool:
        """Whether file searches in the response show what they have found."""
        return SEARCH_RESULTS in (self.include or ())

    @property
    def includes_logprobs(self) -> bool:
        """Whether the answer's text has log probabilities."""
        return LOGPROBS in (self.include or ())

    @property
    def includes_encrypted_reasoning(self) -> bool:
        """Whether items of reasoning have it encrypted too."""
        return ENCRYPTED_REASONING in (self.include or ())

    @property
    def summarises(self) -> bool:
        """Whether reasoning is sent as a summary instead of as content."""
        reasoning = self.reasoning
        return reasoning is not None and (reasoning.summary or reasoning.generate_summary) is not None

    @property
    def stores(self) -> bool:
        """Whether the response is stored."""
        return self.store is not False

    def options(self) -> dict[str, Any]:
        """Return the fields of the chat completion that have no part in the prompt, `None` where there is no value."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _SAME_IN_CHAT}
        fields["max_completion_tokens"] = self.max_output_tokens
        if self.includes_logprobs:
            fields |= {"logprobs": True, "top_logprobs": self.top_logprobs or 0}
        if self.test_time_compute is not None:
            fields["test_time_compute"] = self.test_time_compute.model_dump(exclude_unset=True)
        return fields
