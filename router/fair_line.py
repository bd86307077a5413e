"""Fair queueing among tenants by the tokens that each was served.

Virtual Token Counter (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, algorithm 2): a tenant's
counter grows by the tokens it is served, and the queued tenant with the smallest counter goes next, its oldest item
first. The counter of a tenant that starts to queue is lifted to the smallest counter of the queued tenants (or of the
last served tenant, if none is queued), so that idle tenants save up no credit. The service of two tenants that are both
always queued differs by a bounded amount, whatever they request, and the scheduler stays work-conserving.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from router.messages import ServiceClass

T = TypeVar("T")
MayGo = Callable[[T], bool]

PROMPT_WEIGHT = 1.0
OUTPUT_WEIGHT = 2.0
"""Cost of a token; a generated one takes a step of its own (the paper's weights)."""
TURN_COST = 1.0
"""Fixed cost of an item, so that tenants alternate where no tokens are counted."""
REMEMBERED_TENANTS = 1024

FLEX_FLOOR = 0.125
"""Share of the slots that flex gets while other classes have queued jobs."""


class FairLine(Generic[T]):
    """Queue of items by tenant, in Virtual Token Counter order. Items are compared by identity."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        self._served: dict[str, float] = {}
        self._last = ""
        """Tenant of the item taken last."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return (thing for things in self._waiting.values() for thing in things)

    def push(self, tenant: str, thing: T) -> None:
        """Append an item to its tenant's queue."""
        if tenant not in self._waiting:
            floor = self._floor()
            self._forget_below(floor)
            self._served[tenant] = max(self._served.get(tenant, 0.0), floor)
            self._waiting[tenant] = deque()
        self._waiting[tenant].append(thing)
        self._length += 1

    def peek(self, may_go: MayGo[T] | None = None) -> T | None:
        """Return the next item of the tenants whose oldest item satisfies `may_go`, without removing it."""
        tenant = self._next(may_go)
        return None if tenant is None else self._waiting[tenant][0]

    def pop(self) -> T:
        """Remove and return the next item. Raises `IndexError` if the queue is empty."""
        tenant = self._next()
        if tenant is None:
            raise IndexError("the queue is empty")
        thing = self._waiting[tenant][0]
        self.take(tenant, thing)
        return thing

    def take(self, tenant: str, thing: T) -> None:
        """Remove a queued item to be served now, and charge its tenant `TURN_COST`."""
        self.discard(tenant, thing)
        self._last = tenant
        self.charge(tenant, TURN_COST)

    def discard(self, tenant: str, thing: T) -> bool:
        """Remove an item without serving it; returns whether it was queued."""
        things = self._waiting.get(tenant, ())
        place = next((index for index, each in enumerate(things) if each is thing), None)
        if place is None:
            return False
        del self._waiting[tenant][place]
        self._length -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]
        return True

    def charge(self, tenant: str, cost: float) -> None:
        """Add `cost` to a tenant's counter."""
        self._served[tenant] = self._served.get(tenant, 0.0) + cost

    def _next(self, may_go: MayGo[T] | None = None) -> str | None:
        tenants = [who for who, things in self._waiting.items() if may_go is None or may_go(things[0])]
        return min(tenants, key=self._served.__getitem__, default=None)

    def _floor(self) -> float:
        """Return the counter at which a tenant starts that was not queued."""
        return min(map(self._served.__getitem__, self._waiting), default=self._served.get(self._last, 0.0))

    def _forget_below(self, floor: float) -> None:
        """Drop counters of idle tenants that would be lifted to `floor` anyway."""
        if len(self._served) > REMEMBERED_TENANTS:
            kept = {*self._waiting, self._last}
            self._served = {who: had for who, had in self._served.items() if had > floor or who in kept}


class FairLines(Generic[T]):
    """One fair queue per service class: priority first, then default; flex has a floor, so that it never starves."""

    def __init__(self) -> None:
        self._lines: dict[ServiceClass, FairLine[T]] = {each: FairLine() for each in ServiceClass}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[T]:
        return (thing for line in self._lines.values() for thing in line)

    def __getitem__(self, service_class: ServiceClass) -> FairLine[T]:
        return self._lines[service_class]

    def peek(self, *, places: int, flex: int, may_go: MayGo[T] | None = None) -> T | None:
        """Return the next item that satisfies `may_go`, given that flex holds `flex` of `places` slots."""
        order = [ServiceClass.PRIORITY, ServiceClass.DEFAULT, ServiceClass.FLEX]
        if flex < max(1, int(places * FLEX_FLOOR)):
            order.insert(0, ServiceClass.FLEX)
        firsts = (self._lines[each].peek(may_go) for each in order)
        return next((first for first in firsts if first is not None), None)
