"""Converts input items to the form in which stored responses keep and list them, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from gateway.openai.responses.items import CallOutputItem, InputItem, MessageItem
from stored_objects.responses.responses import Item, item_id

_ITEMS: TypeAdapter[list[InputItem]] = TypeAdapter(list[InputItem])
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "file_search_call": "fs",
    "reasoning": "rs",
    "image_generation_call": "ig",
    "compaction": "cmp",
}

_DEFAULTS: dict[str, dict[str, Any]] = {
    "reasoning": {"summary": []},
    "image_generation_call": {"status": "completed", "result": None},
    "compaction": {},
}
"""Fields that items of a type have in any case, if these are not a state."""


def to_stored(items: Sequence[InputItem], response_id: str) -> list[Item]:
    """Return the input items of a response as it keeps them: with ids and states, their content in parts."""
    return [_stored(item, response_id, number) for number, item in enumerate(items)]


def without_ids(items: Sequence[InputItem]) -> list[InputItem]:
    """Return items without the ids that the client gave them, so that `to_stored` gives them new ones."""
    return [item.model_copy(update={"id": None}) for item in items]


def from_stored(items: Sequence[Item]) -> list[InputItem]:
    """Return stored input and output items as input items of a request."""
    return _ITEMS.validate_python(items)


def _stored(item: InputItem, response_id: str, number: int) -> Item:
    kind = item.type or "message"
    fields: dict[str, Any] = item.model_dump(exclude_none=True)
    if isinstance(item, MessageItem):
        text = "output_text" if item.role == "assistant" else "input_text"
        parts = [{"type": text, "text": item.content}] if isinstance(item.content, str) else fields["content"]
        fields["content"] = [_part(part) for part in parts]
    elif isinstance(item, CallOutputItem) and not isinstance(item.output, str):
        fields["output"] = [_part(part) for part in fields["output"]]
    return {
        **_DEFAULTS.get(kind, {"status": "completed"}),
        **fields,
        "type": kind,
        "id": item.id or item_id(_PREFIXES[kind], response_id, number),
    }


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of an item with the fields that OpenAI's specification requires."""
    if part["type"] == "output_text":
        return {**part, "annotations": [], "logprobs": []}
    return {"detail": "auto", **part} if part["type"] in ("input_image", "input_file") else part
