"""Registry of models and workers in a gateway or assistant, from heartbeats; forgets a silent one after an hour.

Gateways have no configuration of models: a worker that starts makes its model appear within a second. A model stays
known for an hour after its last worker stopped, so that requests during a restart get a 503 and not a 404.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import reduce

import msgspec

from router.messages import OwnTool, PromptBounds, Task, UsagePart, WorkerState, WorkerStatus
from router.throughput import Throughput
from router.timings import DEFAULT_TIMINGS
from router.usage_arithmetic import most_parts

RECENTLY_ALIVE_PERIOD = 60.0
"""Seconds since the last heartbeat of a worker for which requests to its model wait for its return."""
KNOWN_PERIOD = 3600.0
"""Seconds since the last heartbeat after which a worker is forgotten."""
MAX_WORKERS = 4096
"""Maximum number of known workers: one sender of heartbeats in many names can't slow the gateway down."""


class Availability(Enum):
    """Whether the live workers of a model would take a job."""

    NONE = auto()
    """No live worker accepts jobs or will."""
    LOADING = auto()
    """All live workers still load the model."""
    FULL = auto()
    """No live worker that has loaded the model has a free slot."""
    FREE = auto()
    """A live worker would start a job at once."""


@dataclass(frozen=True)
class ModelInfo:
    """A model as its workers report it. Load and capacity are sums over the workers that are alive and ready."""

    name: str
    created: float
    """Unix time of the first heartbeat."""
    max_model_len: int
    """Smallest context length of its workers, in tokens: a job may go to any of them."""
    longest_model_len: int
    """Largest context length of its workers, in tokens: bounds the usage of a job."""
    max_token_bytes: int
    """Largest value of its workers, in bytes; 0 if a worker does not report it."""
    prompt_bounds: PromptBounds
    """Bounds that hold for all of its workers."""
    max_parts: tuple[UsagePart, ...]
    """Upper bounds on what the steps of one job use, by model: the largest of its workers' bounds."""
    task: Task
    """Kind of its answers; the same for all of its workers, unless the operator gave two models one name."""
    dimensions: int
    """Smallest vector length of its workers; 0 if it makes no vectors or a worker does not report it."""
    image_sizes: list[str]
    """Sizes of images that all of its workers draw, the default size first."""
    tools: tuple[OwnTool, ...]
    """Tools that all of its workers have on, if they are assistants."""
    unnamed_models: tuple[str, ...]
    """Models that its workers use, if they are assistants, although no operator named them; sorted."""
    answers_with: tuple[str, ...]
    """Models that write the answers of its workers, if they are assistants; one, unless the workers differ; sorted."""
    sees_with: tuple[str, ...]
    """The same for prompts with images."""
    reads_images: bool
    """Whether all of its workers read images in prompts."""
    searches: bool
    """Whether all of its workers run searches."""
    tokenises: bool
    """Whether all of its workers tokenise prompts on request."""
    scores_pairs: bool
    """Whether one of its workers scores pairs of texts alone."""
    labels: tuple[str, ...]
    """Labels that its workers score, in order of the scores, if they are text classifiers; empty if they differ."""
    workers: int
    """Number of workers that accept jobs now."""
    running: int
    waiting: int
    capacity: int
    """Sequences that can run at once."""
    effective_capacity: int
    """Effective capacity: the number of running sequences at workers where jobs wait, else their configured limit."""
    tokens_per_second: float | None
    """Throughput of the fleet under full load; `None` until it was measured."""
    alive: bool
    """Whether a heartbeat arrived within `Timings.worker_alive_timeout`."""
    recently_alive: bool
    """Whether a heartbeat arrived in the last 60 s."""
    availability: Availability
    """Availability of its workers for a job that no worker has begun."""
    availability_begun: Availability
    """Availability for a job of which a part was delivered: of the workers that can continue it."""


@dataclass(frozen=True)
class _SeenWorker:
    status: WorkerStatus
    at: float
    throughput: Throughput

    def changes_after(self, now: float, alive_timeout: float) -> float:
        """Return the monotonic time at which the worker, without a further heartbeat, next changes its liveness."""
        spans = (alive_timeout, RECENTLY_ALIVE_PERIOD, KNOWN_PERIOD)
        return next(end for span in spans if (end := self.at + span) >= now)


@dataclass(frozen=True)
class _Description:
    model: ModelInfo
    until: float
    """Time until which it is valid, unless a heartbeat arrives before."""


class ModelRegistry:
    """Models and workers seen in the last hour.

    Args:
        clock: Unix seconds; heartbeats are dated by their arrival.
        alive_timeout: seconds without a heartbeat after which a worker counts as dead.
    """

    def __init__(self, clock: Callable[[], float], alive_timeout: float = DEFAULT_TIMINGS.worker_alive_timeout) -> None:
        self._clock = clock
        self._alive_timeout = alive_timeout
        self._seen: dict[str, _SeenWorker] = {}
        self._created: dict[str, float] = {}
        self._described: dict[str, _Description] = {}
        """Cache by name: a model is looked up several times per request, heartbeats arrive once a second."""

    def observe(self, status: WorkerStatus) -> None:
        """Update the worker and its model from a heartbeat that has just arrived; a worker over the maximum is ignored.

        A worker that is still loading its model keeps a known model listed, but can't make an unknown model known,
        because its heartbeats lack the model's limits.
        """
        now = self._clock()
        self._forget(now)
        self._described.clear()
        before = self._seen.get(status.worker)
        if before is None and len(self._seen) >= MAX_WORKERS:
            return
        if status.state is WorkerState.STARTING:
            known = before or next((each for each in self._seen.values() if each.status.model == status.model), None)
            if known is None or known.status.model != status.model:
                return
            status = _loading(status, known.status)
        same_life = before is not None and before.status.started == status.started
        throughput = before.throughput if before is not None and same_life else Throughput()
        throughput.observe(status)
        self._seen[status.worker] = _SeenWorker(status, now, throughput)
        self._created.setdefault(status.model, now)

    def models(self) -> list[ModelInfo]:
        """Return all models of which a worker's heartbeat arrived in the last hour, sorted by name."""
        now = self._clock()
        self._forget(now)
        workers: dict[str, list[_SeenWorker]] = defaultdict(list)
        for worker in self._seen.values():
            workers[worker.status.model].append(worker)
        return [self._describe(name, workers[name], now) for name in sorted(self._created)]

    @property
    def is_empty(self) -> bool:
        """Whether no model is known, because no worker's heartbeat arrived in the last hour."""
        self._forget(self._clock())
        return not self._created

    def find(self, name: str) -> ModelInfo | None:
        """Return the model `name` with its workers' load; `None` if no worker reported it in the last hour."""
        now = self._clock()
        if (described := self._described.get(name)) is not None and now <= described.until:
            return described.model
        self._forget(now)
        if name not in self._created:
            return None
        seen = [worker for worker in self._seen.values() if worker.status.model == name]
        until = min(worker.changes_after(now, self._alive_timeout) for worker in seen)
        described = self._described[name] = _Description(self._describe(name, seen, now), until)
        return described.model

    def availability(self, name: str, *, begun: bool) -> Availability:
        """Return whether the live workers of model `name` would take a job now.

        `begun`: a part of its answer was delivered.
        """
        if (model := self.find(name)) is None:
            return Availability.NONE
        return model.availability_begun if begun else model.availability

    def is_alive(self, worker: str) -> bool:
        """Return whether a heartbeat of the worker with this id arrived within `Timings.worker_alive_timeout`."""
        seen = self._seen.get(worker)
        return seen is not None and self._clock() - seen.at <= self._alive_timeout

    def workers(self) -> list[WorkerStatus]:
        """Return the latest heartbeat of each live worker of any model, sorted by worker id."""
        alive = self._clock() - self._alive_timeout
        return [self._seen[worker].status for worker in sorted(self._seen) if self._seen[worker].at >= alive]

    def _describe(self, name: str, seen: Sequence[_SeenWorker], now: float) -> ModelInfo:
        last = max(worker.at for worker in seen)
        live = [worker for worker in seen if now - worker.at <= self._alive_timeout]
        alive = [worker.status for worker in live]
        serving = [worker for worker in live if worker.status.state is WorkerState.READY]
        ready = [worker.status for worker in serving]
        limits = alive or [worker.status for worker in seen]
        token_bytes = [status.max_token_bytes for status in limits]
        return ModelInfo(
            name=name,
            created=self._created[name],
            max_model_len=min(status.max_model_len for status in limits),
            longest_model_len=max(status.max_model_len for status in limits),
            prompt_bounds=_for_all([status.prompt_bounds for status in limits]),
            max_parts=reduce(most_parts, [status.parts for status in limits], ()),
            max_token_bytes=max(token_bytes) if all(token_bytes) else 0,
            task=limits[-1].task,
            dimensions=min(status.dimensions for status in limits),
            image_sizes=[size for size in limits[0].image_sizes if all(size in each.image_sizes for each in limits)],
            tools=tuple(_tools_of_all(limits)),
            unnamed_models=tuple(sorted({each for status in limits for each in status.unnamed_models})),
            answers_with=tuple(sorted({status.answers_with for status in limits if status.answers_with})),
            sees_with=tuple(sorted({status.sees_with for status in limits if status.sees_with})),
            reads_images=all(status.reads_images for status in limits),
            searches=all(status.searches for status in limits),
            tokenises=all(status.tokenises for status in limits),
            scores_pairs=any(status.scores_pairs for status in limits),
            labels=tuple(limits[0].labels) if all(each.labels == limits[0].labels for each in limits) else (),
            workers=len(ready),
            running=sum(status.running for status in ready),
            waiting=sum(status.waiting for status in ready),
            capacity=sum(status.max_num_seqs for status in ready),
            effective_capacity=sum(_effective_capacity(worker) for worker in serving),
            tokens_per_second=_fleet_rate(serving),
            alive=bool(alive),
            recently_alive=now - last <= RECENTLY_ALIVE_PERIOD,
            availability=_availability(live),
            availability_begun=_availability([worker for worker in live if worker.status.continues]),
        )

    def _forget(self, now: float) -> None:
        self._seen = {worker: seen for worker, seen in self._seen.items() if now - seen.at <= KNOWN_PERIOD}
        models = {worker.status.model for worker in self._seen.values()}
        self._created = {name: created for name, created in self._created.items() if name in models}


def _loading(status: WorkerStatus, known: WorkerStatus) -> WorkerStatus:
    """Return the status of a worker that loads its model, with the limits of a `known` worker of that model."""
    return msgspec.structs.replace(
        known,
        worker=status.worker,
        state=status.state,
        device=status.device,
        continues=status.continues,
        running=0,
        waiting=0,
        started=status.started,
    )


def _availability(live: Sequence[_SeenWorker]) -> Availability:
    ready = [worker for worker in live if worker.status.state is WorkerState.READY]
    jobs = sum(worker.status.running + worker.status.waiting for worker in ready)
    if jobs < sum(map(_effective_capacity, ready)):
        return Availability.FREE
    if ready:
        return Availability.FULL
    loading = any(worker.status.state is WorkerState.STARTING for worker in live)
    return Availability.LOADING if loading else Availability.NONE


def _tools_of_all(workers: Sequence[WorkerStatus]) -> Iterator[OwnTool]:
    """Yield the tools that all `workers` have, each with the largest of their bounds on what a call uses."""
    for tool in workers[0].tools:
        same = [each for worker in workers for each in worker.tools if each.name == tool.name]
        if len(same) == len(workers):
            parts: tuple[UsagePart, ...] = ()
            for each in same:
                parts = most_parts(parts, each.parts)
            yield msgspec.structs.replace(tool, parts=[*parts])


def _effective_capacity(worker: _SeenWorker) -> int:
    return worker.status.running if worker.throughput.is_full else worker.status.max_num_seqs


def _fleet_rate(workers: Sequence[_SeenWorker]) -> float | None:
    """Return the workers' total tokens per second; unmeasured workers are extrapolated by capacity."""
    measured = [each for each in workers if each.throughput.tokens_per_second is not None]
    capacity = sum(each.status.max_num_seqs for each in measured)
    if not capacity:
        return None
    rate = sum(each.throughput.tokens_per_second or 0.0 for each in measured)
    return rate * sum(each.status.max_num_seqs for each in workers) / capacity


def _for_all(bounds: Sequence[PromptBounds]) -> PromptBounds:
    """Return the loosest of several bounds; an empty one if a bound is unknown or they are not comparable."""
    if not all(each.per_byte for each in bounds) or len({each.normal_form for each in bounds}) > 1:
        return PromptBounds()
    return PromptBounds(
        per_byte=max(each.per_byte for each in bounds),
        normal_form=bounds[0].normal_form,
        per_text=max(each.per_text for each in bounds),
        per_conversation=max(each.per_conversation for each in bounds),
        per_message=max(each.per_message for each in bounds),
        tools=max(each.tools for each in bounds),
        per_image=max(each.per_image for each in bounds),
    )
