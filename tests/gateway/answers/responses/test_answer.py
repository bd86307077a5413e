"""The answer of one generation, whole and as a stream: the stream's last event has the whole response."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from auth_billing.errors import InsufficientCredit
from gateway.answers.responses.answer import response_frames, whole_response
from gateway.errors import ClientDisconnected
from gateway.jobs.generation import ChoiceDelta, Generation
from router.messages import Delta, Usage, UsagePart
from router.producer.errors import DeadlinePassed
from tests.gateway.answers.responses.client import SHOUT, EventClient, call, deltas, response_events

ANSWER = deltas(
    {"reasoning": "Hm"},
    {"text": "I look."},
    call(0, '{"city": "Łódź"}', name="weather"),
    call(1, '{"input": "hey"}', name="shout"),
)
CUT = deltas({"text": "a"}, {"text": "b"}, finish="length")


class Answered:
    """Deltas as a generation yields them, in `batches`, and then its end or an error."""

    usage = Usage(prompt_tokens=5, completion_tokens=4, cached_tokens=2, reasoning_tokens=1)
    parts: Sequence[UsagePart] = ()

    def __init__(self, *batches: list[Delta], error: Exception | None = None) -> None:
        self.finished = False
        self._batches = batches
        self._error = error

    async def batches(self) -> AsyncIterator[list[ChoiceDelta]]:
        for number, batch in enumerate(self._batches):
            self.finished = number == len(self._batches) - 1 and self._error is None
            yield [ChoiceDelta(0, each) for each in batch]
        if self._error is not None:
            raise self._error

    @property
    def generation(self) -> Generation:
        return cast(Generation, self)


class Kept:
    """What was stored."""

    def __init__(self) -> None:
        self.responses: list[dict[str, Any]] = []

    async def __call__(self, response: dict[str, Any]) -> dict[str, Any]:
        self.responses.append(response)
        return {**response, "store": False}


def error_of(error: Exception) -> dict[str, Any]:
    return {"code": "server_error", "message": type(error).__name__}


async def streamed(answered: Answered, keep: Kept, **fields: Any) -> list[list[dict[str, Any]]]:
    """The events of each write."""
    events = response_events(**fields)
    return [
        [json.loads(frame.partition("data: ")[2]) for frame in frames.split("\n\n")[:-1]]
        async for frames in response_frames(answered.generation, events, keep, error_of)
    ]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms of an answer begin and end at one time."""
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.5)


@pytest.mark.parametrize("answer", [ANSWER, CUT])
async def test_the_last_event_has_the_whole_response(answer: list[Delta]) -> None:
    fields: dict[str, Any] = {"tools": [SHOUT]}
    keep, keep_whole = Kept(), Kept()
    writes = await streamed(Answered(answer[:1], [], answer[1:]), keep, **fields)
    client = EventClient().read(event for events in writes for event in events)
    whole = await whole_response(Answered(answer).generation, response_events(**fields), keep_whole)
    assert client.response == json.loads(json.dumps(whole))
    assert whole["usage"]["output_tokens_details"] == {"reasoning_tokens": 1}
    assert len(keep.responses) == len(keep_whole.responses) == 1
    assert keep_whole.responses[0]["output"] == whole["output"]


async def test_the_events_of_a_batch_are_one_write_and_the_first_ones_do_not_wait() -> None:
    writes = await streamed(Answered(CUT[:1], CUT[1:]), Kept())
    assert [[event["type"].removeprefix("response.") for event in write] for write in writes] == [
        ["created", "in_progress"],
        ["output_item.added", "content_part.added", "output_text.delta"],
        ["output_text.delta", "output_text.done", "content_part.done", "output_item.done", "incomplete"],
    ]


async def test_what_the_store_refused_is_in_the_last_event() -> None:
    writes = await streamed(Answered(CUT), Kept())
    assert writes[-1][-1]["response"]["store"] is False
    assert writes[0][0]["response"]["store"] is True


@pytest.mark.parametrize("error", [DeadlinePassed(), InsufficientCredit(10, 1)])
async def test_a_failure_ends_the_open_item_and_is_the_last_event(error: Exception) -> None:
    keep = Kept()
    writes = await streamed(Answered(CUT[:1], error=error), keep)
    client = EventClient().read(event for events in writes for event in events)
    assert client.names[-4:] == ["output_text.done", "content_part.done", "output_item.done", "failed"]
    assert client.response["error"] == {"code": "server_error", "message": type(error).__name__}
    assert client.output[0]["status"] == "incomplete"
    assert [each["status"] for each in keep.responses] == ["failed"]


async def test_a_whole_response_that_fails_raises_and_is_not_stored() -> None:
    keep = Kept()
    with pytest.raises(DeadlinePassed):
        await whole_response(Answered(CUT[:1], error=DeadlinePassed()).generation, response_events(), keep)
    assert keep.responses == []


async def test_nothing_is_written_or_stored_for_a_client_that_left() -> None:
    keep = Kept()
    with pytest.raises(ClientDisconnected):
        await streamed(Answered(CUT[:1], error=ClientDisconnected()), keep)
    assert keep.responses == []
