"""Fair queue of jobs: orders tenants, and the requesters of a tenant, by the tokens that each was served.

Virtual Token Counter (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, algorithm 2): a tenant's
counter grows by the tokens it is served, and the queued tenant with the smallest counter goes next. The counter of a
tenant that starts to queue is lifted to the smallest counter of the queued tenants (or of the last served tenant, if
none is queued), so that idle tenants save up no credit. The service of two tenants that are both always queued differs
by a bounded amount for any requests, and the scheduler stays work-conserving. Within a tenant the same order applies to
its requesters (people, service accounts, and API keys of neither), so their number does not change the tenant's share;
a requester's oldest item goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Generic, TypeVar

from router.messages import ServiceClass

T = TypeVar("T")
Predicate = Callable[[T], bool]

PROMPT_WEIGHT = 1.0
OUTPUT_WEIGHT = 2.0
"""Cost of a token; a generated one takes a step of its own (the paper's weights)."""
ITEM_COST = 1.0
"""Fixed cost of an item, so that tenants alternate where no tokens are counted."""
REMEMBERED_CLIENTS = 1024
"""Number of tenants, and of requesters per tenant, above which counters of idle ones are dropped."""

FLEX_FLOOR = 0.125
"""Share of the slots that flex gets while other classes have queued jobs."""


def flex_floor(slots: int) -> int:
    """Return the number of `slots` that flex gets while other classes have queued jobs."""
    return max(1, int(slots * FLEX_FLOOR))


def slots_in_the_way(service_class: ServiceClass, *, taken: int, flex: int, slots: int) -> int:
    """Return how many of the `taken` slots a job of a class has to wait for, if `flex` of them are held by flex jobs.

    Flex jobs beyond their floor give way to those of other classes.
    """
    return taken if service_class is ServiceClass.FLEX else taken - max(0, flex - flex_floor(slots))


class VirtualTokenCounters:
    """Counters of the tokens that each client was served: the tenants, or the requesters of one tenant."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._last = ""
        """The client served last."""

    def __contains__(self, client: str) -> bool:
        return client in self._served

    def __getitem__(self, client: str) -> float:
        return self._served[client]

    def lift(self, client: str, queued: Collection[str]) -> None:
        """Raise the counter of a client that starts to queue to at least the smallest one of the `queued` clients."""
        floor = min(map(self._served.__getitem__, queued), default=self._served.get(self._last, 0.0))
        if len(self._served) > REMEMBERED_CLIENTS:
            kept = {*queued, self._last}  # idle clients below the floor would be lifted to it anyway
            self._served = {each: served for each, served in self._served.items() if served > floor or each in kept}
        self._served[client] = max(self._served.get(client, 0.0), floor)

    def start_service(self, client: str) -> None:
        """Record that an item of the client is served now: add `ITEM_COST` to its counter."""
        self._last = client
        self.charge(client, ITEM_COST)

    def charge(self, client: str, cost: float) -> None:
        """Add `cost`, weighted tokens served, to the counter of one client (tenant or requester)."""
        self._served[client] = self._served.get(client, 0.0) + cost


class RequesterQueues(Generic[T]):
    """One tenant's items by requester, in Virtual Token Counter order."""

    def __init__(self) -> None:
        self.counters = VirtualTokenCounters()
        self._waiting: dict[str, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[T]:
        return (item for items in self._waiting.values() for item in items)

    def push(self, requester: str, item: T) -> None:
        """Append one item to the queue of its requester."""
        if requester not in self._waiting:
            self.counters.lift(requester, self._waiting)
            self._waiting[requester] = deque()
        self._waiting[requester].append(item)

    def first(self, is_eligible: Predicate[T] | None) -> tuple[str, T] | None:
        """Return the first requester in turn whose oldest item satisfies `is_eligible`, with that item, or `None`."""
        firsts = [
            (requester, items[0])
            for requester, items in self._waiting.items()
            if is_eligible is None or is_eligible(items[0])
        ]
        if len(firsts) <= 1:
            return firsts[0] if firsts else None
        return min(firsts, key=lambda first: self.counters[first[0]])

    def discard(self, requester: str, item: T) -> bool:
        """Remove one item from its requester's queue; return whether it was queued."""
        items = self._waiting.get(requester, ())
        index = next((number for number, each in enumerate(items) if each is item), None)
        if index is None:
            return False
        del self._waiting[requester][index]
        if not self._waiting[requester]:
            del self._waiting[requester]
        return True


class TenantFairQueue(Generic[T]):
    """Queue of items by tenant and requester, in Virtual Token Counter order. Items are compared by identity."""

    def __init__(self) -> None:
        self._counters = VirtualTokenCounters()
        self._tenants: dict[str, RequesterQueues[T]] = {}
        """Of all tenants with a counter, because the counters of their requesters are kept as long."""
        self._waiting: dict[str, RequesterQueues[T]] = {}
        """Of the tenants with queued items."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return (item for queues in self._waiting.values() for item in queues)

    def push(self, tenant: str, requester: str, item: T) -> None:
        """Append one item to the queue of its tenant and requester."""
        if tenant not in self._waiting:
            self._counters.lift(tenant, self._waiting)
            if len(self._tenants) > REMEMBERED_CLIENTS:
                self._tenants = {each: queues for each, queues in self._tenants.items() if each in self._counters}
            self._waiting[tenant] = self._of(tenant)
        self._waiting[tenant].push(requester, item)
        self._length += 1

    def peek(self, is_eligible: Predicate[T] | None = None) -> T | None:
        """Return the item whose turn is next among requesters' oldest ones that satisfy `is_eligible`.

        Return `None` if none does. The item stays queued.
        """
        first = self._first(is_eligible)
        return None if first is None else first[2]

    def pop(self) -> T:
        """Remove and return the item whose turn is next, and charge `ITEM_COST`.

        Raises `IndexError` if the queue is empty.
        """
        first = self._first()
        if first is None:
            raise IndexError("the queue is empty")
        self.take(*first)
        return first[2]

    def take(self, tenant: str, requester: str, item: T) -> None:
        """Remove one queued item because it is served now, and charge its tenant and requester `ITEM_COST`."""
        self.discard(tenant, requester, item)
        self._counters.start_service(tenant)
        self._of(tenant).counters.start_service(requester)

    def discard(self, tenant: str, requester: str, item: T) -> bool:
        """Remove one item without serving it; return whether it was queued."""
        queues = self._waiting.get(tenant)
        if queues is None or not queues.discard(requester, item):
            return False
        self._length -= 1
        if not queues:
            del self._waiting[tenant]
        return True

    def charge(self, tenant: str, requester: str, cost: float) -> None:
        """Add `cost`, weighted tokens served, to the counters of a tenant and requester, who wait longer next."""
        self._counters.charge(tenant, cost)
        self._of(tenant).counters.charge(requester, cost)

    def _of(self, tenant: str) -> RequesterQueues[T]:
        queues = self._tenants.get(tenant)
        if queues is None:
            queues = self._tenants[tenant] = RequesterQueues()
        return queues

    def _first(self, is_eligible: Predicate[T] | None = None) -> tuple[str, str, T] | None:
        firsts = [
            (tenant, *first)
            for tenant, queues in self._waiting.items()
            if (first := queues.first(is_eligible)) is not None
        ]
        return min(firsts, key=lambda first: self._counters[first[0]], default=None)


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
        """Return the next item, over all classes, that satisfies `is_eligible`, or `None`; the item stays queued.

        Items of the class flex hold `flex_slots` of all `slots`.
        """
        order = [ServiceClass.PRIORITY, ServiceClass.DEFAULT, ServiceClass.FLEX]
        if flex_slots < flex_floor(slots):
            order.insert(0, ServiceClass.FLEX)
        firsts = (self._queues[each].peek(is_eligible) for each in order)
        return next((first for first in firsts if first is not None), None)
