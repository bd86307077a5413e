"""Converts tools, tool calls and tool results in a conversation to the form that the model's chat template expects.

Templates take a call's arguments as an object, clients send them as a string. For a template without tool support
they become plain messages: descriptions in the system message, calls in the assistant's, results in the user's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NoReturn

Message = dict[str, Any]

MAX_DEPTH = 64
"""Nesting beyond which arguments stay a string."""
MISTRAL_ID_LENGTH = 9

_INSTRUCTIONS = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
"""The prompt that Hermes and Qwen were trained with, and that other models have seen too."""


def with_parsed_arguments(message: Message) -> Message:
    """Return a copy of a message in which tool calls' arguments are objects, where they are JSON objects as text."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_with_object(call) for call in calls]} if calls else message


def _with_object(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": _object(function["arguments"])}}


def _object(arguments: str) -> dict[str, Any] | str:
    try:
        value = json.loads(arguments or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) and _depth_within(value, MAX_DEPTH) else arguments


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _depth_within(value: Any, limit: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return limit >= 0 and all(_depth_within(each, limit - 1) for each in inside)


def with_short_ids(messages: Sequence[Message]) -> list[Message]:
    """Return copies of messages in which tool call ids are nine letters and digits, as Mistral's templates require."""
    return [_with_short_ids(message) for message in messages]


def _with_short_ids(message: Message) -> Message:
    changed = dict(message)
    if "tool_call_id" in message:
        changed["tool_call_id"] = _short(message["tool_call_id"])
    if message.get("tool_calls"):
        changed["tool_calls"] = [{**call, "id": _short(call["id"])} for call in message["tool_calls"]]
    return changed


def _short(id_: str) -> str:
    if len(id_) == MISTRAL_ID_LENGTH and id_.isascii() and id_.isalnum():
        return id_
    return hashlib.sha256(id_.encode()).hexdigest()[:MISTRAL_ID_LENGTH]


def described(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tools as models read them: without `strict`, which is about the grammar of calls."""
    return [{**tool, "function": _without_strict(tool["function"])} for tool in tools]


def _without_strict(function: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in function.items() if name != "strict"}


def as_plain_messages(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[Message]:
    """Return a conversation with tools, calls and results as Hermes markup text, for chat templates without tools."""
    plain: list[Message] = []
    for is_result, group in groupby(messages, key=lambda message: message.get("role") == "tool"):
        if is_result:
            plain.append({"role": "user", "content": "\n".join(_result(message) for message in group)})
        else:
            plain.extend(map(_as_plain_message, group))
    return _with_instructions(plain, tools) if tools else plain


def _with_instructions(messages: list[Message], tools: Sequence[dict[str, Any]]) -> list[Message]:
    instructions = _INSTRUCTIONS.format(tools="\n".join(map(_json, tools)))
    if messages and messages[0].get("role") == "system":
        first, *others = messages
        return [{**first, "content": f"{first['content']}\n\n{instructions}"}, *others]
    return [{"role": "system", "content": instructions}, *messages]


def _as_plain_message(message: Message) -> Message:
    calls = message.get("tool_calls")
    if not calls:
        return message
    written = [f"<tool_call>\n{_json(_call(call['function']))}\n</tool_call>" for call in calls]
    content = "\n".join([message["content"], *written] if message["content"] else written)
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": content}


def _call(function: dict[str, Any]) -> dict[str, Any]:
    return {"name": function["name"], "arguments": function["arguments"]}


def _result(message: Message) -> str:
    return f"<tool_response>\n{message['content']}\n</tool_response>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
