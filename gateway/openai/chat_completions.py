"""Request model of `/v1/chat/completions`.

Source: `CreateChatCompletionRequest` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored, Refused, conflict
from gateway.openai.messages import (
    AssistantMessage,
    Content,
    Message,
    check_tool_results,
    image_urls,
    text_of,
)
from gateway.openai.sampling import GREEDY_BELOW, INT32_MAX, Metadata, SamplingRequest
from gateway.openai.test_time_compute import EarlyStoppingOption, LengthPenalty, SearchOptions
from gateway.openai.tools import (
    FunctionCallOption,
    Functions,
    FunctionTool,
    NamedTool,
    ToolChoiceOption,
    Tools,
    check_tool_choice,
    tool_choice_of_function_call,
    tools_of_functions,
)
from router.messages import MAX_BEAMS
from stored_objects.images.prompt_limits import MAX_IMAGES

MAX_MESSAGES = 2048
OwnToolName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Consent = Annotated[str, StringConstraints(min_length=1, max_length=256)]
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
"""Arguments of `apply_chat_template` itself, which a client must not set."""

TemplateName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
TemplateValue = bool | int | float | Annotated[str, StringConstraints(max_length=1024)] | None


class Prediction(ApiModel):
    """Text that the answer will probably contain (OpenAI's predicted outputs)."""

    type: Literal["content"]
    content: Content


class ChatCompletionRequest(SamplingRequest):
    """Body of `POST /v1/chat/completions`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        **SamplingRequest.not_offered,
        "add_special_tokens": Refused("the template writes what the model was trained with", (False,)),
        "modalities": Refused("answers are text", (["text"],)),
        "web_search_options": Refused("models don't search the web"),
        "moderation": Refused("the checks of texts are set for a project"),
        "chat_template": Refused("clients bring no templates"),
        "documents": Refused("put them into the messages", ([],)),
        "media_io_kwargs": Refused("images are read as the model's own processor does", ({},)),
        "mm_processor_kwargs": Refused("images are read as the model's own processor does", ({},)),
    }

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    """The conversation. Content is a string or text parts for every role, and in users' and tools' messages images, at
    most 16, for models whose `input_modalities` have `image`, and files with text, at most 16; `developer` becomes
    `system` where the model's template has no such role."""
    max_completion_tokens: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Maximum number of tokens to generate; takes precedence over `max_tokens`, its deprecated name. Without either,
    the operator's limit or the rest of the context applies, whichever is less."""
    echo: bool | None = None
    """Begin the answer with the last message, if that is the assistant's."""
    logprobs: bool | None = None
    """Return the log probability of each token of the answer, before temperature, penalties and truncation."""
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """Number of most likely tokens to return at each position; needs `logprobs`."""
    tools: Tools | None = None
    """Functions that the model may call, at most 128; custom tools are refused. A forced call matches its schema, with
    or without `strict`; with `auto`, a call names one of them and matches the schema of a `strict` function."""
    tool_choice: ToolChoiceOption | None = None
    """`none`, `auto`, `required`, a function or `allowed_tools`."""
    parallel_tool_calls: bool | None = None
    """Allow more than one call in an answer; default true."""
    functions: Functions | None = None
    """Deprecated form of `tools`: the answer has `function_call` instead of `tool_calls`, one call at most."""
    function_call: FunctionCallOption | None = None
    """Deprecated form of `tool_choice`: `none`, `auto` or a function's name."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    """Passed to chat templates that read it; with `none` models answer without reasoning."""
    thinking_token_budget: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    """Most tokens of the reasoning, after which the model is made to answer; 0: none at all, -1: no limit
    ([reasoning.md](reasoning.md))."""
    verbosity: Ignored[Literal["low", "medium", "high"] | None] = None
    """No served model has this option."""
    store: bool | None = None
    """Keep the completion with its messages for the project ([stored-completions.md](stored-completions.md))."""
    metadata: Metadata | None = None
    """Pairs that a stored completion has, by which the list of stored completions can be filtered."""
    prediction: Ignored[Prediction | None] = None
    """A hint for speed only: draft tokens are taken from the prompt anyway."""
    audio: Ignored[dict[str, Any] | None] = None
    """Format of spoken answers; `modalities`, which selects them, supports text only."""
    safety_identifier: Ignored[Annotated[str, StringConstraints(max_length=64)] | None] = None
    """Callers are identified by their API key."""
    prompt_cache_key: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """The prefix cache is looked up by content."""
    prompt_cache_retention: Ignored[Literal["in_memory", "in-memory", "24h"] | None] = None
    """Prefixes stay cached until their blocks are needed."""
    prompt_cache_options: Ignored[dict[str, Any] | None] = None
    """Prefixes stay cached until their blocks are needed."""
    include_reasoning: bool | None = None
    """False: leave the reasoning's text out of the answer. Its tokens are counted all the same."""
    add_generation_prompt: bool | None = None
    """End the prompt with the start of an assistant message; default true, unless the final message is continued."""
    continue_final_message: bool | None = None
    """Continue the last message, which must be the assistant's."""
    chat_template_kwargs: Annotated[dict[TemplateName, TemplateValue], Field(max_length=32)] | None = None
    """Variables of the model's chat template (such as `enable_thinking`): scalars, and only names that it reads."""
    tools_off: Annotated[list[OwnToolName], Field(max_length=64)] | None = None
    """Names of an assistant's own tools that it must not use for this answer (`*`: none of them); other models have
    no such tools."""
    tools_allowed: Annotated[list[Consent], Field(max_length=64)] | None = None
    """Consents to calls of an assistant's own tools that need the person's: names of tools, or `allow` (the tool as it
    is described now) or `allow_once` (this call alone) of the `error` of the step that asked."""
    test_time_compute: SearchOptions | None = None
    """Search for the answer among several paths ([test-time-compute.md](test-time-compute.md)), for models that
    `/v1/models` lists with `test_time_compute`."""
    use_beam_search: bool | None = None
    """Return the `n` most probable answers that beam search with `best_of` beams (default `n`, at most 16) finds, for
    models that `/v1/models` lists with `test_time_compute`
    ([test-time-compute.md](test-time-compute.md#beam-search-by-likelihood)). Nothing is sampled."""
    length_penalty: LengthPenalty | None = None
    """With `use_beam_search`: exponent of an answer's number of tokens, by which its log probability is divided; -10
    to 10, default 1."""
    early_stopping: EarlyStoppingOption | None = None
    """With `use_beam_search`: when it ends, once there are as many complete answers as beams: `true`: at once; `false`
    (default): when the best beam, with the length that it has, is no better; `never`: when no beam can become better.
    """

    @field_validator("messages")
    @classmethod
    def _tool_results(cls, messages: list[Message]) -> list[Message]:
        check_tool_results(messages)
        if sum(1 for _ in image_urls(messages)) > MAX_IMAGES:
            raise PydanticCustomError("invalid_value", f"a conversation can have {MAX_IMAGES} images at most")
        return messages

    @field_validator("tool_choice")
    @classmethod
    def _is_possible(cls, choice: ToolChoiceOption | None, info: ValidationInfo) -> ToolChoiceOption | None:
        if "tools" in info.data:  # missing where `tools` itself is invalid
            check_tool_choice(choice, info.data["tools"] or [])
        return choice

    @field_validator("function_call")
    @classmethod
    def _is_possible_call(cls, option: FunctionCallOption | None, info: ValidationInfo) -> FunctionCallOption | None:
        if "functions" in info.data:
            tools = tools_of_functions(info.data["functions"] or [])
            check_tool_choice(tool_choice_of_function_call(option), tools, ("function_call", "functions"))
        return option

    @field_validator("chat_template_kwargs")
    @classmethod
    def _template_arguments(cls, values: dict[str, Any] | None) -> dict[str, Any] | None:
        if values and RESERVED_TEMPLATE_ARGUMENTS & values.keys():
            raise PydanticCustomError("invalid_value", "only variables that the template reads can be set")
        return values

    @model_validator(mode="after")
    def _consistent_chat(self) -> Self:
        if self.top_logprobs is not None and not self.logprobs:
            raise conflict("top_logprobs", "it is only allowed when 'logprobs' is true")
        if self.tools and self.functions:
            raise conflict("functions", "it and 'tools' exclude each other")
        if self.continue_final_message and self.add_generation_prompt:
            raise conflict("continue_final_message", "it and 'add_generation_prompt' exclude each other")
        if self.continue_final_message and not isinstance(self.messages[-1], AssistantMessage):
            raise conflict("continue_final_message", "it needs a last message from the assistant")
        return self

    @model_validator(mode="after")
    def _consistent_search(self) -> Self:
        if self.use_beam_search:
            if self.test_time_compute is not None:
                raise conflict("use_beam_search", "it and 'test_time_compute' exclude each other")
            if self._beams > MAX_BEAMS:
                field = "best_of" if self.best_of else "n"
                raise conflict(field, f"'use_beam_search' has at most {MAX_BEAMS} beams")
        else:
            for name, neutral in (("length_penalty", 1), ("early_stopping", False)):
                if getattr(self, name) not in (None, neutral):
                    raise conflict(name, "it is only allowed with 'use_beam_search'")
        if (search := self.search) is None:
            return self
        search.check_combination(dict(self), self.search_param)
        if self.allows_tool_calls:
            field = "functions" if self.functions else "tools"
            raise conflict(field, f"it can't be combined with '{self.search_param}': paths have no tool calls")
        if self.response_format is not None and self.response_format.grammar() is not None:
            raise conflict("response_format", f"it can't be combined with '{self.search_param}': paths have no grammar")
        if search.candidates > 1 and not search.by_likelihood:
            if self.temperature is not None and self.temperature < GREEDY_BELOW:
                raise conflict("temperature", "without sampling all paths of 'test_time_compute' are equal")
            if self.top_k == 1:
                raise conflict("top_k", "without sampling all paths of 'test_time_compute' are equal")
        return self

    @property
    def search(self) -> SearchOptions | None:
        """How the answer is searched for, by `test_time_compute` or `use_beam_search`; `None`: it is generated once."""
        if not self.use_beam_search:
            return self.test_time_compute
        return SearchOptions(
            method="likelihood_beam_search",
            n=self._beams,
            length_penalty=self.length_penalty,
            early_stopping=self.early_stopping,
        )

    @property
    def search_param(self) -> str:
        """Name of the field that requests the search."""
        return "use_beam_search" if self.use_beam_search else "test_time_compute"

    @property
    def _beams(self) -> int:
        return self.best_of or self.choices

    @property
    def candidates(self) -> int:
        """Number of choices to generate, of which the best `n` are returned; a beam search returns all of its own."""
        return self.choices if self.use_beam_search else super().candidates

    @property
    def offered_tools(self) -> list[FunctionTool]:
        """Tools that the model may call: `tools`, or the deprecated `functions`."""
        return self.tools or tools_of_functions(self.functions or [])

    @property
    def offered_tool_choice(self) -> ToolChoiceOption | None:
        """How the model chooses among `offered_tools`: `tool_choice`, or the deprecated `function_call`."""
        return tool_choice_of_function_call(self.function_call) if self.functions else self.tool_choice

    @property
    def allows_parallel_calls(self) -> bool:
        """Whether an answer may have more than one tool call; with the deprecated `functions` it has one at most."""
        return self.parallel_tool_calls is not False and not self.functions

    @property
    def allows_tool_calls(self) -> bool:
        """Whether the answer to this request may contain tool calls."""
        return bool(self.offered_tools) and self.offered_tool_choice != "none"

    @property
    def forces_named_tool(self) -> bool:
        """Whether this request forces a call of one named tool."""
        return isinstance(self.offered_tool_choice, NamedTool)

    @property
    def token_limit(self) -> int | None:
        """Maximum number of tokens to generate: `max_completion_tokens`, else `max_tokens`.

        `None`: the operator's limit.
        """
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def echoed_text(self) -> str:
        """Text that each choice begins with before the generated text; empty without `echo`."""
        last = self.messages[-1]
        return (text_of(last.content) or "") if self.echo and isinstance(last, AssistantMessage) else ""

    @property
    def top_logprob_count(self) -> int | None:
        """Number of most likely tokens to return at each position; `None` without `logprobs`."""
        return (self.top_logprobs or 0) if self.logprobs else None
