"""Sums up the load of the other gateways, from the report that each sends every second and that expires."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from types import MappingProxyType
from typing import NamedTuple

from gateway.admission.active_requesters import RequestersByTenant
from gateway.admission.waiting_work import OthersWork, Work
from router.messages import GatewayLoad, QueuedWork, ServiceClass
from router.timings import DEFAULT_TIMINGS


class OtherGatewaysLoad(NamedTuple):
    """Load of the other gateways on one model."""

    gateways: int = 0
    """Number of other gateways with waiting or running sequences."""
    sequences: int = 0
    """Number of their waiting and running sequences."""
    active: RequestersByTenant = MappingProxyType({})
    """Requesters whose requests they had within the last minute."""
    alive: int = 0
    """Number of other gateways with an unexpired report."""
    reported: float = math.inf
    """Monotonic time since which each of them has reported."""
    flex_sequences: int = 0
    """Number of those of their `sequences` that are of the class flex."""


class _Totals:
    """Sums of the unexpired reports."""

    def __init__(self, reports: Collection[tuple[float, GatewayLoad]]) -> None:
        self._alive = len(reports)
        self._reported = min((at for at, _ in reports), default=math.inf)
        self.running: Counter[tuple[str, ServiceClass]] = Counter()
        self.waiting: dict[tuple[str, ServiceClass], OthersWork] = {}
        self._sequences: Counter[str] = Counter()
        self._flex_sequences: Counter[str] = Counter()
        self._gateways: Counter[str] = Counter()
        self._active: dict[str, dict[str, set[str]]] = defaultdict(dict)
        for _, load in reports:
            self._gateways.update({work.model for work in load.queues if work.waiting or work.running})
            for work in load.queues:
                self._add(work)
            for each in load.active:
                self._active[each.model].setdefault(each.tenant, set()).add(each.requester)

    def _add(self, work: QueuedWork) -> None:
        self.running[work.model, work.service_class] += work.running
        self._sequences[work.model] += work.waiting + work.running
        if work.service_class is ServiceClass.FLEX:
            self._flex_sequences[work.model] += work.waiting + work.running
        waiting = self.waiting.setdefault((work.model, work.service_class), OthersWork())
        rest = Work(work.waiting, work.tokens)
        waiting.total.add(rest)
        for each in work.requesters:
            part = Work(each.waiting, each.tokens)
            rest.add(part, -1.0)
            waiting.tenants.setdefault(each.tenant, Work()).add(part)
            waiting.requesters.setdefault(each.tenant, {}).setdefault(each.requester, Work()).add(part)
        waiting.unattributed.add(Work(max(0.0, rest.sequences), max(0.0, rest.tokens)))

    def load(self, model: str) -> OtherGatewaysLoad:
        """Return the load of the gateways in these sums on one model."""
        active = self._active.get(model, {})
        return OtherGatewaysLoad(
            self._gateways[model],
            self._sequences[model],
            active,
            alive=self._alive,
            reported=self._reported,
            flex_sequences=self._flex_sequences[model],
        )


class OtherGateways:
    """Sums of the latest report of each other gateway; a report expires after `report_timeout` seconds."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        report_timeout: float = DEFAULT_TIMINGS.load_report_timeout,
    ) -> None:
        self._clock = clock
        self._report_timeout = report_timeout
        self._reports: dict[str, tuple[float, GatewayLoad]] = {}
        self._totals = _Totals([])

    def observe(self, load: GatewayLoad) -> None:
        """Store one gateway's load report in place of its earlier one."""
        self._reports[load.gateway] = (self._clock(), load)
        self._sum()

    def load(self, model: str) -> OtherGatewaysLoad:
        """Return the other gateways' load on a model: number of gateways, sequences and active requesters."""
        return self._current.load(model)

    def running(self, model: str, service_class: ServiceClass) -> int:
        """Return the number of a model's running sequences in a class at the other gateways, by unexpired reports."""
        return self._current.running[model, service_class]

    def waiting(self, model: str, service_class: ServiceClass) -> OthersWork:
        """Return the work that waits at the other gateways for a model in one service class."""
        return self._current.waiting.get((model, service_class)) or OthersWork()

    @property
    def _current(self) -> _Totals:
        now = self._clock()
        if any(now - at > self._report_timeout for at, _ in self._reports.values()):
            self._sum()
        return self._totals

    def _sum(self) -> None:
        now = self._clock()
        self._reports = {name: each for name, each in self._reports.items() if now - each[0] <= self._report_timeout}
        self._totals = _Totals(self._reports.values())
