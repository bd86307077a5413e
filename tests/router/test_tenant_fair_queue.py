"""Fair queueing: bounded service differences between always queued clients, and no credit for idle ones.

The clients of a test are tenants, or the requesters of one tenant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router import tenant_fair_queue
from router.messages import ServiceClass
from router.tenant_fair_queue import ITEM_COST, OUTPUT_WEIGHT, PROMPT_WEIGHT, ServiceClassQueues, TenantFairQueue

LONGEST_PROMPT, LONGEST_ANSWER = 40, 30

Flow = tuple[str, str]
"""A tenant and its requester."""


def as_tenant(client: str) -> Flow:
    return client, "someone"


def as_requester(client: str) -> Flow:
    return "organisation", client


each_level = pytest.mark.parametrize("flow", [as_tenant, as_requester])


@dataclass
class Request:
    client: str
    prompt: int
    answer: int


@dataclass
class Server:
    """Server with `slots` slots; each step gives every running request a token."""

    slots: int
    flow: Callable[[str], Flow] = as_tenant
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
            self._serve(request.client, PROMPT_WEIGHT * request.prompt)
            self.served[request.client] += ITEM_COST
            self.running.append(request)
        for request in self.running:
            self._serve(request.client, OUTPUT_WEIGHT)
            request.answer -= 1
        self.running = [request for request in self.running if request.answer > 0]

    def push(self, client: str, prompt: int, answer: int) -> None:
        self.queue.push(*self.flow(client), Request(client, prompt, answer))

    def _serve(self, client: str, cost: float) -> None:
        self.queue.charge(*self.flow(client), cost)
        self.served[client] += cost


sizes = st.tuples(st.integers(1, LONGEST_PROMPT), st.integers(1, LONGEST_ANSWER))


@each_level
@settings(max_examples=40, deadline=None)
@given(
    slots=st.integers(1, 6),
    shapes=st.dictionaries(st.sampled_from("abcd"), st.lists(sizes, min_size=1, max_size=4), min_size=2),
    flood=st.integers(1, 50),
    visits=st.lists(st.booleans(), min_size=150, max_size=150),
)
def test_always_queued_clients_get_equal_service(
    flow: Callable[[str], Flow], slots: int, shapes: dict[str, list[tuple[int, int]]], flood: int, visits: list[bool]
) -> None:
    """For any requests, a flood of one client, and a client that is queued only at times."""
    server, asked = Server(slots, flow), Counter[str]()

    def ask(client: str) -> None:
        shape = shapes[client][asked[client] % len(shapes[client])]
        asked[client] += 1
        server.push(client, *shape)

    steady = list(shapes)
    for _ in range(flood):
        ask(steady[0])
    for visit in visits:
        for client in steady:
            while sum(request.client == client for request in server.queue) < slots + 1:
                ask(client)
        if visit:
            server.push("visitor", 1, 1)
        server.step()
        had = [server.served[client] for client in steady]
        assert max(had) - min(had) <= server.bound


@each_level
@settings(max_examples=20, deadline=None)
@given(slots=st.integers(1, 4), idle=st.integers(0, 200))
def test_an_idle_client_saves_up_no_credit(flow: Callable[[str], Flow], slots: int, idle: int) -> None:
    server = Server(slots, flow)

    def keep_waiting(*clients: str) -> None:
        for client in clients:
            while sum(request.client == client for request in server.queue) < slots + 1:
                server.push(client, 10, 10)

    for _ in range(idle):
        keep_waiting("busy")
        server.step()
    before = dict(server.served)
    for _ in range(100):
        keep_waiting("busy", "late")
        server.step()
        since = [server.served[client] - before.get(client, 0.0) for client in ("busy", "late")]
        assert abs(since[0] - since[1]) <= server.bound


@pytest.mark.parametrize("requesters", [1, 5])
def test_the_number_of_its_requesters_does_not_change_a_tenants_share(requesters: int) -> None:
    """One tenant with several flooding requesters, and one with one."""

    def flow(client: str) -> Flow:
        return client[0], client

    server = Server(4, flow)
    clients = ["b", *(f"a{number}" for number in range(requesters))]
    for _ in range(300):
        for client in clients:
            while sum(request.client == client for request in server.queue) < server.slots + 1:
                server.push(client, 10, 10)
        server.step()
    of_a = [server.served[client] for client in clients[1:]]
    assert abs(sum(of_a) - server.served["b"]) <= server.bound
    assert max(of_a) - min(of_a) <= server.bound


@each_level
def test_a_new_client_is_next_despite_a_flood_of_another(flow: Callable[[str], Flow]) -> None:
    queue = TenantFairQueue[int]()
    for number in range(1000):
        queue.push(*flow("noisy"), number)
    for _ in range(10):
        queue.charge(*flow("noisy"), queue.pop() + 100.0)
    queue.push(*flow("quiet"), -1)
    queue.charge(*flow("noisy"), 1.0)
    assert queue.pop() == -1
    assert queue.pop() == 10


@each_level
def test_without_token_counts_clients_alternate_first_in_first_out(flow: Callable[[str], Flow]) -> None:
    queue = TenantFairQueue[str]()
    for item in ("a1", "a2", "a3", "b1", "b2"):
        queue.push(*flow(item[0]), item)
    assert queue.discard(*flow("b"), list(queue)[3]) is True
    assert queue.discard(*flow("b"), "b7") is False
    assert queue.discard(*flow("c"), "c1") is False
    assert [queue.pop() for _ in range(len(queue))] == ["a1", "b2", "a2", "a3"]
    assert queue.peek() is None
    with pytest.raises(IndexError):
        queue.pop()


@each_level
def test_a_client_of_an_empty_queue_is_lifted_to_the_last_served_counter(flow: Callable[[str], Flow]) -> None:
    queue = TenantFairQueue[str]()
    queue.push(*flow("a"), "a1")
    queue.pop()
    queue.charge(*flow("a"), 100)
    queue.push(*flow("b"), "b1")  # the queue is empty: it starts at the counter of `a`
    queue.push(*flow("a"), "a2")
    queue.push(*flow("b"), "b2")
    assert [queue.pop() for _ in range(3)] == ["b1", "a2", "b2"]


def test_a_requester_that_may_not_be_served_does_not_hold_up_its_tenant() -> None:
    queue = TenantFairQueue[str]()
    for item in ("a1", "a2", "b1"):
        queue.push("organisation", item[0], item)
    queue.push("another", "c", "c1")
    assert queue.peek(lambda item: item[0] != "a") == "b1"
    assert queue.peek(lambda item: item == "c1") == "c1"
    assert queue.peek(lambda item: item == "a2") is None


@each_level
def test_counters_of_old_clients_are_dropped(flow: Callable[[str], Flow], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_fair_queue, "REMEMBERED_CLIENTS", 10)
    queue = TenantFairQueue[int]()
    for number in range(1000):
        queue.push(*flow(f"t{number}"), number)
        queue.pop()
    assert len(queue._tenants) <= 12
    assert len(queue._tenants[flow("t999")[0]].counters._served) <= 12


def test_flex_keeps_its_floor() -> None:
    queues = ServiceClassQueues[str]()
    for service_class in ServiceClass:
        queues[service_class].push("t", "r", service_class.value)
    assert queues.peek(slots=16, flex_slots=1) == "flex"
    assert queues.peek(slots=16, flex_slots=2) == "priority"
    queues[ServiceClass.PRIORITY].pop()
    assert queues.peek(slots=16, flex_slots=2) == "default"
    assert len(queues) == 2
