"""Waits for a whole answer: what a client gets that does not stream."""

from __future__ import annotations

from gateway.answer import Collected
from gateway.generation import Generation


async def collect(generation: Generation) -> list[Collected]:
    """All choices, in order of index.

    Raises:
        GenerationError: there is no whole answer.
    """
    choices = [Collected() for job in generation.jobs for _ in range(job.n)]
    async for event in generation:
        choice = choices[event.index]
        choice.text.append(event.delta.t)
        choice.logprobs.extend(event.delta.lp or [])
        choice.finish_reason = event.delta.f
    return choices
