"""Translates the turns of Anthropic's Messages API to messages of a chat completion.

Results of tool calls, which Anthropic puts into the user's message, become tool messages of their own before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from gateway.dialects.anthropic.blocks import (
    AssistantTurn,
    ImageBlock,
    SystemTurn,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserTurn,
)
from gateway.errors import InvalidRequest

_Turns = Sequence[UserTurn | AssistantTurn | SystemTurn]


def messages_of(system: str | Sequence[TextBlock] | None, turns: _Turns) -> list[dict[str, Any]]:
    """Return the messages of a chat completion for the instructions `system` and the `turns` of a conversation.

    Raises:
        InvalidRequest: Tool results don't answer the tool calls right before them.
    """
    messages = [{"role": "system", "content": _content(_blocks(system))}] if system else []
    calls: set[str] = set()
    for role, group in groupby(turns, key=lambda turn: turn.role):
        blocks = [block for turn in group for block in _blocks(turn.content)]
        _check_results(calls, blocks)
        calls = {block.id for block in blocks if isinstance(block, ToolUseBlock)}
        if role == "user":
            messages += _of_user(blocks)
        elif role == "assistant":
            messages.append(_of_assistant(blocks))
        else:
            messages.append({"role": "system", "content": _content(blocks)})
    _check_results(calls, [])
    return messages


def is_continued(turns: _Turns) -> bool:
    """Return whether the answer continues the last turn, because that is the assistant's."""
    return isinstance(turns[-1], AssistantTurn)


def _blocks(content: str | Sequence[Any] | None) -> list[Any]:
    if isinstance(content, str):
        return [TextBlock(type="text", text=content)]
    return list(content or ())


def _check_results(calls: set[str], blocks: Sequence[Any]) -> None:
    results = [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)]
    if len(results) != len(calls) or set(results) != calls:
        raise InvalidRequest(
            "Invalid 'messages': each 'tool_use' needs one 'tool_result' with its id in the next message, "
            "and each 'tool_result' a 'tool_use' in the message before.",
            param="messages",
        )


def _of_user(blocks: Sequence[Any]) -> Iterator[dict[str, Any]]:
    images: list[Any] = []
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            parts = _blocks(block.content)
            text = _content([part for part in parts if isinstance(part, TextBlock)])
            images += [part for part in parts if isinstance(part, ImageBlock)]
            yield {"role": "tool", "tool_call_id": block.tool_use_id, "content": text}
    rest = [*images, *(block for block in blocks if not isinstance(block, ToolResultBlock))]
    if rest:
        yield {"role": "user", "content": _content(rest)}


def _of_assistant(blocks: Sequence[Any]) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": _content([block for block in blocks if isinstance(block, TextBlock)]),
    }
    if thoughts := [block.thinking for block in blocks if isinstance(block, ThinkingBlock)]:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls := [block for block in blocks if isinstance(block, ToolUseBlock)]:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.input, ensure_ascii=False)},
            }
            for call in calls
        ]
    return message


def _content(blocks: Sequence[TextBlock | ImageBlock]) -> str | list[dict[str, Any]]:
    """Return the content of a message: a string if it is one text or empty, else a list of parts."""
    if not blocks:
        return ""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return [_part(block) for block in blocks]


def _part(block: TextBlock | ImageBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": block.source.address}}
