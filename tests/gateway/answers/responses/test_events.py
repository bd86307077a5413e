"""The events around an answer, their numbers, and the response objects that its first and last ones have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.answers.responses.events import event_frame
from router.messages import FinishReason
from tests.gateway.answers.responses.client import ID, EventClient, deltas, response_events

USAGE = {
    "input_tokens": 5,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 7,
}
ERROR = {"code": "server_error", "message": "No."}


def test_a_frame_is_named_after_its_event_and_has_one_line_of_ascii() -> None:
    event = {"type": "response.output_text.delta", "sequence_number": 3, "delta": "é\n\u2028"}
    name, data, *end = event_frame(event).split("\n")
    assert (name, end) == ("event: response.output_text.delta", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == event
    assert data.isascii()


def test_a_response_is_created_and_in_progress_before_its_output() -> None:
    client = EventClient().read(response_events().begin())
    assert client.names == ["created", "in_progress"]
    assert (client.response["id"], client.response["status"], client.response["output"]) == (ID, "in_progress", [])
    assert client.response["completed_at"] is None


def test_a_background_response_is_queued_before_it_is_in_progress() -> None:
    events = response_events(background=True)
    client = EventClient().read(events.queue())
    assert (client.names, client.response["status"]) == (["created", "queued"], "queued")
    client.read(events.progress())
    assert (client.names[2:], client.response["status"]) == (["in_progress"], "in_progress")


def test_numbers_go_on_from_the_first_event_to_the_last() -> None:
    events = response_events()
    client = EventClient().read(events.begin())
    for each in deltas({"reasoning": "Hm"}, {"text": "a"}, {"text": "b"}):
        client.read(events.take([each]))
    client.read(events.end(events.finished(USAGE, 9)))
    assert events.next_number == len(client.names)


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_the_last_event_of_a_finished_answer_has_its_state(
    finish: FinishReason, status: str, reason: str | None
) -> None:
    events = response_events()
    client = EventClient().read([*events.begin(), *events.take(deltas({"text": "a"}, finish=finish))])
    client.read(events.end(events.finished(USAGE, 9)))
    ended = client.response
    assert (client.names[-1], ended["status"]) == (status, status)
    assert ended["incomplete_details"] == (None if reason is None else {"reason": reason})
    assert ended["completed_at"] == (9 if status == "completed" else None)
    assert (ended["usage"], ended["error"], ended["output"][0]["status"]) == (USAGE, None, status)


def test_a_failed_answer_has_its_error_and_what_was_written() -> None:
    events = response_events()
    client = EventClient().read([*events.begin(), *events.take(deltas({"text": "a"}, finish=None))])
    client.read(events.break_off()).read(events.end(events.failed(ERROR)))
    assert client.names[-1] == "failed"
    assert (client.response["status"], client.response["error"]) == ("failed", ERROR)
    assert client.response["output"][0]["content"][0]["text"] == "a"
    assert "usage" not in client.response


@pytest.mark.parametrize("usage", [USAGE, None])
def test_a_cancelled_answer_has_the_usage_that_is_known(usage: dict[str, Any] | None) -> None:
    events = response_events(background=True)
    client = EventClient().read([*events.queue(), *events.progress()])
    client.read([*events.break_off(), *events.end(events.cancelled(usage))])
    assert (client.names[-1], client.response["status"]) == ("cancelled", "cancelled")
    assert client.response.get("usage") == usage


def test_an_answer_that_goes_on_has_its_output_until_now() -> None:
    events = response_events()
    client = EventClient().read(events.take(deltas({"reasoning": "Hm"}, {"text": "a"}, finish=None)))
    unfinished = events.unfinished("in_progress")
    assert [item["type"] for item in unfinished["output"]] == ["reasoning", "message"]
    assert unfinished["output"][0] == client.output[0]
    assert (unfinished["status"], unfinished["output"][1]["status"]) == ("in_progress", "in_progress")
