"""Who goes next where tenants share: those who wait, in the order of what each tenant has had.

Virtual Token Counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, algorithm 2): a tenant's
counter grows by the tokens it is served, and the waiting tenant with the smallest counter goes next, its oldest thing
first. A tenant that begins to wait is lifted to the least of those who wait already (or to whoever went last, if nobody
does), so that being idle saves nothing up. Of two tenants that both wait all the time, the one has never been served
more than a bounded amount beyond the other, whatever they ask for; and no capacity is left unused for it.

Plain Python on numbers; does not know what waits, or what for.
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
"""What a token costs: one that is generated takes a step of its own (the paper's weights)."""
TURN_COST = 1.0
"""What going costs in any case, so that tenants take turns where nobody counts tokens."""
REMEMBERED_TENANTS = 1024

FLEX_FLOOR = 0.125
"""Part of the places that flex gets while others wait."""


class FairLine(Generic[T]):
    """One line. Things are told apart by identity."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        self._served: dict[str, float] = {}
        self._last = ""
        """The tenant that went last."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return (thing for things in self._waiting.values() for thing in things)

    def push(self, tenant: str, thing: T) -> None:
        """Let a thing wait, behind the others of its tenant."""
        if tenant not in self._waiting:
            floor = self._floor()
            self._forget_below(floor)
            self._served[tenant] = max(self._served.get(tenant, 0.0), floor)
            self._waiting[tenant] = deque()
        self._waiting[tenant].append(thing)
        self._length += 1

    def peek(self, may_go: MayGo[T] | None = None) -> T | None:
        """Who is next, of those tenants whose first thing may go."""
        tenant = self._next(may_go)
        return None if tenant is None else self._waiting[tenant][0]

    def pop(self) -> T:
        """Take who is next. Raises `IndexError` if nobody waits."""
        tenant = self._next()
        if tenant is None:
            raise IndexError("nobody waits")
        thing = self._waiting[tenant][0]
        self.take(tenant, thing)
        return thing

    def take(self, tenant: str, thing: T) -> None:
        """Let this one of those that wait go now."""
        self.discard(tenant, thing)
        self._last = tenant
        self.charge(tenant, TURN_COST)

    def discard(self, tenant: str, thing: T) -> bool:
        """Have a thing wait no longer; false: it did not."""
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
        """A tenant was served so much."""
        self._served[tenant] = self._served.get(tenant, 0.0) + cost

    def _next(self, may_go: MayGo[T] | None = None) -> str | None:
        tenants = [who for who, things in self._waiting.items() if may_go is None or may_go(things[0])]
        return min(tenants, key=self._served.__getitem__, default=None)

    def _floor(self) -> float:
        """Where a tenant begins that did not wait."""
        return min(map(self._served.__getitem__, self._waiting), default=self._served.get(self._last, 0.0))

    def _forget_below(self, floor: float) -> None:
        """Those who would be lifted anyway need not be remembered."""
        if len(self._served) > REMEMBERED_TENANTS:
            kept = {*self._waiting, self._last}
            self._served = {who: had for who, had in self._served.items() if had > floor or who in kept}


class FairLines(Generic[T]):
    """A fair line for each class: priority goes first, then default; flex has a floor, so that it is never starved."""

    def __init__(self) -> None:
        self._lines: dict[ServiceClass, FairLine[T]] = {each: FairLine() for each in ServiceClass}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[T]:
        return (thing for line in self._lines.values() for thing in line)

    def __getitem__(self, service_class: ServiceClass) -> FairLine[T]:
        return self._lines[service_class]

    def peek(self, *, places: int, flex: int, may_go: MayGo[T] | None = None) -> T | None:
        """Who is next of those that may go, when flex has so many of the places."""
        order = [ServiceClass.PRIORITY, ServiceClass.DEFAULT, ServiceClass.FLEX]
        if flex < max(1, int(places * FLEX_FLOOR)):
            order.insert(0, ServiceClass.FLEX)
        firsts = (self._lines[each].peek(may_go) for each in order)
        return next((first for first in firsts if first is not None), None)
