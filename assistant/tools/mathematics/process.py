"""Computes orders in a sandboxed process each: no files, no network, limits on memory, CPU and time.

Expressions are read and their bounds checked here first, so that what is refused starts no process.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec

from assistant.tools.mathematics import bounds, sentences
from assistant.tools.mathematics.order import Computed, Failed, Order, Outcome
from assistant.tools.mathematics.parser import parse, parse_expression
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, NotFound, TooLarge, ToolError, Unavailable
from runtime.sandbox import process
from runtime.sandbox.limits import LimitExceeded, SandboxUnavailable, WorkFailed, WorkLimits

WORK = "assistant.tools.mathematics.computation:encoded_outcome"
LIMITS = WorkLimits(
    memory_bytes=256 * 2**20,
    cpu_seconds=1.8,
    output_bytes=512 * 1024,
    message_bytes=512 * 1024,
    wait_seconds=8.0,
)
"""Limits of one computation. The CPU time counts from the confinement, after the import of SymPy."""
PROCESSES = 2
"""Computations at the same time; further ones wait."""

_ERRORS: dict[str, type[ToolError]] = {each.code: each for each in (InvalidArguments, NotFound, TooLarge, Unavailable)}
_decoder: msgspec.msgpack.Decoder[Outcome] = msgspec.msgpack.Decoder(Outcome)


class Calculator:
    """Computes orders in sandboxed processes, at most `PROCESSES` at a time."""

    def __init__(self, limits: WorkLimits = LIMITS) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(PROCESSES)

    async def compute(self, order: Order) -> Computed:
        """Compute an order.

        Raises:
            ToolError: it can't be read, exceeds a limit, or has no result.
        """
        _check(order)
        async with self._free:
            found = await self._run(msgspec.msgpack.encode(order))
        if isinstance(found, Failed):
            raise _ERRORS.get(found.code, Unavailable)(_sentence(found.sentence))
        return found

    async def _run(self, order: bytes) -> Outcome:
        """Run an order; once more if its process ended early, as one that the machine killed."""
        try:
            return await self._run_once(order)
        except WorkFailed:
            try:
                return await self._run_once(order)
            except WorkFailed as error:
                raise Unavailable(sentences.TOO_HARD) from error

    async def _run_once(self, order: bytes) -> Outcome:
        try:
            async with aclosing(process.run(WORK, self._limits, order)) as messages:
                async for message in messages:
                    return _decoder.decode(message)
        except LimitExceeded as error:
            raise TooLarge(sentences.TOO_HARD) from error
        except msgspec.DecodeError as error:
            raise Unavailable(sentences.TOO_HARD) from error
        except SandboxUnavailable as error:
            raise Unavailable from error
        raise Unavailable


def _check(order: Order) -> None:
    for statement in parse(order.expression, order.language):
        bounds.check(statement)
    for text in (order.lower, order.upper, order.variable):
        if text:
            bounds.check(parse_expression(text, order.language))


def _sentence(name: str) -> Sentence:
    found = getattr(sentences, name, None)
    return found if isinstance(found, Sentence) else sentences.NO_CLOSED_FORM
