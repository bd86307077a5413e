"""A fleet of gateways with shared buckets and one clock."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from auth_billing.access.principal import Principal
from auth_billing.rate_limits.limit_registry import LimitRegistry
from auth_billing.rate_limits.limiter import Allowance, RateLimiter, TokenUse
from auth_billing.rate_limits.limits import Limits, SubjectKind
from auth_billing.rate_limits.store_circuit import StoreCircuit
from tests.fakes.accounts import FakeClock
from tests.fakes.rate_buckets import DictBucketStore, DictLimitStore

ALICE = Principal("key-1", "org-1", "salt", project="proj_1")
BOB = Principal("key-2", "org-1", "salt", project="proj_1")


@dataclass
class Fleet:
    """Gateways and the stores and clock that they share."""

    defaults: Mapping[SubjectKind, Limits]
    clock: FakeClock = field(default_factory=FakeClock)
    limits: DictLimitStore = field(default_factory=DictLimitStore)
    gateways: list[RateLimiter] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = DictBucketStore(self.clock)

    def add(self) -> RateLimiter:
        circuit = StoreCircuit(lambda: self.clock() - 500.0)  # a gateway's own clock is another than the store's
        book = LimitRegistry(self.limits, self.defaults, circuit)
        self.gateways.append(RateLimiter(self.store, book, f"gateway-{len(self.gateways)}", circuit))
        return self.gateways[-1]

    async def pass_time(self, seconds: float) -> None:
        """In steps, in which every gateway tends its leases."""
        steps = max(1, round(seconds / 0.5))
        for _ in range(steps):
            self.clock.now += seconds / steps
            for gateway in self.gateways:
                await gateway.maintain()


async def enter(gateway: RateLimiter, principal: Principal = ALICE) -> Allowance:
    allowance = gateway.allowance(principal)
    await allowance.enter()
    return allowance


def tokens_of_m(tokens: int) -> TokenUse:
    return TokenUse(tokens, {"m": tokens})


async def charged(gateway: RateLimiter, tokens: int, principal: Principal = ALICE, *, used: int = 0) -> Allowance:
    allowance = await enter(gateway, principal)
    await allowance.charge("m", most=tokens_of_m(tokens), least=1, used=lambda: tokens_of_m(used))
    return allowance


async def at_once(gateway: RateLimiter, requests: int) -> int:
    """Return how many of the simultaneous requests are admitted."""
    results = await asyncio.gather(*(enter(gateway) for _ in range(requests)), return_exceptions=True)
    return sum(isinstance(result, Allowance) for result in results)


@pytest.fixture
def fleet(request: pytest.FixtureRequest) -> Fleet:
    """A fleet with the limits of a key and of a model, given as the test's parameter."""
    key, model = request.param
    return Fleet({SubjectKind.KEY: key, SubjectKind.MODEL: model})
