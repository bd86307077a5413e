"""Fair queueing: bounded service differences between always queued tenants, and no credit for idle ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router import tenant_fair_queue
from router.messages import ServiceClass
from router.tenant_fair_queue import ITEM_COST, OUTPUT_WEIGHT, PROMPT_WEIGHT, ServiceClassQueues, TenantFairQueue

LONGEST_PROMPT, LONGEST_ANSWER = 40, 30


@dataclass
class Request:
    tenant: str
    prompt: int
    answer: int


@dataclass
class Server:
    """Server with `slots` slots; each step gives every running request a token."""

    slots: int
    queue: TenantFairQueue[Request] = field(default_factory=TenantFairQueue)
    running: list[Request] = field(default_factory=list)
    served: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def bound(self) -> float:
        """Theorem 4.4 of the paper, with the turn as a part of the prompt."""
        return 2 * max(ITEM_COST + PROMPT_WEIGHT * LONGEST_PROMPT, OUTPUT_WEIGHT * self.slots * LONGEST_ANSWER)

    def step(self) -> None:
        while len(self.running) < self.slots and len(self.queue):
            request = self.queue.pop()
            self._serve(request.tenant, PROMPT_WEIGHT * request.prompt)
            self.served[request.tenant] += ITEM_COST
            self.running.append(request)
        for request in self.running:
            self._serve(request.tenant, OUTPUT_WEIGHT)
            request.answer -= 1
        self.running = [request for request in self.running if request.answer > 0]

    def _serve(self, tenant: str, cost: float) -> None:
        self.queue.charge(tenant, cost)
        self.served[tenant] += cost


sizes = st.tuples(st.integers(1, LONGEST_PROMPT), st.integers(1, LONGEST_ANSWER))


@settings(max_examples=40, deadline=None)
@given(
    slots=st.integers(1, 6),
    shapes=st.dictionaries(st.sampled_from("abcd"), st.lists(sizes, min_size=1, max_size=4), min_size=2),
    flood=st.integers(1, 50),
    visits=st.lists(st.booleans(), min_size=150, max_size=150),
)
def test_always_queued_tenants_get_equal_service(
    slots: int, shapes: dict[str, list[tuple[int, int]]], flood: int, visits: list[bool]
) -> None:
    """For any requests, a flood of one tenant, and a tenant that is queued only at times."""
    server, asked = Server(slots), Counter[str]()

    def ask(tenant: str) -> None:
        shape = shapes[tenant][asked[tenant] % len(shapes[tenant])]
        asked[tenant] += 1
        server.queue.push(tenant, Request(tenant, *shape))

    steady = list(shapes)
    for _ in range(flood):
        ask(steady[0])
    for visit in visits:
        for tenant in steady:
            while sum(request.tenant == tenant for request in server.queue) < slots + 1:
                ask(tenant)
        if visit:
            server.queue.push("visitor", Request("visitor", 1, 1))
        server.step()
        had = [server.served[tenant] for tenant in steady]
        assert max(had) - min(had) <= server.bound


@settings(max_examples=20, deadline=None)
@given(slots=st.integers(1, 4), idle=st.integers(0, 200))
def test_an_idle_tenant_saves_up_no_credit(slots: int, idle: int) -> None:
    server = Server(slots)

    def keep_waiting(*tenants: str) -> None:
        for tenant in tenants:
            while sum(request.tenant == tenant for request in server.queue) < slots + 1:
                server.queue.push(tenant, Request(tenant, 10, 10))

    for _ in range(idle):
        keep_waiting("busy")
        server.step()
    before = dict(server.served)
    for _ in range(100):
        keep_waiting("busy", "late")
        server.step()
        since = [server.served[tenant] - before.get(tenant, 0.0) for tenant in ("busy", "late")]
        assert abs(since[0] - since[1]) <= server.bound


def test_a_new_tenant_is_next_despite_a_flood_of_another() -> None:
    queue = TenantFairQueue[int]()
    for number in range(1000):
        queue.push("noisy", number)
    for _ in range(10):
        queue.charge("noisy", queue.pop() + 100.0)
    queue.push("quiet", -1)
    queue.charge("noisy", 1.0)
    assert queue.pop() == -1
    assert queue.pop() == 10


def test_without_token_counts_tenants_alternate_first_in_first_out() -> None:
    queue = TenantFairQueue[str]()
    for item in ("a1", "a2", "a3", "b1", "b2"):
        queue.push(item[0], item)
    assert queue.discard("b", list(queue)[3]) is True
    assert queue.discard("b", "b7") is False
    assert [queue.pop() for _ in range(len(queue))] == ["a1", "b2", "a2", "a3"]
    assert queue.peek() is None
    with pytest.raises(IndexError):
        queue.pop()


def test_a_tenant_of_an_empty_queue_is_lifted_to_the_last_served_counter() -> None:
    queue = TenantFairQueue[str]()
    queue.push("a", "a1")
    queue.pop()
    queue.charge("a", 100)
    queue.push("b", "b1")  # the queue is empty: it starts at the counter of `a`
    queue.push("a", "a2")
    queue.push("b", "b2")
    assert [queue.pop() for _ in range(3)] == ["b1", "a2", "b2"]


def test_counters_of_old_tenants_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_fair_queue, "REMEMBERED_TENANTS", 10)
    queue = TenantFairQueue[int]()
    for number in range(1000):
        queue.push(f"t{number}", number)
        queue.pop()
    assert len(queue._served) <= 12


def test_flex_keeps_its_floor() -> None:
    queues = ServiceClassQueues[str]()
    for service_class in ServiceClass:
        queues[service_class].push("t", service_class.value)
    assert queues.peek(slots=16, flex_slots=1) == "flex"
    assert queues.peek(slots=16, flex_slots=2) == "priority"
    queues[ServiceClass.PRIORITY].pop()
    assert queues.peek(slots=16, flex_slots=2) == "default"
    assert len(queues) == 2
