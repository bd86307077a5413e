"""Jobs that are admitted and not at the broker yet: who may go next, when the workers have all that they can run.

The broker's queues know no tenants, so they are kept all but empty: no more jobs go there than run at once, with the
few that workers take ahead. The rest waits here, in the order of what each tenant has had (`router/fair_line.py`),
classes as the workers order them. While several tenants are about, none of them may have all places: an eighth is left
for whoever comes, who would wait for somebody's answer to end otherwise. Of other gateways only sums are known: each
may use what they leave, and its equal part in any case. Sends nothing; how long somebody will wait is `job_queues.py`'s
business.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from router.fair_line import OUTPUT_WEIGHT, PROMPT_WEIGHT, FairLines
from router.messages import Delta, Embedded, Job, Reply, ServiceClass, Started
from router.registry import ModelInfo, ModelRegistry

LOOK_AHEAD = 0.05
"""Part of a fleet's places that its workers take jobs for beyond them."""
RESERVE = 1 / 8
"""Part of the places that one tenant does not get while others are about."""
ABOUT_SECONDS = 60.0
"""For so long after its last request a tenant counts as being about."""
LOOK_SECONDS = 0.5
"""Between two looks at whether there is more room than there was, while jobs wait."""


class Elsewhere(NamedTuple):
    """What other gateways have of a model."""

    gateways: int
    """That have something."""
    sequences: int


class Turn:
    """One job's way to the broker, from its admission to its end."""

    def __init__(self, queue: _Queue, job: Job) -> None:
        self._queue = queue
        self.job = job
        self.left = False
        self._came = asyncio.Event()

    @property
    def came(self) -> bool:
        """Whether the job may be published."""
        return self._came.is_set()

    async def wait(self) -> None:
        """Until it has come."""
        await self._came.wait()

    def come(self) -> None:
        """It is this job's turn."""
        self._came.set()

    def served(self, reply: Reply) -> None:
        """Count what was read and generated for it."""
        match reply:
            case Started():
                self._queue.charge(self.job, PROMPT_WEIGHT * reply.prompt_tokens)
            case Delta():
                self._queue.charge(self.job, OUTPUT_WEIGHT * reply.positions)
            case Embedded():
                self._queue.charge(self.job, PROMPT_WEIGHT * reply.tokens)

    def leave(self) -> None:
        """It has ended, or nobody wants it. Idempotent."""
        if not self.left:
            self.left = True
            self._queue.leave(self)


class FairQueue:
    """One gateway's jobs on their way, by model. Use on the event loop only."""

    def __init__(
        self, models: ModelRegistry, elsewhere: Callable[[str], Elsewhere] = lambda _model: Elsewhere(0, 0)
    ) -> None:
        self._models = models
        self._elsewhere = elsewhere
        self._queues: dict[str, _Queue] = {}

    @property
    def held(self) -> int:
        """Jobs whose turn has not come."""
        return sum(len(queue.lines) for queue in self._queues.values())

    def enter(self, job: Job) -> Turn:
        """Let a job wait for its turn, which may come at once. Have it leave in the end."""
        queue = self._queues.get(job.model)
        if queue is None:
            queue = self._queues[job.model] = _Queue(lambda: self._room(job.model))
        return queue.enter(job)

    def _room(self, model: str) -> _Room | None:
        info = self._models.find(model)
        return None if info is None or not info.workers else _room(info, self._elsewhere(model))


class _Room(NamedTuple):
    """Sequences that this gateway may have at the workers."""

    places: int
    with_look_ahead: int


def _room(model: ModelInfo, elsewhere: Elsewhere) -> _Room:
    part = math.ceil(model.capacity / (elsewhere.gateways + 1))
    places = max(part, model.capacity - elsewhere.sequences)
    return _Room(places, places + max(model.workers, math.ceil(places * LOOK_AHEAD)))


class _Queue:
    """The jobs of one model."""

    def __init__(self, room: Callable[[], _Room | None]) -> None:
        """`room` is asked each time; `None`: as many as come."""
        self._room = room
        self.lines: FairLines[Turn] = FairLines()
        self._at_workers: Counter[str] = Counter()
        self._flex = 0
        self._seen: dict[str, float] = {}
        self._look: asyncio.TimerHandle | None = None

    def enter(self, job: Job) -> Turn:
        turn = Turn(self, job)
        self._note(job.tenant)
        self.lines[job.service_class].push(job.tenant, turn)
        self._serve()
        return turn

    def charge(self, job: Job, cost: float) -> None:
        self.lines[job.service_class].charge(job.tenant, cost)

    def leave(self, turn: Turn) -> None:
        job = turn.job
        if turn.came:
            self._count(job, -job.n)
        else:
            self.lines[job.service_class].discard(job.tenant, turn)
        self._serve()

    def _serve(self) -> None:
        """Let all go for whom there is room."""
        room = self._room()
        while len(self.lines) and (turn := self._next(room)) is not None:
            self.lines[turn.job.service_class].take(turn.job.tenant, turn)
            self._count(turn.job, turn.job.n)
            turn.come()
        if len(self.lines) and self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self._serve()

    def _next(self, room: _Room | None) -> Turn | None:
        if room is None:
            return self.lines.peek(places=1, flex=0)
        if self._at_workers.total() >= room.with_look_ahead:
            return None
        most = self._most_of_one(room)

        def may_go(turn: Turn) -> bool:
            has = self._at_workers[turn.job.tenant]
            return not has or has + turn.job.n <= most

        turn = self.lines.peek(places=room.places, flex=self._flex, may_go=may_go)
        if turn is None or not self._at_workers or self._at_workers.total() + turn.job.n <= room.with_look_ahead:
            return turn
        return None  # its choices do not fit yet, and nobody passes it

    def _most_of_one(self, room: _Room) -> int:
        """Sequences that a tenant may have at the workers."""
        if len(self._seen) <= 1:
            return room.with_look_ahead
        return max(1, room.places - max(1, int(room.places * RESERVE)))

    def _count(self, job: Job, sequences: int) -> None:
        self._at_workers[job.tenant] += sequences
        if self._at_workers[job.tenant] <= 0:
            del self._at_workers[job.tenant]
        if job.service_class is ServiceClass.FLEX:
            self._flex += sequences

    def _note(self, tenant: str) -> None:
        now = time.monotonic()
        self._seen[tenant] = now
        if now - min(self._seen.values()) > ABOUT_SECONDS:
            self._seen = {who: at for who, at in self._seen.items() if now - at <= ABOUT_SECONDS}
