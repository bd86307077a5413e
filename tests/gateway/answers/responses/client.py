"""Deltas of answers, and a client that builds a response's output from events and checks each event against it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, cast

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.answers.responses.drawn_images import DrawnImages
from gateway.answers.responses.events import ResponseEvents
from gateway.answers.responses.output import ResponseOutput
from gateway.answers.responses.response_object import ResponseObject
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.response import ModelResponse
from gateway.openai.responses.tools import custom_names
from router.messages import Delta, FinishReason, ServiceClass, ToolCallDelta
from tests.contract.examples import msgspec_replace

EVENT: TypeAdapter[Any] = TypeAdapter(cast(Any, ResponseStreamEvent))
"""The events of OpenAI's specification, from which its client's types are generated."""
EXTENSIONS = {"step", "cancelled"}
"""Events that the specification does not have."""
ID = f"resp_{7:032x}"
SHOUT = {"type": "custom", "name": "shout"}


def delta(*, start: int = 0, **fields: Any) -> Delta:
    return msgspec_replace(Delta(job_id="job", attempt_id="attempt", start=start, token_ids=[start]), **fields)


def deltas(*fields: dict[str, Any], finish: FinishReason | None = "stop") -> list[Delta]:
    """A token for each of the deltas' fields, the last one with the finish reason."""
    made = [delta(start=start, **each) for start, each in enumerate(fields)]
    return made if finish is None else [*made[:-1], msgspec_replace(made[-1], finish_reason=finish)]


def call(index: int, arguments: str = "", *, name: str = "") -> dict[str, Any]:
    """The fields of a delta of a tool call, of its first one if it has the tool's name."""
    named = {"id": f"call_{index}", "name": name} if name else {}
    return {"tool_calls": [ToolCallDelta(index=index, arguments=arguments, **named)]}


def response_events(images: DrawnImages | None = None, **fields: Any) -> ResponseEvents:
    """The events of a response to a request, whose input is one item."""
    request = ResponseRequest.parse({"model": "m", "input": "hi", **fields})
    output = ResponseOutput(
        ID,
        "http://gateway/{}".format,
        first_item=1,
        custom_tools=custom_names(request.offered_tools),
        summarises=request.summarises,
        images=images,
    )
    return ResponseEvents(
        ResponseObject.of(ID, request, model="m", service_class=ServiceClass.DEFAULT),
        output,
    )


class EventClient:
    """A client's copy of a response's output, and what it has read."""

    def __init__(self) -> None:
        self.output: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.names: list[str] = []
        """Types of the events, without their prefix."""
        self.response: dict[str, Any] = {}
        """The response object of the latest event that has one."""

    def read(self, events: Iterable[dict[str, Any]]) -> EventClient:
        """Read events; numbers begin at 0 and have no gaps."""
        for event in events:
            name = event["type"].removeprefix("response.")
            assert event["sequence_number"] == len(self.names)
            if name not in EXTENSIONS:
                EVENT.validate_python(event)
            self.names.append(name)
            if "response" in event:
                self._take_response(event["response"])
            else:
                self._take(name, copy.deepcopy(event))
        return self

    def _take_response(self, response: dict[str, Any]) -> None:
        Response.model_validate(response)
        ModelResponse.model_validate(response)
        assert response["output"] == self.output
        assert [step for step in self.steps if step["state"] != "running"] == response.get("steps", [])
        self.response = response

    def _take(self, name: str, event: dict[str, Any]) -> None:
        if name == "step":
            self.steps.append(event["step"])
            return
        if name == "output_item.added":
            assert event["output_index"] == len(self.output)
            assert all(item["status"] != "in_progress" for item in self.output)
            assert event["item"]["status"] == "in_progress"
            self.output.append(event["item"])
            return
        item = self.output[-1]
        assert (event["output_index"], item["status"]) == (len(self.output) - 1, "in_progress")
        assert event.get("item_id", item["id"]) == item["id"]
        parts = item["summary" if "summary_index" in event else "content"] if "part" in name or "text" in name else []
        match name:
            case "image_generation_call.in_progress" | "image_generation_call.generating":
                assert item["result"] is None
            case "image_generation_call.completed":
                assert item["type"] == "image_generation_call"
            case "output_item.done" if item["type"] == "image_generation_call":
                assert (event["item"]["id"], event["item"]["status"] == "completed") == (
                    item["id"],
                    self.names[-2] == "image_generation_call.completed",
                )
                self.output[-1] = event["item"]
            case "output_item.done":
                item["status"] = event["item"]["status"]
                assert item["status"] != "in_progress"
                assert event["item"] == item
            case "content_part.added" | "reasoning_summary_part.added":
                assert parts == []
                parts.append(event["part"])
            case "content_part.done" | "reasoning_summary_part.done":
                assert parts == [event["part"]]
            case "output_text.delta" | "reasoning_text.delta" | "reasoning_summary_text.delta":
                parts[0]["text"] += event["delta"]
                parts[0].setdefault("logprobs", []).extend(event.get("logprobs", ()))
                if "reasoning" in name:
                    assert parts[0].pop("logprobs") == []
            case "output_text.done":
                assert (event["text"], event["logprobs"]) == (parts[0]["text"], parts[0]["logprobs"])
            case "reasoning_text.done" | "reasoning_summary_text.done":
                assert event["text"] == parts[0]["text"]
            case "function_call_arguments.delta":
                item["arguments"] += event["delta"]
            case "function_call_arguments.done":
                assert (event["arguments"], event["name"]) == (item["arguments"], item["name"])
            case "custom_tool_call_input.delta":
                item["input"] += event["delta"]
            case "custom_tool_call_input.done":
                assert event["input"] == item["input"]
            case _:
                raise AssertionError(f"unknown event {name}")
