"""Turns the deltas of one answer into the output items of a response and the events about them.

A state machine without I/O: equal deltas give equal items and events, so that a response can be written again from
stored deltas. At most one item is open; an item of another kind, or the answer's end, completes it. Item ids follow
from the response's id and the item's number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.answers.answer_parts import bounded
from gateway.answers.responses.citations import Source, citations
from gateway.answers.responses.custom_tool_input import CustomToolInput
from gateway.answers.responses.drawn_images import DrawnImages, drawn_blobs, is_drawing
from gateway.openai.responses.tools import FILE_SEARCH, SEARCH_QUERY
from gateway.openai.steps import AnswerStep
from gateway.openai.vector_store_search import MAX_QUERY
from router.messages import Delta, FinishReason, Step, TokenAlternative, TokenLogprob, ToolCallDelta
from stored_objects.images.results import BlobAddress
from stored_objects.responses.responses import item_id

Event = dict[str, Any]
"""An event of a response's stream, without its sequence number."""

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons why a response is incomplete, by the finish reason of its answer."""


@dataclass(eq=False)
class _OpenItem:
    """An output item that is being written; `value` becomes the item's content, arguments or input."""

    item: dict[str, Any]
    index: int
    key: int | str
    """Index of its tool call; else its kind: another kind of output needs another item."""
    pieces: list[str] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    custom: CustomToolInput | None = None
    sources: Sequence[Source] = ()
    """What the text can cite, by number from 1."""

    @property
    def place(self) -> dict[str, Any]:
        """Fields of events about the item."""
        return {"item_id": self.item["id"], "output_index": self.index}

    @property
    def text(self) -> str:
        """All text of the item until now."""
        return "".join(self.pieces)


class ResponseOutput:
    """The output of one response: its items until now, and the events that each delta adds."""

    def __init__(
        self,
        response_id: str,
        address: BlobAddress,
        *,
        first_item: int = 0,
        custom_tools: frozenset[str] = frozenset(),
        summarises: bool = False,
        encrypt: Callable[[str], str] | None = None,
        images: DrawnImages | None = None,
        searches: bool = False,
    ) -> None:
        """Create an output without items.

        Args:
            first_item: number of the first output item.
            summarises: whether reasoning is sent as a summary.
            encrypt: encrypts reasoning for its item; `None`: it is not sent in that form.
            images: the images that become items; `None`: the request has no tool for image generation.
            searches: whether calls of the function `file_search` are the gateway's, so that they make no items.
        """
        self.items: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        """The ended steps before the answer."""
        self.finish_reason: FinishReason | None = None
        self.sources: Sequence[Source] = ()
        """Passages that file searches have found, which the text cites by their numbers from 1."""
        self._searches = searches
        self._wanted: dict[int, list[str]] = {}
        """Pieces of the arguments of the model's calls of the file search, by the number of the call."""
        self.response_id = response_id
        self._address = address
        self._first_item = first_item
        self._custom_tools = custom_tools
        self._summarises = summarises
        self._encrypt = encrypt
        self._images = images
        self._open: _OpenItem | None = None
        self._unplaced: list[dict[str, Any]] = []
        """Log probabilities of tokens whose text is not safe to show yet."""

    async def read_images(self, deltas: Iterable[Delta]) -> None:
        """Read the images of `deltas`, before `take` adds these."""
        if self._images is not None:
            await self._images.read(deltas)

    def take(self, delta: Delta) -> Iterator[Event]:
        """Add one delta to the output; yield the events about it. The delta counts once the iterator has ended."""
        if delta.step is not None:
            step = AnswerStep.of(delta.step, self._address).model_dump()
            if delta.step.state.ended:
                self.steps.append(step)
            yield {"type": "response.step", "step": step}
            if self._images is not None and is_drawing(delta.step):
                yield from self._add_drawing(delta.step, self._images)
            return
        if delta.reasoning:
            yield from self._add_reasoning(delta.reasoning)
        if delta.logprobs and not (delta.reasoning or delta.tool_calls):
            self._unplaced += [_logprob(token) for token in delta.logprobs]
        if delta.text:
            yield from self._add_text(delta.text)
        for call in delta.tool_calls or ():
            yield from self._add_call(call)
        if delta.finish_reason is not None:
            self.finish_reason = delta.finish_reason
            yield from self.close(incomplete=delta.finish_reason in INCOMPLETE)

    def wanted_queries(self) -> list[str]:
        """Return the queries of the model's calls of the file search since the last time, without malformed ones."""
        wanted, self._wanted = self._wanted, {}
        return [query for pieces in wanted.values() if (query := _query("".join(pieces)))]

    @property
    def has_calls(self) -> bool:
        """Whether the answer calls a tool of the client's."""
        return any(item["type"] in ("function_call", "custom_tool_call") for item in self.items)

    def begin_search(self, queries: Sequence[str]) -> Iterator[Event]:
        """Begin the item of a file search; yield the events about it."""
        yield from self._begin("file_search_call", "fs", FILE_SEARCH, {"queries": [*queries], "results": None})
        for what in ("in_progress", "searching"):
            yield {"type": f"response.file_search_call.{what}", **self._current.place}

    def end_search(self, results: list[dict[str, Any]] | None) -> Iterator[Event]:
        """End the item of a file search; yield the events about it. `results`: what it shows of the passages."""
        self._current.item["results"] = results
        yield from self.close(incomplete=False)

    def close(self, *, incomplete: bool) -> Iterator[Event]:
        """Complete the open item, if there is one; yield the events about its end. `incomplete`: its answer is cut."""
        if (current := self._open) is None:
            return
        if current.key == "message" and self._unplaced:
            yield from self._add_text("")
        if current.custom is not None and (rest := current.custom.rest()):
            current.pieces.append(rest)
            yield {"type": "response.custom_tool_call_input.delta", **current.place, "delta": rest}
        self._open = None
        yield from _ENDS[current.item["type"]](current, self._summarises)
        if self._encrypt is not None and current.key == "reasoning":
            current.item["encrypted_content"] = self._encrypt(current.text)
        current.item["status"] = "incomplete" if incomplete else "completed"
        if current.key == _IMAGE and current.item["result"] is None:
            current.item["status"] = "failed"
        yield {"type": "response.output_item.done", "output_index": current.index, "item": current.item}

    def _begin(self, kind: str, prefix: str, key: int | str, fields: dict[str, Any]) -> Iterator[Event]:
        yield from self.close(incomplete=False)
        index = len(self.items)
        number = self._first_item + index
        item = {"type": kind, "id": item_id(prefix, self.response_id, number), "status": "in_progress", **fields}
        self.items.append(item)
        self._open = _OpenItem(item, index, key, sources=self.sources)
        yield {"type": "response.output_item.added", "output_index": index, "item": dict(item)}

    def _add_reasoning(self, text: str) -> Iterator[Event]:
        if self._open is None or self._open.key != "reasoning":
            empty: dict[str, Any] = {"summary": []} if self._summarises else {"summary": [], "content": []}
            yield from self._begin("reasoning", "rs", "reasoning", empty)
            yield _reasoning_part(self._current, "added", "", summarises=self._summarises)
        self._current.pieces.append(text)
        name, index = ("reasoning_summary_text", "summary_index") if self._summarises else ("reasoning_text", _CONTENT)
        yield {"type": f"response.{name}.delta", **self._current.place, index: 0, "delta": text}

    def _add_text(self, text: str) -> Iterator[Event]:
        if self._open is None or self._open.key != "message":
            yield from self._begin("message", "msg", "message", {"role": "assistant", "content": []})
            yield _text_part(self._current, "added", _output_text("", []))
        logprobs, self._unplaced = self._unplaced, []
        self._current.pieces.append(text)
        self._current.logprobs += logprobs
        place = {**self._current.place, _CONTENT: 0}
        yield {"type": "response.output_text.delta", **place, "delta": text, "logprobs": logprobs}

    def _add_call(self, call: ToolCallDelta) -> Iterator[Event]:
        self._unplaced.clear()
        if self._searches and (call.name == FILE_SEARCH or call.index in self._wanted):
            self._wanted.setdefault(call.index, []).append(call.arguments)
            return
        if self._open is None or self._open.key != call.index:
            of_call = {"call_id": call.id, "name": call.name}
            if call.name in self._custom_tools:
                yield from self._begin("custom_tool_call", "ctc", call.index, {**of_call, "input": ""})
                self._current.custom = CustomToolInput()
            else:
                yield from self._begin("function_call", "fc", call.index, {**of_call, "arguments": ""})
        current, text, name = self._current, call.arguments, "function_call_arguments"
        if current.custom is not None:
            text, name = current.custom.take(text), "custom_tool_call_input"
        if text:
            current.pieces.append(text)
            yield {"type": f"response.{name}.delta", **current.place, "delta": text}

    def _add_drawing(self, step: Step, images: DrawnImages) -> Iterator[Event]:
        """Add a step that draws: an item of its first image as it begins, and at its end one of each image."""
        if self._open is None or self._open.key != _IMAGE:
            yield from self._begin_image()
        if not step.state.ended:
            return
        encoded = [images.get(blob) for blob in drawn_blobs(step)]
        for number, image in enumerate(encoded or [None]):
            if number:
                yield from self._begin_image()
            if image is not None:
                self._current.item |= {"result": image, **_drawing_fields(step.data["result"])}
            yield from self.close(incomplete=False)

    def _begin_image(self) -> Iterator[Event]:
        yield from self._begin("image_generation_call", "ig", _IMAGE, {"result": None})
        yield {"type": "response.image_generation_call.in_progress", **self._current.place}
        yield {"type": "response.image_generation_call.generating", **self._current.place}

    @property
    def _current(self) -> _OpenItem:
        assert self._open is not None  # noqa: S101 - set by `_begin` right before
        return self._open


_CONTENT = "content_index"
_IMAGE = "image"
"""Key of the item of an image."""


def _output_text(
    text: str, logprobs: list[dict[str, Any]], annotations: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": logprobs}


def _query(arguments: str) -> str:
    """Return the query of a call of the file search; "" if the arguments are malformed."""
    try:
        query = json.loads(arguments)[SEARCH_QUERY]
    except (ValueError, KeyError, TypeError):
        return ""
    return query.strip()[:MAX_QUERY] if isinstance(query, str) else ""


def _text_part(current: _OpenItem, what: str, part: dict[str, Any]) -> Event:
    return {"type": f"response.content_part.{what}", **current.place, _CONTENT: 0, "part": part}


def _reasoning_part(current: _OpenItem, what: str, text: str, *, summarises: bool) -> Event:
    if not summarises:
        return _text_part(current, what, {"type": "reasoning_text", "text": text})
    part = {"type": "summary_text", "text": text}
    return {"type": f"response.reasoning_summary_part.{what}", **current.place, "summary_index": 0, "part": part}


def _end_message(current: _OpenItem, _summarises: bool) -> Iterator[Event]:
    part = _output_text(current.text, current.logprobs, citations(current.text, current.sources))
    place = {**current.place, _CONTENT: 0}
    for number, annotation in enumerate(part["annotations"]):
        of_part = {**place, "annotation_index": number, "annotation": annotation}
        yield {"type": "response.output_text.annotation.added", **of_part}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": part["logprobs"]}
    yield _text_part(current, "done", part)
    current.item["content"] = [part]


def _end_reasoning(current: _OpenItem, summarises: bool) -> Iterator[Event]:
    text = current.text
    name, index = ("reasoning_summary_text", "summary_index") if summarises else ("reasoning_text", _CONTENT)
    yield {"type": f"response.{name}.done", **current.place, index: 0, "text": text}
    part = _reasoning_part(current, "done", text, summarises=summarises)
    yield part
    current.item["summary" if summarises else "content"] = [part["part"]]


def _end_function_call(current: _OpenItem, _summarises: bool) -> Iterator[Event]:
    current.item["arguments"] = current.text
    named = {"name": current.item["name"], "arguments": current.item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **current.place, **named}


def _end_custom_call(current: _OpenItem, _summarises: bool) -> Iterator[Event]:
    current.item["input"] = current.text
    yield {"type": "response.custom_tool_call_input.done", **current.place, "input": current.item["input"]}


def _end_image(current: _OpenItem, _summarises: bool) -> Iterator[Event]:
    if current.item["result"] is not None:
        yield {"type": "response.image_generation_call.completed", **current.place}


def _drawing_fields(result: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an image's item that OpenAI's API has beyond its specification."""
    return {"revised_prompt": result.get("prompt_sent"), "size": result.get("size"), "output_format": "png"}


def _end_search(current: _OpenItem, _summarises: bool) -> Iterator[Event]:
    yield {"type": "response.file_search_call.completed", **current.place}


_ENDS: dict[str, Callable[[_OpenItem, bool], Iterator[Event]]] = {
    "message": _end_message,
    "reasoning": _end_reasoning,
    "function_call": _end_function_call,
    "custom_tool_call": _end_custom_call,
    "image_generation_call": _end_image,
    "file_search_call": _end_search,
}
"""Writes the content of an item of each type at its end, and yields the events about it."""


def _logprob(token: TokenLogprob) -> dict[str, Any]:
    return {**_alternative(token.chosen), "top_logprobs": [_alternative(top) for top in token.top]}


def _alternative(token: TokenAlternative) -> dict[str, Any]:
    return {"token": token.text, "logprob": bounded(token.logprob), "bytes": list(token.text.encode())}
