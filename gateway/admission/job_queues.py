"""The line of jobs in front of the workers: how long it is, where in it a request stands, how long that will take.

Of this gateway's jobs all is known: each waits from the moment that it is admitted until its first token. Of another
gateway's as many as it last said, once a second (`GatewayLoad`); where in the line these stand nobody says, so they are
taken to be spread evenly over it. Tenants take turns (`fair_queue.py`): of another tenant's jobs no more go before one
than its own tenant has before it. How fast the line moves is measured (`router/throughput.py`); how long an answer
will be is taken from the last ones, and from the limit that a request sets. Plain arithmetic: sends nothing, waits for
nothing, knows no HTTP.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.admission.fair_queue import Elsewhere
from router.fair_line import FLEX_FLOOR
from router.messages import EmbeddingPrompt, GatewayLoad, Job, QueuedWork, ServiceClass
from router.registry import ALIVE_SECONDS, ModelInfo

FIRST_GUESS = 256.0
"""Tokens of an answer while none of the model has ended."""
NEWEST_SHARE = 0.05
"""Weight of the last answer in the mean length."""
BYTES_A_TOKEN = 4

_ORDER = (ServiceClass.PRIORITY, ServiceClass.DEFAULT, ServiceClass.FLEX)

Key = tuple[str, ServiceClass]


@dataclass(frozen=True)
class Outlook:
    """What a request in line can be told."""

    position: int
    """1 is next; 0: there is room."""
    seconds: float | None
    """Until a place is free; `None`: nobody has measured yet how fast the line moves. Infinite: it does not."""


@dataclass
class _Amount:
    """Sequences, and the tokens that they will have."""

    sequences: float = 0.0
    tokens: float = 0.0

    def add(self, sequences: float, tokens: float, share: float = 1.0) -> None:
        self.sequences += share * sequences
        self.tokens += share * tokens


@dataclass
class _Line:
    """Jobs that wait."""

    numbers: list[int] = field(default_factory=list)
    """In the order in which they came."""
    waiting: _Amount = field(default_factory=_Amount)

    def add(self, place: _Place) -> None:
        self.numbers.append(place.number)
        self.waiting.add(place.job.n, place.tokens)

    def remove(self, place: _Place) -> None:
        del self.numbers[bisect_left(self.numbers, place.number)]
        self.waiting.add(-place.job.n, -place.tokens)

    def share_before(self, number: int, behind: float) -> float:
        """Part of the waiting ones that is before `number`; `behind` of a job is added."""
        return min(1.0, (bisect_left(self.numbers, number) + behind) / len(self.numbers)) if self.numbers else 0.0


@dataclass
class _Queue(_Line):
    """This gateway's part of one queue."""

    tenants: dict[str, _Line] = field(default_factory=dict)
    running: int = 0
    last: int = 0

    def enter(self, place: _Place) -> None:
        self.add(place)
        self.tenants.setdefault(place.job.tenant, _Line()).add(place)

    def leave(self, place: _Place) -> None:
        self.remove(place)
        line = self.tenants[place.job.tenant]
        line.remove(place)
        if not line.numbers:
            del self.tenants[place.job.tenant]

    def before(self, tenant: str, number: int | None, each: float) -> _Amount:
        """What goes before job `number` of a tenant, or one that comes now; it has `each` tokens or so."""
        own, ahead = self.tenants.get(tenant, _Line()), _Amount()
        share = 1.0 if number is None else own.share_before(number, 0.0)
        ahead.add(own.waiting.sequences, own.waiting.tokens, share)
        turn = ahead.tokens + each
        for who, line in self.tenants.items():
            if who != tenant:
                share = min(1.0, turn / line.waiting.tokens) if line.waiting.tokens > 0 else 1.0
                ahead.add(line.waiting.sequences, line.waiting.tokens, share)
        return ahead


@dataclass
class _Place:
    job: Job
    number: int
    tokens: float
    begun: bool = False


class InLine:
    """The jobs of one request, from their admission to their end."""

    def __init__(self, queue: _Queue, places: Sequence[_Place]) -> None:
        self._queue = queue
        self._places: dict[str, _Place] = {place.job.id: place for place in places}
        for place in places:
            queue.enter(place)

    @property
    def tenant(self) -> str:
        """Whose they are; "" when nothing of them waits."""
        return "" if (place := self._first) is None else place.job.tenant

    @property
    def number(self) -> int | None:
        """Of the first job without a token."""
        return None if (place := self._first) is None else place.number

    @property
    def tokens_each(self) -> float | None:
        """That a sequence of that job will probably have."""
        return None if (place := self._first) is None else place.tokens / place.job.n

    @property
    def _first(self) -> _Place | None:
        return next((place for place in self._places.values() if not place.begun), None)

    def begun(self, job: str) -> None:
        """A job has its first token. Idempotent."""
        place = self._places.get(job)
        if place is not None and not place.begun:
            place.begun = True
            self._queue.running += place.job.n
            self._queue.leave(place)

    def leave(self) -> None:
        """The request has ended. Idempotent."""
        for place in self._places.values():
            if place.begun:
                self._queue.running -= place.job.n
            else:
                self._queue.leave(place)
        self._places = {}


class JobQueues:
    """What one gateway knows of the queues. `clock` gives seconds by which other gateways' words grow old."""

    def __init__(self, gateway_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway_id = gateway_id
        self._clock = clock
        self._own: dict[Key, _Queue] = {}
        self._others: dict[str, tuple[float, GatewayLoad]] = {}
        self._answer_tokens: dict[str, float] = {}

    def enter(self, jobs: Sequence[Job]) -> InLine:
        """A request's jobs, all of one model and class, are in line from now on."""
        queue = self._own.setdefault((jobs[0].model, jobs[0].service_class), _Queue())
        places = []
        for job in jobs:
            queue.last += 1
            places.append(_Place(job, queue.last, self._expected_tokens(job)))
        return InLine(queue, places)

    def answered(self, model: str, tokens: float) -> None:
        """A sequence has ended, with so many tokens."""
        mean = self._answer_tokens.get(model, tokens)
        self._answer_tokens[model] = mean + NEWEST_SHARE * (tokens - mean)

    def observe(self, load: GatewayLoad) -> None:
        """Take in what another gateway says of itself."""
        if load.gateway != self._gateway_id:
            now = self._clock()
            self._others[load.gateway] = (now, load)
            self._others = {name: told for name, told in self._others.items() if now - told[0] <= ALIVE_SECONDS}

    def report(self) -> GatewayLoad:
        """What this one says of itself."""
        queues = [
            QueuedWork(
                model=model,
                service_class=service_class,
                waiting=max(0, round(queue.waiting.sequences)),
                tokens=max(0, round(queue.waiting.tokens)),
                running=queue.running,
            )
            for (model, service_class), queue in self._own.items()
            if queue.numbers or queue.running
        ]
        return GatewayLoad(gateway=self._gateway_id, queues=queues)

    def waiting(self, model: str) -> int:
        """Sequences that wait for a model, in all classes, at all gateways."""
        return round(sum(self._waiting((model, service_class)).sequences for service_class in _ORDER))

    def elsewhere(self, model: str) -> Elsewhere:
        """What other gateways have of a model."""
        of_model = [
            sum(work.waiting + work.running for work in load.queues if work.model == model) for load in self._loads()
        ]
        return Elsewhere(sum(sequences > 0 for sequences in of_model), sum(of_model))

    def outlook(
        self, model: ModelInfo, service_class: ServiceClass, line: InLine | None = None, *, tenant: str = ""
    ) -> Outlook:
        """How `line` stands, or a request of `tenant` that would come now."""
        usual = self._answer_tokens.get(model.name, FIRST_GUESS)
        own = None if line is None else line.tokens_each
        tenant, number = (tenant, None) if line is None else (line.tenant, line.number)
        ahead = self._ahead(model.name, service_class, tenant, number, usual if own is None else own)
        free = max(0, model.places - self._running(model.name))
        beyond = ahead.sequences + 1 - free
        if beyond <= 0:
            return Outlook(0, 0.0)
        each = usual if own is None else own
        if ahead.sequences:
            each = ahead.tokens / ahead.sequences
        return Outlook(math.ceil(beyond), self._seconds(model, service_class, beyond, each))

    def _seconds(self, model: ModelInfo, service_class: ServiceClass, sequences: float, each: float) -> float | None:
        rate = model.tokens_per_second
        if rate is None or not model.workers:
            return None
        if rate <= 0:
            return math.inf
        seconds = sequences * each / rate
        if service_class is ServiceClass.FLEX:
            return seconds
        flex = self._waiting((model.name, ServiceClass.FLEX)).sequences > 0
        return seconds / (1 - FLEX_FLOOR) if flex else seconds

    def _ahead(
        self, model: str, service_class: ServiceClass, tenant: str, number: int | None, tokens: float
    ) -> _Amount:
        """What is begun before job `number` of a class, or before one that comes now; it has so many `tokens`."""
        ahead = _Amount()
        for each in _ORDER[: _ORDER.index(service_class)]:
            waiting = self._waiting((model, each))
            ahead.add(waiting.sequences, waiting.tokens)
        key = (model, service_class)
        own, others = self._own.get(key, _Queue()), self._waiting_elsewhere(key)
        before = own.before(tenant, number, tokens)
        ahead.add(before.sequences, before.tokens)
        ahead.add(others.sequences, others.tokens, 1.0 if number is None else own.share_before(number, 0.5))
        return ahead

    def _waiting(self, key: Key) -> _Amount:
        waiting = self._waiting_elsewhere(key)
        own = self._own.get(key, _Queue()).waiting
        waiting.add(own.sequences, own.tokens)
        return waiting

    def _waiting_elsewhere(self, key: Key) -> _Amount:
        waiting = _Amount()
        for work in self._told():
            if (work.model, work.service_class) == key:
                waiting.add(work.waiting, work.tokens)
        return waiting

    def _running(self, model: str) -> int:
        own = sum(queue.running for (name, _), queue in self._own.items() if name == model)
        return own + sum(work.running for work in self._told() if work.model == model)

    def _told(self) -> list[QueuedWork]:
        return [work for load in self._loads() for work in load.queues]

    def _loads(self) -> list[GatewayLoad]:
        now = self._clock()
        return [load for at, load in self._others.values() if now - at <= ALIVE_SECONDS]

    def _expected_tokens(self, job: Job) -> float:
        if isinstance(job.prompt, EmbeddingPrompt):
            return sum(len(each) / (BYTES_A_TOKEN if isinstance(each, str) else 1) for each in job.prompt.inputs)
        limit = job.sampling.max_tokens if job.sampling.max_tokens is not None else job.sampling.default_max_tokens
        mean = self._answer_tokens.get(job.model, FIRST_GUESS)
        return job.n * (mean if limit is None else min(mean, limit))
