"""Request and response of `POST /v1/responses/compact`, and the division of a context into a summary and kept messages.

A context becomes one item with a summary that the model writes. System messages at its beginning and the user's
messages at its end, which are not answered yet, are kept as they are. Source: `CompactResponseMethodPublicBody`,
`CompactResource` of OpenAI's specification.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import ConfigDict

from gateway.errors import InvalidRequest
from gateway.openai.base import ApiModel
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.items import InputItem, MessageItem
from gateway.openai.responses.request import ContextFields, ResponseRequest
from gateway.openai.responses.response import ResponseUsage
from gateway.openai.responses.stored_items import to_stored, without_ids
from gateway.openai.responses.translation import to_chat
from stored_objects.responses.responses import Item, item_id

MAX_SUMMARY_TOKENS = 2048
"""Most tokens of a summary. Small models would often write until their context is full, and repeat themselves."""
PROMPT = (
    "Write a summary of our conversation so far, from which you will continue it without its text. Keep my goals and "
    "wishes, decisions, facts, names, numbers, code, results of tools, and what is still to be done. "
    "Write only the summary."
)
"""User's message after a context that asks the model for its summary."""


_SENTENCE_END = re.compile(r"""[.!?…。！？]["'”’)\]]*(?=\s|$)|\n""")


class CompactionRequest(ContextFields):
    """Body of `POST /v1/responses/compact`."""


class CompactedItem(ApiModel):
    """An item of a compacted context: a message that was kept, or `compaction`."""

    model_config = ConfigDict(extra="allow")

    type: Literal["message", "compaction"]
    id: str


class CompactedResponse(ApiModel):
    """A compacted context, whose `output` is the beginning of the next request's `input`."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[CompactedItem]
    usage: ResponseUsage


class Compaction:
    """A context to compact: the items that are summarised, and those before and after them that are kept."""

    def __init__(self, items: Sequence[InputItem]) -> None:
        """Divide the `items` of a context.

        Raises:
            InvalidRequest: There are none.
        """
        if not items:
            raise InvalidRequest("Missing 'input': it has no item.", param="input", code="missing_required_parameter")
        first, last = 0, len(items)
        while first < last and _has_role(items[first], "system", "developer"):
            first += 1
        while last > first and _has_role(items[last - 1], "user"):
            last -= 1
        if first == last:  # nothing is answered: the user's messages are what can be compacted
            last = len(items)
        self._items, self._first, self._last = items, first, last

    def summary_request(self, body: CompactionRequest) -> ChatCompletionRequest:
        """Return the chat completion whose answer is the summary.

        Raises:
            InvalidRequest: The context can't be sent to a model; `param` names the field.
        """
        fields = {"model": body.model, "instructions": body.instructions, "service_tier": body.service_tier}
        request = ResponseRequest.parse({**fields, "reasoning": {"effort": "none"}, "tools_off": ["*"]})
        return to_chat(request, [*self._items[: self._last], MessageItem(role="user", content=PROMPT)])

    def output(self, response_id: str, encrypted_summary: str) -> list[Item]:
        """Return the items that stand for the context, with ids of the response."""
        before, after = self._items[: self._first], self._items[self._last :]
        kept = to_stored(without_ids([*before, *after]), response_id)
        id = item_id("cmp", response_id, len(kept))
        summary: Item = {"type": "compaction", "id": id, "encrypted_content": encrypted_summary}
        return [*kept[: len(before)], summary, *kept[len(before) :]]


def whole_sentences(text: str) -> str:
    """Return a summary that was cut off, up to the end of its last whole sentence or line; "" without one."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return text[: ends[-1]].strip() if ends else ""


def _has_role(item: InputItem, *roles: str) -> bool:
    return isinstance(item, MessageItem) and item.role in roles
