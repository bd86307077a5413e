"""Fair queueing among tenants by the tokens that each was served.

Virtual Token Counter (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, algorithm 2): a tenant's
counter grows by the tokens it is served, and the queued tenant with the smallest counter goes next, its oldest item
first. The counter of a tenant that starts to queue is lifted to the smallest counter of the queued tenants (or of the
last served tenant, if none is queued), so that idle tenants save up no credit. The service of two tenants that are both
always queued differs by a bounded amount for any requests, and the scheduler stays work-conserving.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from router.messages import ServiceClass

T = TypeVar("T")
Predicate = Callable[[T], bool]

PROMPT_WEIGHT = 1.0
OUTPUT_WEIGHT = 2.0
"""Cost of a token; a generated one takes a step of its own (the paper's weights)."""
ITEM_COST = 1.0
"""Fixed cost of an item, so that tenants alternate where no tokens are counted."""
REMEMBERED_TENANTS = 1024

FLEX_FLOOR = 0.125
"""Share of the slots that flex gets while other classes have queued jobs."""


class TenantFairQueue(Generic[T]):
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
        return (item for items in self._waiting.values() for item in items)

    def push(self, tenant: str, item: T) -> None:
        """Append an item to its tenant's queue."""
        if tenant not in self._waiting:
            floor = self._floor()
            self._forget_below(floor)
            self._served[tenant] = max(self._served.get(tenant, 0.0), floor)
            self._waiting[tenant] = deque()
        self._waiting[tenant].append(item)
        self._length += 1

    def peek(self, is_eligible: Predicate[T] | None = None) -> T | None:
        """Return, not remove, the next of the tenants' oldest items that satisfy `is_eligible`; `None` without one."""
        tenant = self._next(is_eligible)
        return None if tenant is None else self._waiting[tenant][0]

    def pop(self) -> T:
        """Remove and return the next item, and charge its tenant `ITEM_COST`. Raises `IndexError` if there is none."""
        tenant = self._next()
        if tenant is None:
            raise IndexError("the queue is empty")
        item = self._waiting[tenant][0]
        self.take(tenant, item)
        return item

    def take(self, tenant: str, item: T) -> None:
        """Remove a queued item because it is served now, and charge its tenant `ITEM_COST`."""
        self.discard(tenant, item)
        self._last = tenant
        self.charge(tenant, ITEM_COST)

    def discard(self, tenant: str, item: T) -> bool:
        """Remove an item without serving it; returns whether it was queued."""
        items = self._waiting.get(tenant, ())
        index = next((number for number, each in enumerate(items) if each is item), None)
        if index is None:
            return False
        del self._waiting[tenant][index]
        self._length -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]
        return True

    def charge(self, tenant: str, cost: float) -> None:
        """Add `cost` (tokens) to a tenant's counter, so that its next items wait longer."""
        self._served[tenant] = self._served.get(tenant, 0.0) + cost

    def _next(self, is_eligible: Predicate[T] | None = None) -> str | None:
        tenants = [tenant for tenant, items in self._waiting.items() if is_eligible is None or is_eligible(items[0])]
        return min(tenants, key=self._served.__getitem__, default=None)

    def _floor(self) -> float:
        """Return the counter at which a tenant starts that was not queued."""
        return min(map(self._served.__getitem__, self._waiting), default=self._served.get(self._last, 0.0))

    def _forget_below(self, floor: float) -> None:
        """Drop counters of idle tenants that would be lifted to `floor` anyway."""
        if len(self._served) > REMEMBERED_TENANTS:
            kept = {*self._waiting, self._last}
            self._served = {
                tenant: served for tenant, served in self._served.items() if served > floor or tenant in kept
            }


class ServiceClassQueues(Generic[T]):
    """One fair queue per service class: priority first, then default; flex has a floor, so that it never starves."""

    def __init__(self) -> None:
        self._queues: dict[ServiceClass, TenantFairQueue[T]] = {each: TenantFairQueue() for each in ServiceClass}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[T]:
        return (item for queue in self._queues.values() for item in queue)

    def __getitem__(self, service_class: ServiceClass) -> TenantFairQueue[T]:
        return self._queues[service_class]

    def peek(self, *, slots: int, flex_slots: int, is_eligible: Predicate[T] | None = None) -> T | None:
        """Return, not remove, the next item that satisfies `is_eligible`; flex holds `flex_slots` of `slots` slots."""
        order = [ServiceClass.PRIORITY, ServiceClass.DEFAULT, ServiceClass.FLEX]
        if flex_slots < max(1, int(slots * FLEX_FLOOR)):
            order.insert(0, ServiceClass.FLEX)
        firsts = (self._queues[each].peek(is_eligible) for each in order)
        return next((first for first in firsts if first is not None), None)
