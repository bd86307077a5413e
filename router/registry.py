"""Which models exist and who serves them, learnt from the workers' heartbeats alone.

There is no configuration of models in a gateway: a worker that starts makes its model appear within a second, and a
model stays known for an hour after its last worker went, so that a restart is a 503 and not a 404. It does not know
queues, nor how heartbeats come in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from router.messages import PromptBounds, Task, WorkerState, WorkerStatus
from router.throughput import Throughput

ALIVE_SECONDS = 3.0
"""Three heartbeats."""
RECENTLY_ALIVE_SECONDS = 60.0
KNOWN_SECONDS = 3600.0
_SPANS = (ALIVE_SECONDS, RECENTLY_ALIVE_SECONDS, KNOWN_SECONDS)


@dataclass(frozen=True)
class ModelInfo:
    """A model as its workers describe it. Loads and capacity are sums over the workers that are alive and ready."""

    name: str
    created: float
    """When it was first seen, in Unix seconds."""
    max_model_len: int
    """The smallest of its workers', in tokens: a job may go to any of them."""
    longest_model_len: int
    """The largest of its workers': what a job may use is bounded by this."""
    max_token_bytes: int
    """The largest of its workers', in bytes; 0 if one does not tell."""
    prompt_bounds: PromptBounds
    """What holds for all of its workers."""
    task: Task
    """What it is asked for: the same for all of its workers, unless the operator gave two models one name."""
    dimensions: int
    """Length of the vectors it makes, the smallest of its workers'; 0 if it makes none, or one does not tell."""
    workers: int
    """How many take jobs now."""
    running: int
    waiting: int
    capacity: int
    """Sequences that run at once."""
    places: int
    """The same as it is now: where jobs wait for a worker, no more run than those that do."""
    tokens_per_second: float | None
    """Of all of them while jobs wait; `None`: that was not measured yet."""
    alive: bool
    """A heartbeat came within 3 s."""
    recently_alive: bool
    """A heartbeat came within 60 s."""


@dataclass(frozen=True)
class _Sighting:
    status: WorkerStatus
    at: float
    throughput: Throughput

    def changes_after(self, now: float) -> float:
        """When time alone will next change what it means."""
        return next(end for span in _SPANS if (end := self.at + span) >= now)


@dataclass(frozen=True)
class _Description:
    model: ModelInfo
    until: float
    """It is true up to then, unless a heartbeat comes before."""


class ModelRegistry:
    """The workers seen within the last hour. `clock` gives Unix seconds; heartbeats are dated by their arrival."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}
        self._created: dict[str, float] = {}
        self._described: dict[str, _Description] = {}
        """By name: a model is asked for several times a request, and its workers are heard of once a second."""

    def observe(self, status: WorkerStatus) -> None:
        """Take in a heartbeat."""
        now = self._clock()
        self._forget(now)
        self._described.clear()
        before = self._seen.get(status.worker)
        same_life = before is not None and before.status.started == status.started
        throughput = before.throughput if before is not None and same_life else Throughput()
        throughput.observe(status)
        self._seen[status.worker] = _Sighting(status, now, throughput)
        self._created.setdefault(status.model, now)

    def models(self) -> list[ModelInfo]:
        """The models seen within the hour, by name."""
        now = self._clock()
        self._forget(now)
        return [self._describe(name, now) for name in sorted(self._created)]

    def find(self, name: str) -> ModelInfo | None:
        """A model seen within the hour."""
        now = self._clock()
        if (described := self._described.get(name)) is not None and now <= described.until:
            return described.model
        self._forget(now)
        if name not in self._created:
            return None
        until = min(sighting.changes_after(now) for sighting in self._seen.values() if sighting.status.model == name)
        described = self._described[name] = _Description(self._describe(name, now), until)
        return described.model

    def has_room(self, name: str) -> bool:
        """Whether a job of a model would be begun at once: living workers have more places than jobs."""
        model = self.find(name)
        return model is not None and model.running + model.waiting < model.places

    def workers(self) -> list[WorkerStatus]:
        """The last word of each worker that is alive, by name."""
        alive = self._clock() - ALIVE_SECONDS
        return [self._seen[worker].status for worker in sorted(self._seen) if self._seen[worker].at >= alive]

    def _describe(self, name: str, now: float) -> ModelInfo:
        seen = [sighting for sighting in self._seen.values() if sighting.status.model == name]
        last = max(sighting.at for sighting in seen)
        alive = [sighting.status for sighting in seen if now - sighting.at <= ALIVE_SECONDS]
        at_work = [sighting for sighting in seen if now - sighting.at <= ALIVE_SECONDS and _is_ready(sighting.status)]
        ready = [sighting.status for sighting in at_work]
        limits = alive or [sighting.status for sighting in seen]
        token_bytes = [status.max_token_bytes for status in limits]
        return ModelInfo(
            name=name,
            created=self._created[name],
            max_model_len=min(status.max_model_len for status in limits),
            longest_model_len=max(status.max_model_len for status in limits),
            prompt_bounds=_for_all([status.prompt_bounds for status in limits]),
            max_token_bytes=max(token_bytes) if all(token_bytes) else 0,
            task=limits[-1].task,
            dimensions=min(status.dimensions for status in limits),
            workers=len(ready),
            running=sum(status.running for status in ready),
            waiting=sum(status.waiting for status in ready),
            capacity=sum(status.max_num_seqs for status in ready),
            places=sum(_places(sighting) for sighting in at_work),
            tokens_per_second=_fleet_rate(at_work),
            alive=bool(alive),
            recently_alive=now - last <= RECENTLY_ALIVE_SECONDS,
        )

    def _forget(self, now: float) -> None:
        self._seen = {worker: seen for worker, seen in self._seen.items() if now - seen.at <= KNOWN_SECONDS}
        models = {sighting.status.model for sighting in self._seen.values()}
        self._created = {name: created for name, created in self._created.items() if name in models}


def _is_ready(status: WorkerStatus) -> bool:
    return status.state is WorkerState.READY


def _places(sighting: _Sighting) -> int:
    return sighting.status.running if sighting.throughput.is_full else sighting.status.max_num_seqs


def _fleet_rate(workers: Sequence[_Sighting]) -> float | None:
    """What all make together; those not measured yet count as the others, by their capacity."""
    measured = [each for each in workers if each.throughput.tokens_per_second is not None]
    capacity = sum(each.status.max_num_seqs for each in measured)
    if not capacity:
        return None
    rate = sum(each.throughput.tokens_per_second or 0.0 for each in measured)
    return rate * sum(each.status.max_num_seqs for each in workers) / capacity


def _for_all(told: Sequence[PromptBounds]) -> PromptBounds:
    """The loosest of several bounds in each respect; nothing where one is not known, or they can't be compared."""
    if not all(each.per_byte for each in told) or len({each.normal_form for each in told}) > 1:
        return PromptBounds()
    return PromptBounds(
        per_byte=max(each.per_byte for each in told),
        normal_form=told[0].normal_form,
        per_text=max(each.per_text for each in told),
        per_conversation=max(each.per_conversation for each in told),
        per_message=max(each.per_message for each in told),
        tools=max(each.tools for each in told),
    )
