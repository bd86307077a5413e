"""Writes the events of a response in OpenAI's order, numbered from 0, and its response object at the end.

The order: `response.created`, `response.in_progress`, for each output item `response.output_item.added`, its parts and
deltas, `response.output_item.done`; and one of `response.completed`, `response.incomplete`, `response.failed` last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gateway.answers.event_frames import compact
from gateway.answers.responses.output import INCOMPLETE, Event, ResponseOutput
from gateway.answers.responses.response_object import ResponseObject
from gateway.answers.responses.run_log import Entry, JobBegun, JobEnded, SearchBegun, SearchEnded
from gateway.openai.responses.response import ResponseStatus
from router.messages import Delta

ErrorOf = Callable[[Exception], dict[str, Any]]
"""Returns `code` and `message` of a response's error for an exception."""


def event_frame(event: Event) -> str:
    """Encode a numbered event as a Server-Sent Events frame, whose event name is its type."""
    return f"event: {event['type']}\ndata: {compact(event)}\n\n"


class ResponseEvents:
    """The numbered events of one response. Equal calls give equal events."""

    def __init__(self, response: ResponseObject, output: ResponseOutput) -> None:
        self.output = output
        self.next_number = 0
        """Sequence number of the next event."""
        self._response = response

    def begin(self) -> Iterator[Event]:
        """Yield the first events: the response is created, and in progress."""
        yield from self._numbered(self._of_response("created", "in_progress"))
        yield from self.progress()

    def queue(self) -> Iterator[Event]:
        """Yield the first events of a background response: it is created, and queued."""
        yield from self._numbered(self._of_response("created", "queued"))
        yield from self._numbered(self._of_response("queued", "queued"))

    def progress(self) -> Iterator[Event]:
        """Yield the event that the response is in progress."""
        yield from self._numbered(self._of_response("in_progress", "in_progress"))

    async def arrived(self, entries: Sequence[Entry]) -> list[Event]:
        """Read the images of the next entries of the answer's log; return the events about these entries."""
        await self.output.read_images([each for each in entries if isinstance(each, Delta)])
        return list(self.take(entries))

    def take(self, entries: Iterable[Entry]) -> Iterator[Event]:
        """Yield the events about the next entries of the answer's log, whose images are read."""
        for entry in entries:
            match entry:
                case Delta():
                    yield from self._numbered(self.output.take(entry))
                case SearchBegun():
                    yield from self._numbered(self.output.begin_search(entry.queries))
                case SearchEnded():
                    yield from self._numbered(self.output.end_search(entry.results))
                case JobBegun():
                    self.output.sources = entry.sources
                case JobEnded():
                    self.output.wanted_queries()  # the log says which of them are searched for

    def break_off(self) -> Iterator[Event]:
        """Yield the events about the end of the open item of an answer that goes no further."""
        yield from self._numbered(self.output.close(incomplete=True))

    def end(self, response: dict[str, Any]) -> Iterator[Event]:
        """Yield the last event, whose name is the status of the ended `response`."""
        yield from self._numbered([{"type": f"response.{response['status']}", "response": response}])

    def finished(self, usage: dict[str, Any], completed_at: int) -> dict[str, Any]:
        """Return the response object of an answer that is whole, or cut at its limit of tokens."""
        incomplete = INCOMPLETE.get(self.output.finish_reason or "")
        return self._response.ended(
            "incomplete" if incomplete else "completed",
            self.output.items,
            self.output.steps,
            usage=usage,
            incomplete=incomplete,
            completed_at=None if incomplete else completed_at,
        )

    def failed(self, error: dict[str, Any]) -> dict[str, Any]:
        """Return the response object of an answer that failed, with `code` and `message` of its error."""
        return self._response.ended("failed", self.output.items, self.output.steps, error=error)

    def cancelled(self, usage: dict[str, Any] | None) -> dict[str, Any]:
        """Return the response object of an answer that was cancelled."""
        return self._response.ended("cancelled", self.output.items, self.output.steps, usage=usage)

    def unfinished(self, status: ResponseStatus) -> dict[str, Any]:
        """Return the response object of an answer that goes on, with its output until now."""
        return self._response.in_state(status, self.output.items, self.output.steps)

    def _of_response(self, what: str, status: ResponseStatus) -> list[Event]:
        response = self._response.in_state(status, self.output.items, self.output.steps)
        return [{"type": f"response.{what}", "response": response}]

    def _numbered(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            number, self.next_number = self.next_number, self.next_number + 1
            yield {"type": event["type"], "sequence_number": number, **event}
