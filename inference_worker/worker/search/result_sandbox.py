"""Compares results of a search's answers as mathematics, with SymPy in sandboxed processes with limits."""

from __future__ import annotations

from contextlib import aclosing

import msgspec
import structlog

from inference_worker.search.events import Compare, Compared
from router.fair_slots import FairSlots
from runtime.sandbox.fork_server import ForkServer
from runtime.sandbox.limits import SandboxError, WorkLimits

WORK = "inference_worker.search.equality:encoded_equals"
LIMITS = WorkLimits(
    memory_bytes=256 * 2**20,
    cpu_seconds=2.0,
    output_bytes=512 * 1024,
    message_bytes=2048,
    wait_seconds=15.0,
    busy_seconds=3.0,
)
"""Limits of the comparison of one step's results; the wait includes the first start of the process, with SymPy."""
PROCESSES = 4
"""Comparisons at the same time; further ones wait, tenants and requesters in turn."""
OF_TENANT, OF_REQUESTER = 3, 2
"""Of them at most of one tenant, and of one requester."""

_log = structlog.get_logger(__name__)
_decoder = msgspec.msgpack.Decoder(str)


class ResultSandbox:
    """Compares results with SymPy in children of one process, which starts with the first comparison.

    Use it on one event loop. The process ends when it was idle for some minutes, and with this object.
    """

    def __init__(self, limits: WorkLimits = LIMITS) -> None:
        self._server = ForkServer(WORK)
        self._limits = limits
        self._slots = FairSlots(PROCESSES, per_tenant=OF_TENANT, per_requester=OF_REQUESTER)

    async def compare(self, command: Compare, tenant: str, requester: str) -> Compared:
        """Return which results of `command` are equal as mathematics, found by SymPy in a sandboxed process.

        Waits for a free process, fairly among tenants and requesters. Results that a limit or a missing sandbox leaves
        open count as different; nothing is raised for these.
        """
        order = msgspec.msgpack.encode(command)
        found: list[str] = []
        async with self._slots.hold(tenant, requester):
            try:
                async with aclosing(self._server.run(self._limits, order)) as messages:
                    async for message in messages:
                        found.append(_decoder.decode(message))  # noqa: PERF401 - those before a limit are kept
            except (SandboxError, OSError, msgspec.DecodeError) as error:
                _log.info("results compared as texts", reason=str(error), compared=len(found), results=len(command.new))
        results = {*command.known, *command.new}
        equal = zip(command.new, found, strict=False)
        return Compared({result: first for result, first in equal if first != result and first in results})

    def close(self) -> None:
        """End the sandboxed processes that compare results."""
        self._server.close()
