"""Types of the events that a job's recovery (`recovery.py`) receives, the commands that it returns, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from router.messages import Control, Reply, ResumeRequest
from router.model_registry import Availability
from router.producer.errors import GenerationError


class JobState(Enum):
    """Where a job's recovery stands, as a state; `recovery.py` has the table of transitions."""

    QUEUED = auto()
    RUNNING = auto()
    CONTESTED = auto()
    STANDBY = auto()
    WAITING = auto()
    ORPHANED = auto()
    ENDED = auto()


class Candidate(NamedTuple):
    """A worker's request to resume a job; granted at `timeout` (monotonic), infinite if the old attempt is alive."""

    worker_id: str
    request: ResumeRequest
    timeout: float = float("inf")


class Gap(NamedTuple):
    """Missing replies: the positions known when they were last requested, how often, and when to request them again."""

    positions: list[int]
    tries: int
    retry_at: float


@dataclass
class BrokerHealth:
    """The process's broker connection as recovery sees it; the driver keeps it current. Times are monotonic seconds."""

    up: bool = True
    lost_at: float = float("-inf")
    """When a connection was last lost."""
    unusable_at: float = float("-inf")
    """When the connection was last seen down or blocked."""

    @property
    def disturbed_at(self) -> float:
        """Monotonic time at which the connection was last lost, down or blocked; replies sent before may be missing."""
        return max(self.lost_at, self.unusable_at)


class ReplyReceived(NamedTuple):
    """A worker, or the reaper, sent a reply about the job."""

    worker_id: str
    reply: Reply


class JobQueued(NamedTuple):
    """The broker confirmed the job's first message."""


class JobRepublished(NamedTuple):
    """The republishing of a copy ended; `confirmed` by the broker or failed."""

    copy_number: int
    confirmed: bool


class WorkerUnreachable(NamedTuple):
    """The broker returned a control message: no queue is bound for `target`, so that worker is not connected."""

    target: str


class TimerFired(NamedTuple):
    """The monotonic time of the job's latest `WakeAt` command has come."""


class WatchTick(NamedTuple):
    """The periodic check of all running jobs, while the broker is up."""

    availability: Availability
    """Whether live workers of the model would take the job."""


class RequestClosed(NamedTuple):
    """The request ended or failed; no reply is delivered any more."""

    cancel: bool
    """Whether to cancel the job at its worker."""


Event = ReplyReceived | JobQueued | JobRepublished | WorkerUnreachable | TimerFired | WatchTick | RequestClosed


class Deliver(NamedTuple):
    """Append an accepted reply to its request's unread replies, which the client gets."""

    reply: Reply


class Drop(NamedTuple):
    """Count a reply as dropped. `known`: its job is open; `tokens`: generated tokens in it if the job is not open."""

    known: bool = True
    tokens: int = 0


class StopAttempt(NamedTuple):
    """Have the worker stop an attempt whose replies are not accepted; at most once in `Timings.stop_interval`.

    An attempt that another one has `superseded` stops silently. Otherwise its job is not open any more, and the worker
    cancels the job, usage record included.
    """

    worker_id: str
    job_id: str
    attempt_id: str
    superseded: bool = True


class SendControl(NamedTuple):
    """Send a control message to `target`; if it is `mandatory` and unroutable, `WorkerUnreachable` is reported."""

    target: str
    control: Control
    mandatory: bool = False


class Republish(NamedTuple):
    """Publish copy `copy_number` of the job's message; then report `JobRepublished` to its recovery."""

    copy_number: int


class WakeAt(NamedTuple):
    """Report `TimerFired` to the job's recovery at this monotonic time; replaces the job's earlier timer."""

    time: float


class AttemptResumed(NamedTuple):
    """Log and count that attempt `attempt_id` continues the job in place of the previous worker's attempt."""

    worker_id: str
    attempt_id: str
    previous_worker_id: str | None
    tokens: int
    """Tokens already delivered."""
    crashes: int


class FailRequest(NamedTuple):
    """Fail the whole request with this error."""

    error: GenerationError


Command = Deliver | Drop | StopAttempt | SendControl | Republish | WakeAt | AttemptResumed | FailRequest
