"""Runs of background responses: which process writes a response, until when, and the log of its output.

A response that is being written is a project document with a run. The process that holds the run's lease renews it;
once the lease has expired another process claims the run. The log is the groups of output that readers may see,
numbered without gaps: inserting a number that is taken fails, so a process that has lost the run can't add to the log
after its successor has added a group. Each method raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from router.messages import Receipt
from stored_objects.project_documents.records import ProjectDocument, ProjectOwner


@dataclass(frozen=True)
class ResponseRun:
    """The run of a background response that is not complete."""

    runner: str
    """Name of the process that writes the response."""
    lease: float
    """Unix time at which the run may be claimed by another process unless its runner renews the lease."""
    job: bytes
    """The first job of the response, as it was published."""
    key_id: str
    user: str
    """Ids of the API key and the user that the response is billed to."""
    takeovers: int = 0
    """Number of processes that have claimed the run from another one."""
    cancelled: bool = False
    """Whether a client has cancelled the response."""
    search: bytes = b""
    """File searches of the response as the gateway has them; empty: it is answered by one job."""


@dataclass(frozen=True)
class LogGroup:
    """A group of output of one response; `number` counts its groups from 0."""

    response: str
    owner: ProjectOwner
    number: int
    content: bytes
    created: float
    expires: float


class ResponseRuns(Protocol):
    """Interface of the store of runs."""

    async def begin(self, document: ProjectDocument, run: ResponseRun) -> bool:
        """Store a new response with its run, by one write; return false if another run of a response has its id."""
        ...

    async def append(self, groups: Sequence[LogGroup]) -> list[bool]:
        """Add groups (at least one) to the logs of their responses; return for each whether its number was free."""
        ...

    async def log(self, owner: ProjectOwner, response: str, start: int) -> list[bytes]:
        """Return the groups of a response of `owner` from number `start` on, in order."""
        ...

    async def renew(self, runner: str, responses: Collection[str], lease: float) -> dict[str, bool]:
        """Extend the leases that `runner` holds on `responses`; return for each still held whether it is cancelled.

        Leases that end less than three seconds before `lease` may stay as they are.
        """
        ...

    async def cancel(self, owner: ProjectOwner, response: str) -> bool:
        """Mark a response of `owner` that is being written as cancelled; return false if there is none."""
        ...

    async def is_running(self, owner: ProjectOwner, response: str) -> bool | None:
        """Return whether a response of `owner` is being written; `None` if it has no log: it never had a run."""
        ...

    async def abandoned(self, now: float, limit: int) -> list[str]:
        """Return the ids of up to `limit` responses whose run's lease ended before `now`."""
        ...

    async def claim(
        self, response: str, runner: str, lease: float, now: float
    ) -> tuple[ProjectDocument, ResponseRun] | None:
        """Give `runner` the run of a response whose lease ended before `now`; `None` if another process was faster."""
        ...

    async def release(self, response: str, runner: str) -> None:
        """End the lease that `runner` holds, so that another process claims the run at once."""
        ...

    async def finish(self, response: str, runner: str, content: bytes, size: int, receipts: Sequence[Receipt]) -> bool:
        """Store the ended response and its jobs' receipts, and end the run, in one write.

        `size`: the bytes that are counted for the response and its log. Return false, without a change, if `runner`
        does not hold the run.
        """
        ...
