"""Records of batches, and the interface of their store: a batch is run by the one gateway that holds its lease.

A batch is a file of requests (lines) that are answered within its window. Everything that another gateway needs to go
on is in the record: how far the lines are done, and the parts of the output files. Times are Unix seconds. Each method
of the port raises `StoreUnavailable` when the store does not answer in time, and may be repeated then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from stored_objects.objects.records import ObjectOwner, ObjectPart

BATCH_PREFIX = "batch_"
MAX_INPUT_BYTES = 200 * 2**20
"""Most bytes of a batch's input file."""
WINDOW = 24 * 3600.0
"""Seconds of a batch's completion window."""
RETENTION = 30 * 24 * 3600.0
"""Seconds after its window for which a batch's record is kept."""

Endpoint = Literal[
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/score", "/v1/rerank"
]
"""Paths of the API to which the lines of a batch can be sent."""


class BatchState(StrEnum):
    """The state of a batch, in OpenAI's words."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Whether a gateway still has to work on a batch in this state."""
        return self in _OPEN


_OPEN = (BatchState.VALIDATING, BatchState.IN_PROGRESS, BatchState.FINALIZING, BatchState.CANCELLING)
OPEN_STATES: Collection[str] = [each.value for each in _OPEN]
"""Stored names of the states in which a gateway works on a batch."""


@dataclass(frozen=True)
class BatchError:
    """A reason for which a batch failed its validation; `line` is a number from 1 or `None`."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a batch: the lines whose results are stored, and the parts of the output files."""

    done_to: int = 0
    """All lines up to this number, from 1, are done."""
    done: list[int] = field(default_factory=list)
    """Numbers of the lines beyond `done_to` that are done."""
    completed: int = 0
    """Number of done lines that were answered with status 200."""
    failed: int = 0
    """Number of the other done lines."""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    output: list[ObjectPart] = field(default_factory=list)
    """Parts of the output file."""
    errors: list[ObjectPart] = field(default_factory=list)
    """Parts of the error file."""


@dataclass(frozen=True)
class Batch:
    """A batch of a project."""

    id: str
    organisation: str
    project: str
    key_id: str
    """Id of the API key that created the batch and as which its lines are requested; empty: `user` did, in the chat."""
    endpoint: str
    input_file: str
    """Id of the stored object with the lines."""
    created: float
    expires: float
    """Time after which lines that have not begun are not requested any more."""
    input_name: str = ""
    """Name of the input file."""
    user: str = ""
    """Id of the person who created the batch in the chat and as whom its lines are requested."""
    metadata: dict[str, str] | None = None
    output_lifetime: float | None = None
    """Seconds for which output files are kept; `None`: until they are deleted."""
    state: BatchState = BatchState.VALIDATING
    times: dict[str, float] = field(default_factory=dict)
    """Time at which the batch got into each state, by the state's name."""
    model: str | None = None
    """Model of the first line."""
    total: int = 0
    """Number of lines, once they are validated."""
    stopped: str = ""
    """Code of the reason for which the remaining lines were not requested; empty: there are none."""
    failures: list[BatchError] = field(default_factory=list)
    progress: BatchProgress = field(default_factory=BatchProgress)
    output_file: str = ""
    """Id of the output file's stored object; pending until the batch ends. Empty: there is none."""
    error_file: str = ""
    runner: str = ""
    """Id of the gateway that runs the batch."""
    lease: float = 0.0
    """Time until which only `runner` may change the batch, except for its cancellation."""

    @property
    def owner(self) -> ObjectOwner:
        """Owner of the batch and of its files: its project."""
        return ObjectOwner.of_project(self.organisation, self.project)


class BatchStore(Protocol):
    """Interface of the store of batches. Lookups name organisation and project, except for those of runners."""

    async def insert(self, batch: Batch) -> bool:
        """Insert a new batch; return false, without a change, if its id is taken."""
        ...

    async def find(self, organisation: str, project: str, id: str) -> Batch | None:
        """Return one batch of a project; `None` if there is none with this id."""
        ...

    async def page(self, organisation: str, project: str, after: Batch | None, limit: int) -> list[Batch]:
        """Return the batches of a project, newest first, at most `limit` after the batch `after`."""
        ...

    async def cancel(self, organisation: str, project: str, id: str, now: float) -> bool:
        """Set the state of a batch that is being validated or in progress to cancelling; return false for any other."""
        ...

    async def claim(self, runner: str, now: float, lease: float, passed_over: Collection[str] = ()) -> Batch | None:
        """Give one open batch without a live lease to `runner` until the time `lease`, the oldest first.

        Return it; `None` if there is none, apart from those of the organisations `passed_over`.
        """
        ...

    async def renew(self, id: str, runner: str, lease: float) -> Batch | None:
        """Extend the lease of `runner` to the time `lease` and return the batch; `None` if it has lost the lease."""
        ...

    async def change(self, id: str, runner: str, state: BatchState, changes: Mapping[str, Any]) -> bool:
        """Set fields of a batch that is in `state` and whose lease `runner` holds; return false for any other."""
        ...

    async def save(self, id: str, runner: str, progress: BatchProgress) -> bool:
        """Store the progress of an open batch; return false if `runner` has lost its lease."""
        ...
