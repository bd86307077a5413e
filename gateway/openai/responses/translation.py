"""Translates a response's request to a chat completion's, so that both are validated, limited and run as one.

Items become messages: an assistant's text and calls are one message up to the next item of another kind. Errors name
the fields of the response's request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from gateway.errors import InvalidRequest
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.items import (
    CallOutputItem,
    CustomToolCallItem,
    FunctionCallItem,
    ImageGenerationCallItem,
    InputItem,
    InputPart,
    ItemReference,
    MessageItem,
    ReasoningItem,
)
from gateway.openai.responses.request import ContextFields, PromptFields
from gateway.openai.responses.tools import CUSTOM_INPUT, IMAGE_TOOL, choice_to_chat, tools_to_chat

_NAMES = (
    (re.compile(r"^messages\b.*"), "input"),
    (re.compile(r"^(?:max_completion_tokens|max_tokens)$"), "max_output_tokens"),
    (re.compile(r"^response_format\.json_schema\b"), "text.format"),
    (re.compile(r"^response_format\b"), "text.format"),
    (re.compile(r"^reasoning_effort$"), "reasoning.effort"),
    (re.compile(r"^(tools\[\d+\])\.function\b"), r"\1"),
    (re.compile(r"^tool_choice\.(?:function|allowed_tools)\b"), "tool_choice"),
    (re.compile(r"^truncate_prompt_tokens$"), "truncation"),
)
"""Names of the response's fields for those of the chat completion."""


def to_chat(request: PromptFields, items: Sequence[InputItem]) -> ChatCompletionRequest:
    """Translate a response's request to that of a chat completion whose conversation is `items`.

    `items` are those of earlier responses and then the request's own (`input_items`).

    Raises:
        InvalidRequest: The chat completion would be refused; `param` names the response's field.
    """
    try:
        return ChatCompletionRequest.parse(_fields(request, items))
    except InvalidRequest as error:
        raise renamed(error) from error


def renamed(error: InvalidRequest) -> InvalidRequest:
    """Return an error about a field of the chat completion as one about the field of the response that it is from."""
    param = param_of(error.param)
    if param is None or param == error.param:
        return error
    message = str(error).replace(f"'{error.param}'", f"'{param}'")
    return type(error)(message, param=param, code=error.code)


def param_of(param: str | None) -> str | None:
    """Return the name of the response's field for that of a chat completion's, `param`."""
    if param is None:
        return None
    return next((pattern.sub(name, param) for pattern, name in _NAMES if pattern.match(param)), param)


def input_items(request: ContextFields) -> list[InputItem]:
    """Return the request's own input as items."""
    if isinstance(request.input, str):
        return [MessageItem(role="user", content=request.input)]
    return request.input or []


def _fields(request: PromptFields, items: Sequence[InputItem]) -> dict[str, Any]:
    fields = request.options()
    fields |= {"model": request.model, "parallel_tool_calls": request.parallel_tool_calls}
    fields["messages"] = _messages(request.instructions, items)
    if tools := tools_to_chat(request.offered_tools):
        fields["tools"] = tools
    if request.draws and request.tool_choice == "none":
        fields["tools_off"] = [*(fields.get("tools_off") or ()), IMAGE_TOOL]
    if request.tool_choice is not None and not (request.draws and (request.must_draw or not tools)):
        fields["tool_choice"] = choice_to_chat(request.tool_choice)
    if request.format is not None:
        fields["response_format"] = request.format.to_chat()
    if request.reasoning is not None:
        fields["reasoning_effort"] = request.reasoning.effort
    if request.truncation == "auto":
        fields["truncate_prompt_tokens"] = -1
    return {name: value for name, value in fields.items() if value is not None}


def _messages(instructions: str | None, items: Sequence[InputItem]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    _check_outputs(items)
    if instructions is not None:
        messages.append({"role": "system", "content": instructions})
    reasoning = ""
    for item in items:
        if reasoning and _is_of_assistant(item):
            _assistant(messages).setdefault("reasoning_content", []).append(reasoning)
        reasoning = item.text if isinstance(item, ReasoningItem) else ""
        match item:
            case MessageItem(role="assistant") | ImageGenerationCallItem():
                text = _text(item.content) if isinstance(item, MessageItem) else ""
                _assistant(messages).setdefault("content", []).append(text)
            case MessageItem():
                messages.append({"role": item.role, "content": _content(item.content)})
            case FunctionCallItem():
                _add_call(messages, item.call_id, item.name, item.arguments)
            case CustomToolCallItem():
                arguments = json.dumps({CUSTOM_INPUT: item.input}, ensure_ascii=False)
                _add_call(messages, item.call_id, item.name, arguments)
            case CallOutputItem():
                messages.append({"role": "tool", "tool_call_id": item.call_id, "content": _content(item.output)})
            case ItemReference():
                raise _invalid("it refers to an item that is not stored")
    for message in messages:
        if message["role"] == "assistant":
            message |= {name: _joined(message[name]) for name in ("content", "reasoning_content") if name in message}
    if not messages:
        raise InvalidRequest("Missing 'input': it has no message.", param="input", code="missing_required_parameter")
    return messages


def _check_outputs(items: Iterable[InputItem]) -> None:
    """Check that each tool call has its output before the next message that is not the assistant's, and no other.

    Raises:
        InvalidRequest: A call or an output is alone.
    """
    called: set[str] = set()
    answered: set[str] = set()
    for item in items:
        match item:
            case FunctionCallItem() | CustomToolCallItem():
                called.add(item.call_id)
            case CallOutputItem():
                if item.call_id not in called:
                    raise _invalid("the output of a tool follows no call with its 'call_id'")
                answered.add(item.call_id)
            case MessageItem() if item.role != "assistant" and called - answered:
                break
    if missing := called - answered:
        raise _invalid(f"tool calls without an output with their 'call_id': {len(missing)} of {len(called)}")


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid 'input': {reason}.", param="input", code="invalid_value")


def _is_of_assistant(item: InputItem) -> bool:
    return isinstance(item, FunctionCallItem | CustomToolCallItem) or getattr(item, "role", "") == "assistant"


def _assistant(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant's message at the end of `messages`, a new one if another role's message is there."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant"})
    return messages[-1]


def _add_call(messages: list[dict[str, Any]], call_id: str, name: str, arguments: str) -> None:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    _assistant(messages).setdefault("tool_calls", []).append(call)


def _joined(texts: Sequence[str]) -> str:
    """Return the lines of one message; empty texts before the first other one are left out."""
    return "\n".join(texts[next((number for number, text in enumerate(texts) if text), len(texts) - 1) :])


def _text(content: str | Sequence[InputPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join((part.refusal if part.type == "refusal" else part.text) or "" for part in content)


def _content(content: str | Sequence[InputPart]) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    if not content:
        return ""
    return [_part(part) for part in content]


def _part(part: InputPart) -> dict[str, Any]:
    match part.type:
        case "input_image":
            return {"type": "image_url", "image_url": {"url": part.image_url or part.file_id}}
        case "input_file":
            file = {"file_id": part.file_id, "file_data": part.file_data, "filename": part.filename}
            return {"type": "file", "file": {name: value for name, value in file.items() if value is not None}}
        case _:
            return {"type": "text", "text": part.text}
