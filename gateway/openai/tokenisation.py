"""Request and response models of `/v1/tokenize` and `/v1/detokenize`.

Source: vLLM's `TokenizeCompletionRequest`, `TokenizeChatRequest`, `TokenizeResponse` and `DetokenizeRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PrivateAttr, StringConstraints, model_validator

from gateway.openai.base import ApiModel, Refused, RequestBody, conflict, missing
from gateway.openai.chat_completions import MAX_MESSAGES, ChatCompletionRequest, TemplateName, TemplateValue
from gateway.openai.messages import Message
from gateway.openai.sampling import INT32_MAX
from gateway.openai.tools import Tools

MAX_TOKENS = 300_000
"""Most token ids that one request may have decoded."""

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=256)]

_OF_CONVERSATIONS = (
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template_kwargs",
)


class TokenizeRequest(RequestBody):
    """Body of `POST /v1/tokenize`: `prompt`, or `messages` for a model with a chat template."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "chat_template": Refused("clients bring no templates"),
        "media_io_kwargs": Refused("images are read as the model's own processor does", ({},)),
        "mm_processor_kwargs": Refused("images are read as the model's own processor does", ({},)),
    }

    model: ModelName
    """Name of the model, as `/v1/models` lists it (`tokenize`: `true`)."""
    prompt: str | None = None
    """Text to tokenise as the prompt of a completion. Control tokens in it are ordinary text."""
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)] | None = None
    """Conversation to tokenise as the prompt of a chat completion, with the model's chat template."""
    add_special_tokens: bool | None = None
    """With `prompt`: whether the tokens that the tokenizer adds to a prompt, such as its begin, are included; default
    true. With `messages` only `false` is allowed: the template writes what the model was trained with."""
    return_token_strs: bool | None = None
    """Return the names of the tokens in the vocabulary too; default false."""
    tools: Tools | None = None
    """With `messages`: functions that the model may call."""
    add_generation_prompt: bool | None = None
    """With `messages`: end the prompt with the start of an assistant message; default true, unless the final message
    is continued."""
    continue_final_message: bool | None = None
    """With `messages`: continue the last message, which must be the assistant's."""
    chat_template_kwargs: Annotated[dict[TemplateName, TemplateValue], Field(max_length=32)] | None = None
    """With `messages`: variables of the model's chat template."""
    _chat: ChatCompletionRequest | None = PrivateAttr(None)

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Validate the decoded JSON body of a request, its conversation as that of a chat completion. Raises as that.

        Raises:
            UnsupportedParameter: A field in `not_offered` has a value that is not neutral.
            InvalidRequest: A field is invalid; `param` names it.
        """
        body = super().parse(value)
        if body.messages is not None:
            of_chat = {name: value[name] for name in (*_OF_CONVERSATIONS, "model") if name in value}
            body._chat = ChatCompletionRequest.parse(of_chat)
        return body

    @model_validator(mode="after")
    def _is_one_form(self) -> Self:
        if self.messages is not None:
            if self.prompt is not None:
                raise conflict("prompt", "it can't be combined with 'messages'")
            if self.add_special_tokens:
                raise conflict("add_special_tokens", "it can't be combined with 'messages'")
            return self
        if self.prompt is None:
            raise missing("prompt", "'prompt' is required, unless there are 'messages'")
        for name in _OF_CONVERSATIONS:
            if getattr(self, name) is not None:
                raise conflict(name, "it is only allowed with 'messages'")
        return self

    @property
    def chat(self) -> ChatCompletionRequest | None:
        """The conversation as a chat completion, whose prompt is tokenised; `None` if the prompt is a text."""
        return self._chat


class TokenizeResponse(ApiModel):
    """The response: the token ids of the prompt, and their number, which may exceed the context length."""

    count: int
    max_model_len: int
    """The model's context length in tokens."""
    tokens: list[int]
    token_strs: list[str] | None
    """Names of the tokens in the vocabulary; `null` without `return_token_strs`."""


class DetokenizeRequest(RequestBody):
    """Body of `POST /v1/detokenize`."""

    model: ModelName
    """Name of the model, as `/v1/models` lists it (`tokenize`: `true`)."""
    tokens: Annotated[list[Annotated[int, Field(ge=0, le=INT32_MAX)]], Field(max_length=MAX_TOKENS)]
    """Token ids, at most 300,000."""


class DetokenizeResponse(ApiModel):
    """The response: the text of the token ids, control tokens included."""

    prompt: str
