"""Checks the mathematics tool's computations, and runs them in sandboxed processes, limited in memory and time.

Expressions are read and their bounds checked here first, so that what is refused starts no process.
"""

from __future__ import annotations

import msgspec

from assistant.tools.mathematics import sentences
from assistant.tools.mathematics.order import Computed, Failed, Order, Outcome
from assistant.tools.mathematics.refusals import refusals_as_tool_errors
from assistant.tools.sandbox import ToolSandbox
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, NotFound, TooLarge, ToolContext, ToolError, Unavailable
from runtime.mathematics import bounds
from runtime.mathematics.parser import parse, parse_expression
from runtime.sandbox.limits import WorkLimits

WORK = "assistant.tools.mathematics.computation:encoded_outcome"
LIMITS = WorkLimits(
    memory_bytes=256 * 2**20,
    cpu_seconds=1.2,
    output_bytes=512 * 1024,
    message_bytes=512 * 1024,
    wait_seconds=8.0,
    busy_seconds=1.6,
)
"""Limits of one computation, from its fork on, which is after the import of SymPy."""

_ERRORS: dict[str, type[ToolError]] = {each.code: each for each in (InvalidArguments, NotFound, TooLarge, Unavailable)}
_decoder: msgspec.msgpack.Decoder[Outcome] = msgspec.msgpack.Decoder(Outcome)


class Calculator:
    """Computes orders in sandboxed processes. Close it at the end."""

    def __init__(self, limits: WorkLimits = LIMITS) -> None:
        self._sandbox = ToolSandbox(WORK, limits, too_costly=sentences.TOO_HARD, unreadable=sentences.TOO_HARD)

    async def compute(self, order: Order, context: ToolContext) -> Computed:
        """Compute one order (such as an expression to solve) in a sandboxed process, and return its result.

        Raises:
            ToolError: the order can't be read, exceeds a limit, or has no result.
        """
        with refusals_as_tool_errors():
            _check(order)
        messages = await self._sandbox.run(msgspec.msgpack.encode(order), context)
        try:
            [found] = map(_decoder.decode, messages)
        except ValueError as error:  # also `msgspec.DecodeError`
            raise Unavailable(sentences.TOO_HARD) from error
        if isinstance(found, Failed):
            raise _ERRORS.get(found.code, Unavailable)(_sentence(found.sentence))
        return found

    @property
    def process_id(self) -> int | None:
        """Id of the process whose children compute; `None` if it does not run."""
        return self._sandbox.process_id

    def close(self) -> None:
        """End the sandboxed processes of computations."""
        self._sandbox.close()


def _check(order: Order) -> None:
    for statement in parse(order.expression, order.language):
        bounds.check(statement)
    for text in (order.lower, order.upper, order.variable):
        if text:
            bounds.check(parse_expression(text, order.language))


def _sentence(name: str) -> Sentence:
    found = getattr(sentences, name, None)
    return found if isinstance(found, Sentence) else sentences.NO_CLOSED_FORM
