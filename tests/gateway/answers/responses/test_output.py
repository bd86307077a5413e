"""Output items and events of answers of every kind: a client that reads the events has the items."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.answers.responses.drawn_images import DrawnImages
from router.messages import Delta, FinishReason, Step, StepState
from stored_objects.objects.records import ObjectKind, ObjectOwner
from tests.fakes.scripted_worker import logprob, png
from tests.fakes.stored_objects import stored_objects
from tests.gateway.answers.responses.client import (
    ID,
    SHOUT,
    EventClient,
    call,
    delta,
    deltas,
    response_events,
)

MESSAGE = ["output_item.added", "content_part.added", "output_text.delta"]
END_OF_MESSAGE = ["output_text.done", "content_part.done", "output_item.done"]


def read(answer: Sequence[Delta], **fields: Any) -> EventClient:
    """A client that has read the events about the deltas of an answer."""
    events = response_events(**fields)
    client = EventClient().read(events.take(answer))
    assert client.output == events.output.items
    return client


def drawing(state: StepState, *blobs: str) -> dict[str, Any]:
    """The fields of a delta about a step that draws."""
    images = [{"blob": blob} for blob in blobs]
    result = {"type": "image", "prompt_sent": "a cat", "size": "64x64", "images": images}
    data = {"result": result} if state is StepState.DONE else {}
    return {"token_ids": [], "step": Step(number=0, kind="tool", name="image", state=state, data=data)}


async def drawn(*pngs: bytes) -> tuple[DrawnImages, list[str]]:
    """Images in a store that are not read yet, and their blob ids."""
    objects, owner = stored_objects(), ObjectOwner("tenant-1", "key-1")
    stored = [await objects.put(owner, png, kind=ObjectKind.IMAGE, media_type="image/png") for png in pngs]
    return DrawnImages(objects), [each.id for each in stored]


GENERATING = [
    *("step", "output_item.added", "image_generation_call.in_progress", "image_generation_call.generating"),
]
DRAWN = ["image_generation_call.completed", "output_item.done"]


async def test_images_are_items_with_their_content() -> None:
    images, blobs = await drawn(png(0), png(1))
    answer = deltas(drawing(StepState.RUNNING), drawing(StepState.DONE, *blobs), {"text": ""})
    events = response_events(images=images)
    client = EventClient().read([each for one in answer for each in await events.arrived([one])])
    assert client.names == [*GENERATING, "step", *DRAWN, *GENERATING[1:], *DRAWN]
    first, second = client.output
    assert first == {
        "type": "image_generation_call",
        "id": f"ig_{7:032x}0001",
        "status": "completed",
        "result": base64.b64encode(png(0)).decode(),
        "revised_prompt": "a cat",
        "size": "64x64",
        "output_format": "png",
    }
    assert (second["id"], base64.b64decode(second["result"])) == (f"ig_{7:032x}0002", png(1))


@pytest.mark.parametrize(
    "end", [drawing(StepState.FAILED), drawing(StepState.DONE, "missing"), drawing(StepState.DONE), {"text": "Sorry."}]
)
async def test_an_image_that_was_not_drawn_or_is_gone_is_a_failed_item(end: dict[str, Any]) -> None:
    images, _ = await drawn()
    events = response_events(images=images)
    answer = deltas(drawing(StepState.RUNNING), end, {"text": "."})
    client = EventClient().read(await events.arrived(answer))
    image, message = client.output
    assert (image["status"], image["result"], message["type"]) == ("failed", None, "message")
    assert "image_generation_call.completed" not in client.names


async def test_an_answer_that_breaks_off_has_a_failed_image() -> None:
    images, _ = await drawn()
    events = response_events(images=images)
    began = await events.arrived([delta(**drawing(StepState.RUNNING))])
    client = EventClient().read([*began, *events.break_off()])
    assert (client.names, client.output[0]["status"]) == ([*GENERATING, "output_item.done"], "failed")


async def test_images_are_steps_only_without_the_tool_for_image_generation() -> None:
    _, blobs = await drawn(png(0))
    client = read(deltas(drawing(StepState.RUNNING), drawing(StepState.DONE, *blobs)))
    assert (client.names, client.output) == (["step", "step"], [])


def texts(client: EventClient) -> list[str]:
    """The text of each item."""
    fields = {"function_call": "arguments", "custom_tool_call": "input"}
    return [
        item[fields[item["type"]]]
        if item["type"] in fields
        else "".join(part["text"] for part in [*item.get("content", ()), *item.get("summary", ())])
        for item in client.output
    ]


def test_text_is_a_message() -> None:
    client = read(deltas({"text": "Hel"}, {"text": "lo."}))
    assert client.names == [*MESSAGE, "output_text.delta", *END_OF_MESSAGE]
    assert client.output == [
        {
            "type": "message",
            "id": f"msg_{7:032x}0001",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}],
        }
    ]


def test_an_answer_without_text_has_no_items() -> None:
    assert read(deltas({})).names == []


def test_function_calls_are_items_with_all_arguments() -> None:
    client = read(
        deltas({"text": "I look."}, call(0, '{"a":', name="f"), call(0, " 1}"), call(1, name="g"), finish="tool_calls")
    )
    assert texts(client) == ["I look.", '{"a": 1}', ""]
    _, first, second = client.output
    assert first == {
        "type": "function_call",
        "id": f"fc_{7:032x}0002",
        "status": "completed",
        "call_id": "call_0",
        "name": "f",
        "arguments": '{"a": 1}',
    }
    assert (second["call_id"], second["name"], second["arguments"]) == ("call_1", "g", "")
    assert client.names[len(MESSAGE + END_OF_MESSAGE) :] == [
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.done", "output_item.done"),
    ]


def test_two_calls_in_one_delta_are_two_items() -> None:
    both = {"tool_calls": [*call(0, "{}", name="f")["tool_calls"], *call(1, "{}", name="f")["tool_calls"]]}
    assert [item["call_id"] for item in read(deltas(both)).output] == ["call_0", "call_1"]


def test_the_input_of_a_custom_tool_is_the_argument_s_text() -> None:
    pieces = ['{"inp', 'ut": "h\\u00', 'e9 "', "}"]
    answer = deltas(call(0, name="shout"), *(call(0, piece) for piece in pieces))
    client = read(answer, tools=[SHOUT])
    assert client.output == [
        {
            "type": "custom_tool_call",
            "id": f"ctc_{7:032x}0001",
            "status": "completed",
            "call_id": "call_0",
            "name": "shout",
            "input": "hé ",
        }
    ]
    (as_function,) = read(answer).output
    assert (as_function["type"], as_function["arguments"]) == ("function_call", "".join(pieces))


def test_arguments_of_a_custom_tool_that_are_no_object_are_its_input_at_the_end() -> None:
    client = read(deltas(call(0, "free ", name="shout"), call(0, "text")), tools=[SHOUT])
    assert texts(client) == ["free text"]
    assert client.names == [
        *("output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done"),
    ]


def test_reasoning_is_content_before_the_message() -> None:
    client = read(deltas({"reasoning": "Hm"}, {"reasoning": "m."}, {"text": "Yes"}))
    assert texts(client) == ["Hmm.", "Yes"]
    reasoning, message = client.output
    assert reasoning == {
        "type": "reasoning",
        "id": f"rs_{7:032x}0001",
        "status": "completed",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hmm."}],
    }
    assert message["id"] == f"msg_{7:032x}0002"


def test_reasoning_is_a_summary_where_one_is_requested() -> None:
    client = read(deltas({"reasoning": "Hm"}, {"text": "Yes"}), reasoning={"summary": "auto"})
    reasoning, _ = client.output
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Hm"}]
    assert "content" not in reasoning
    assert client.names[:5] == [
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done"),
    ]


def test_the_end_of_reasoning_and_the_first_text_can_be_one_delta() -> None:
    assert texts(read(deltas({"reasoning": "Hm", "text": "Yes"}))) == ["Hm", "Yes"]


@pytest.mark.parametrize(
    ("finish", "status"),
    [("stop", "completed"), ("tool_calls", "completed"), ("length", "incomplete"), ("content_filter", "incomplete")],
)
@pytest.mark.parametrize(
    "last", [{"text": "b"}, {"reasoning": "b"}, call(0, "b", name="f"), call(0, "b", name="shout")]
)
def test_only_the_item_that_is_cut_is_incomplete(last: dict[str, Any], finish: FinishReason, status: str) -> None:
    first = {"reasoning": "a"} if "text" in last else {"text": "a"}
    client = read(deltas(first, last, finish=finish), tools=[SHOUT])
    assert [item["status"] for item in client.output] == ["completed", status]
    assert texts(client) == ["a", "b"]


def test_closing_an_answer_that_broke_off_ends_its_item_once() -> None:
    events = response_events()
    client = EventClient().read(events.take(deltas({"text": "a"}, finish=None)))
    assert client.output[0]["status"] == "in_progress"
    client.read(events.break_off())
    assert client.output[0]["status"] == "incomplete"
    assert client.output == events.output.items
    assert list(events.break_off()) == []


def test_log_probabilities_wait_for_the_text_of_their_tokens() -> None:
    tokens = [logprob(number) for number in range(4)]
    client = read(
        deltas(
            {"reasoning": "Hm", "logprobs": tokens[:1]},
            {"logprobs": tokens[1:2]},
            {"text": "é", "logprobs": tokens[2:3]},
            {"logprobs": tokens[3:]},
        )
    )
    (part,) = client.output[1]["content"]
    assert [token["token"] for token in part["logprobs"]] == [token.chosen.text for token in tokens[1:]]
    assert part["logprobs"][0]["top_logprobs"][1] == {"token": "é", "logprob": -1.5, "bytes": [195, 169]}


def test_log_probabilities_of_a_call_s_markup_are_in_no_text() -> None:
    client = read(deltas({"text": "a"}, {"logprobs": [logprob(0)]}, call(0, "{}", name="f"), {"text": "b"}))
    parts = [part for item in client.output if item["type"] == "message" for part in item["content"]]
    assert [part["logprobs"] for part in parts] == [[], []]


def test_steps_are_events_and_ended_ones_are_kept() -> None:
    step = Step(number=0, kind="tool", name="weather", state=StepState.RUNNING)
    ended = Step(number=0, kind="tool", name="weather", state=StepState.DONE, data={"result": "rain"})
    events = response_events()
    client = EventClient().read(events.take([delta(step=step), delta(step=ended), *deltas({"text": "Rain."})]))
    assert client.names[:3] == ["step", "step", "output_item.added"]
    assert [each["state"] for each in client.steps] == ["running", "done"]
    assert events.output.steps == client.steps[1:]
    assert events.output.steps[0]["data"] == {"result": "rain"}


CALLS = st.lists(st.tuples(st.sampled_from(["f", "shout"]), st.text(max_size=6)), max_size=3)


@st.composite
def answers(draw: st.DrawFn) -> list[Delta]:
    """Answers that a worker may send: reasoning, text and calls in pieces of any size, with and without an end."""
    fields: list[dict[str, Any]] = [{"reasoning": each} for each in draw(st.lists(st.text(max_size=4), max_size=3))]
    fields += [
        {"text": each, "logprobs": [logprob(0)] if draw(st.booleans()) else None}
        for each in draw(st.lists(st.text(max_size=4), max_size=3))
    ]
    for index, (name, text) in enumerate(draw(CALLS)):
        arguments = json.dumps({"input": text}) if draw(st.booleans()) else text
        cut = draw(st.integers(0, len(arguments)))
        fields += [call(index, arguments[:cut], name=name), call(index, arguments[cut:])]
    return deltas(*fields, {}, finish=draw(st.sampled_from([None, "stop", "length", "tool_calls"])))


@given(answers(), st.booleans())
def test_a_client_has_the_output_after_any_answer(answer: list[Delta], summarises: bool) -> None:
    fields: dict[str, Any] = {"tools": [SHOUT], "reasoning": {"summary": "auto" if summarises else None}}
    events = response_events(**fields)
    client = EventClient().read([*events.take(answer), *events.break_off()])
    assert client.output == events.output.items
    assert len({item["id"] for item in client.output}) == len(client.output)
    assert all(item["id"].split("_")[1].startswith(ID.split("_")[1]) for item in client.output)
    messages = [text for item, text in zip(client.output, texts(client), strict=True) if item["type"] == "message"]
    assert "".join(messages) == "".join(each.text for each in answer)


@given(answers())
def test_equal_deltas_give_equal_events(answer: list[Delta]) -> None:
    first, second = response_events(tools=[SHOUT]), response_events(tools=[SHOUT])
    assert list(first.take(answer)) == [event for each in answer for event in second.take([each])]
    assert list(first.break_off()) == list(second.break_off())
