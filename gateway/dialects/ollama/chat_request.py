"""Request model of Ollama's `/api/chat`, and its translation to a chat completion.

Source: `ChatRequest` of Ollama's API. Its tool calls need no ids, so results are matched with calls by name and order.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints

from gateway.dialects.ollama.options import OllamaGeneration
from gateway.errors import InvalidRequest
from gateway.openai.base import ApiModel, Ignored
from gateway.openai.chat_completions import MAX_MESSAGES, ChatCompletionRequest
from gateway.openai.tools import Tools
from stored_objects.images.prompt_limits import MAX_IMAGES

CallName = Annotated[str, StringConstraints(max_length=256)]
CallId = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Images = Annotated[list[Annotated[str, StringConstraints(min_length=1)]], Field(max_length=MAX_IMAGES)]
"""Image files in base64."""


class OllamaFunction(ApiModel):
    """The function that a tool call names."""

    name: CallName
    arguments: dict[str, Any]


class OllamaCall(ApiModel):
    """A tool call of the assistant."""

    id: CallId | None = None
    function: OllamaFunction


class OllamaMessage(ApiModel):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: Images | None = None
    tool_calls: Annotated[list[OllamaCall], Field(max_length=128)] | None = None
    tool_name: CallName | None = None
    tool_call_id: CallId | None = None


class OllamaChatRequest(OllamaGeneration):
    """Body of `POST /api/chat`."""

    messages: Annotated[list[OllamaMessage], Field(max_length=MAX_MESSAGES)] | None = None
    """The conversation: `content`, `images` in base64, `thinking`, `tool_calls`, and results of tools with `tool_name`
    or `tool_call_id`. Without messages the answer is empty: the model is loaded anyway."""
    tools: Tools | None = None
    """Functions that the model may call, at most 128."""
    truncate: Ignored[bool | None] = None
    """A conversation that is too long is an error."""
    shift: Ignored[bool | None] = None
    """The answer ends at the end of the context."""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Validate the decoded JSON body of a request, and translate it. Raises as `RequestBody.parse` does."""
        request = super().parse(value)
        _ = request.chat  # translated here, where a long request is parsed in a thread
        return request

    @cached_property
    def chat(self) -> ChatCompletionRequest | None:
        """The chat completion that this request is translated to; `None` without messages."""
        if not self.messages:
            return None
        fields = self.common_fields() | {"messages": _messages(self.messages), "tools": None}
        if self.tools:
            fields["tools"] = [tool.model_dump() for tool in self.tools]
        return ChatCompletionRequest.parse(fields | {"reasoning_effort": self.reasoning_effort})


def user_content(text: str, images: list[str] | None) -> str | list[dict[str, Any]]:
    """Return the content of a user's message with `images`, files in base64 whose type is read from the files."""
    if not images:
        return text
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": f"data:image/any;base64,{image}"}} for image in images
    ]
    return [*parts, {"type": "text", "text": text}] if text else parts


def _messages(messages: list[OllamaMessage]) -> list[dict[str, Any]]:
    translated: list[dict[str, Any]] = []
    unanswered: list[tuple[str, str]] = []
    """Names and ids of the calls whose results have not come yet."""
    calls = 0
    for number, message in enumerate(messages):
        fields: dict[str, Any] = {"role": message.role, "content": user_content(message.content or "", message.images)}
        if message.role == "tool":
            fields["tool_call_id"] = _answered(unanswered, message, number)
        elif message.role == "assistant":
            if message.thinking:
                fields["reasoning_content"] = message.thinking
            unanswered = []
            for call in message.tool_calls or ():
                unanswered.append((call.function.name, call.id or f"call_{calls}"))
                calls += 1
            if message.tool_calls:
                fields["tool_calls"] = [
                    _call(call, call_id) for call, (_, call_id) in zip(message.tool_calls, unanswered, strict=True)
                ]
        translated.append(fields)
    return translated


def _answered(unanswered: list[tuple[str, str]], message: OllamaMessage, number: int) -> str:
    """Return the id of the call whose result `message` is, and remove that call from `unanswered`."""
    for key in (message.tool_call_id, message.tool_name):
        found = next((call for call in unanswered if key in call), None)
        if key is not None and found is not None:
            unanswered.remove(found)
            return found[1]
    if not unanswered or message.tool_call_id is not None:
        raise InvalidRequest(
            f"Invalid 'messages[{number}]': no tool call before it waits for this result.", param=f"messages[{number}]"
        )
    return unanswered.pop(0)[1]


def _call(call: OllamaCall, call_id: str) -> dict[str, Any]:
    arguments = json.dumps(call.function.arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}}
