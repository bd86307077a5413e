"""Writes the answer of `/v1/responses` from a generation: one response object, or the event frames of a stream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from auth_billing.errors import AccountError
from gateway.answers.responses.events import ErrorOf, ResponseEvents, event_frame
from gateway.answers.responses.response_object import response_usage
from gateway.errors import ClientDisconnected
from gateway.jobs.generation import Generation
from router.producer.errors import GenerationError

Keep = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Stores an ended response object if it is to be stored; returns it, with `store` false if that failed."""


async def whole_response(generation: Generation, events: ResponseEvents, keep: Keep) -> dict[str, Any]:
    """Wait for the end of a generation; return its response object, which is stored before.

    Raises:
        GenerationError: The generation did not finish.
    """
    async for batch in generation.batches():
        for _ in await events.arrived([delta for _, delta in batch]):
            pass  # the output is what counts
    return await keep(_finished(generation, events))


async def response_frames(
    generation: Generation, events: ResponseEvents, keep: Keep, error_of: ErrorOf
) -> AsyncIterator[str]:
    """Yield the event frames of a response's stream, those of one batch of `generation` at once.

    The response is stored before its last event. A failure after the first event is the event `response.failed`.
    """
    yield "".join(map(event_frame, events.begin()))
    try:
        async for batch in generation.batches():
            frames = [event_frame(event) for event in await events.arrived([delta for _, delta in batch])]
            if generation.finished:
                frames += map(event_frame, events.end(await keep(_finished(generation, events))))
            yield "".join(frames)
    except ClientDisconnected:
        raise
    except (GenerationError, AccountError) as error:
        frames = [event_frame(event) for event in events.break_off()]
        frames += map(event_frame, events.end(await keep(events.failed(error_of(error)))))
        yield "".join(frames)


def _finished(generation: Generation, events: ResponseEvents) -> dict[str, Any]:
    return events.finished(response_usage(generation.usage, generation.parts), int(time.time()))
