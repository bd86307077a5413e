"""Runs tools' work on untrusted input in sandboxed processes, shared fairly among tenants and requesters."""

from __future__ import annotations

from contextlib import aclosing

from assistant.tools.sentences import Sentence
from assistant.tools.tool import TooLarge, ToolContext, Unavailable
from router.fair_slots import FairSlots, SlotRefused
from runtime.sandbox.fork_server import ForkServer
from runtime.sandbox.limits import LimitExceeded, SandboxUnavailable, WorkFailed, WorkLimits

PROCESSES = 4
"""Pieces of work at the same time; further ones wait, tenants and requesters in turn."""
OF_TENANT, OF_REQUESTER = 3, 1
"""Of them at most of one tenant, and of one requester."""

_NOT_STARTED = Sentence(
    "Another request of yours took too long, so this one was not started. Please send it again.",
    "Inne Twoje zapytanie trwało zbyt długo, więc tego nie rozpoczęto. Wyślij je jeszcze raz.",
)
_NO_SANDBOX = Sentence(
    "This installation can't do this safely, so it is not done.",
    "Ta instalacja nie może zrobić tego bezpiecznie, więc tego nie robi.",
)


class ToolSandbox:
    """Runs the function `work` (`MODULE:NAME`) of a tool in confined processes. Use it on one event loop.

    When work of a requester exceeds a limit, what else of that requester waits is refused, so that each refusal takes
    no longer than the limits.

    Args:
        work: the function, as `runtime.sandbox.child.Work`.
        limits: of one piece of work.
        too_costly: told if work exceeds a limit.
        unreadable: told if work fails twice.
    """

    def __init__(self, work: str, limits: WorkLimits, *, too_costly: Sentence, unreadable: Sentence) -> None:
        self._server = ForkServer(work)
        self._limits = limits
        self._too_costly, self._unreadable = too_costly, unreadable
        self._slots = FairSlots(PROCESSES, per_tenant=OF_TENANT, per_requester=OF_REQUESTER)

    @property
    def process_id(self) -> int | None:
        """Id of the process whose children do the work; `None` if it does not run."""
        return self._server.pid

    async def run(self, order: bytes, context: ToolContext) -> list[bytes]:
        """Run the tool's work on the input `order` in a sandboxed process, and return the messages that it yields.

        Waits for a free process, fairly among tenants and requesters. Work whose process died is tried once more.

        Raises:
            TooLarge: the work exceeded a limit.
            Unavailable: it failed twice, was not started, or this machine has no sandbox.
        """
        try:
            async with self._slots.hold(context.tenant, context.requester):
                try:
                    return await self._run(order)
                except LimitExceeded as error:
                    self._slots.refuse_waiting(context.tenant, context.requester)
                    raise TooLarge(self._too_costly) from error
        except SlotRefused as error:
            raise Unavailable(_NOT_STARTED) from error
        except SandboxUnavailable as error:
            raise Unavailable(_NO_SANDBOX) from error
        except WorkFailed as error:
            raise Unavailable(self._unreadable) from error

    def close(self) -> None:
        """End the sandboxed processes of the tool."""
        self._server.close()

    async def _run(self, order: bytes) -> list[bytes]:
        """Run an order; once more if its process ended early, as one that the machine killed."""
        try:
            return await self._run_once(order)
        except WorkFailed:
            return await self._run_once(order)

    async def _run_once(self, order: bytes) -> list[bytes]:
        async with aclosing(self._server.run(self._limits, order)) as messages:
            return [message async for message in messages]
