"""The facade: whether one more request may run, for whoever asks, at whichever model.

A request is charged in two steps, since its model is known only when its body has been read: first one request of
its key and its project, with a slot of each; then one of the model within the project, and its tokens of all three.
What a limit refuses is charged nowhere; what fails later counts as a request. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from auth_billing.errors import LargerThanLimit, StoreUnavailable
from auth_billing.rate_limits.book import LimitBook
from auth_billing.rate_limits.circuit import Circuit
from auth_billing.rate_limits.lease import Charge, Lease, Standing
from auth_billing.rate_limits.limits import (
    Dimension,
    Kind,
    Limits,
    Subject,
    key_subject,
    model_subject,
    project_subject,
)
from auth_billing.rate_limits.ports import BucketStore
from auth_billing.service import Principal

TEND_SECONDS = 0.1
ONE_REQUEST = {Dimension.REQUESTS_PER_MINUTE: 1, Dimension.REQUESTS_PER_DAY: 1}


class RateLimiter:
    """The limits as one process keeps them. `run` must be running.

    Args:
        store: where all processes' buckets are.
        book: which limits there are.
        holder: a name of this process that none had before it.
        circuit: the book's.
    """

    def __init__(self, store: BucketStore, book: LimitBook, holder: str, circuit: Circuit) -> None:
        self.book = book
        self._store = store
        self._holder = holder
        self._circuit = circuit
        self._leases: dict[str, Lease] = {}

    def allowance(self, principal: Principal) -> Allowance:
        """For one request of `principal`. Enter it next; close it at the request's end."""
        return Allowance(self, principal)

    def __len__(self) -> int:
        """How many leases there are."""
        return len(self._leases)

    async def run(self) -> None:
        """Tend the leases until cancelled."""
        while True:
            await asyncio.sleep(TEND_SECONDS)
            await self.tend()

    async def tend(self) -> None:
        """Give back what was not needed, renew what is, forget what nobody asks for."""
        for lease in list(self._leases.values()):
            await _in_spite_of_the_store(lease.tend())
            if not lease.used:
                del self._leases[lease.subject.id]

    async def close(self) -> None:
        """Give back what is not in use."""
        for lease in self._leases.values():
            await _in_spite_of_the_store(lease.close())

    async def leases_of(self, subjects: Sequence[Subject]) -> list[Lease]:
        """The lease of each.

        Raises:
            StoreUnavailable: their limits are not known.
        """
        limits = await self.book.limits_of(subjects)
        return [self._lease(subject, limited) for subject, limited in zip(subjects, limits, strict=True)]

    def _lease(self, subject: Subject, limits: Limits) -> Lease:
        lease = self._leases.get(subject.id)
        if lease is None:
            lease = Lease(subject, limits, self._store, self._holder, self._circuit)
            self._leases[subject.id] = lease
        lease.limits = limits
        return lease


class Allowance:
    """What one request has taken of its limits."""

    def __init__(self, limiter: RateLimiter, principal: Principal) -> None:
        self._limiter = limiter
        self._principal = principal
        self._charges: list[tuple[Lease, Charge]] = []
        self._leases: list[Lease] = []
        self._used: Callable[[], int] = int
        self._open = 1

    async def enter(self) -> None:
        """Take a request and a slot of the key and of the project.

        Raises:
            RateLimitExceeded, StoreUnavailable: nothing is taken.
        """
        caller, project = self._principal, self._principal.project
        subjects = [key_subject(caller.key_id, caller.user), *([project_subject(project)] if project else [])]
        self._leases = await self._limiter.leases_of(subjects)
        await self._reserve([(lease, ONE_REQUEST, True) for lease in self._leases])

    async def charge(self, model: str, *, most: int, least: int, used: Callable[[], int]) -> None:
        """Take a request and a slot of the model, and of everything the tokens.

        Args:
            model: that the request is for.
            most: tokens that it may use; where a limit is lower, it takes all of that, and owes the rest.
            least: tokens that it will use at least.
            used: says at the end how many it has used.

        Raises:
            LargerThanLimit: `least` is more than a limit.
            RateLimitExceeded, StoreUnavailable: nothing is taken by this request, nor was by `enter`.
        """
        of_model = await self._limiter.leases_of([model_subject(self._principal.project, model)])
        wanted = [(lease, _tokens(lease, most, least), False) for lease in self._leases]
        wanted += [(lease, {**ONE_REQUEST, **_tokens(lease, most, least)}, True) for lease in of_model]
        self._leases = self._leases + of_model
        self._used = used
        await self._reserve(wanted)

    def reopen(self) -> None:
        """Somebody else works for the request as well, and will close this too."""
        self._open += 1

    def close(self) -> None:
        """The request has ended: its slots are free, and tokens that it did not use are given back."""
        self._open -= 1
        if self._open:
            return
        used = self._used()
        for lease, charge in self._charges:
            lease.correct(charge, Dimension.TOKENS_PER_MINUTE, used)
            lease.release(charge)

    def standings(self) -> list[tuple[Kind, Dimension, Standing]]:
        """How all limits stand that the request falls under."""
        return [
            (lease.subject.kind, dimension, standing)
            for lease in self._leases
            for dimension, standing in lease.standings().items()
        ]

    async def _reserve(self, wanted: Sequence[tuple[Lease, Mapping[Dimension, int], bool]]) -> None:
        """All of `wanted`, or nothing, and nothing of what was taken before."""
        missing = [(lease, units, slot) for lease, units, slot in wanted if not self._has(lease, units, slot)]
        if not missing:
            return
        results = await asyncio.gather(*(self._take(*one) for one in missing), return_exceptions=True)
        errors = [result for result in results if result is not None]
        if errors:
            for lease, charge in self._charges:
                lease.undo(charge)
            self._charges = []
            raise max(errors, key=lambda error: getattr(error, "wait", 0.0))

    def _has(self, lease: Lease, units: Mapping[Dimension, int], slot: bool) -> bool:
        charge = lease.reserve_at_once(units, slot=slot)
        if charge is not None:
            self._charges.append((lease, charge))
        return charge is not None

    async def _take(self, lease: Lease, units: Mapping[Dimension, int], slot: bool) -> None:
        # Noted at once: if the request is cancelled while it waits for another lease, `close` knows of this one.
        self._charges.append((lease, await lease.reserve(units, slot=slot)))


def _tokens(lease: Lease, most: int, least: int) -> dict[Dimension, int]:
    rate = lease.limits.rates.get(Dimension.TOKENS_PER_MINUTE)
    if rate is None:
        return {}
    if least > rate.capacity:
        raise LargerThanLimit(
            f"Request too large for {lease.subject.shown} on tokens per min (TPM): Limit {rate.capacity}, "
            f"Requested at least {least}. The input must be reduced in order to run successfully.",
            wait=0.0,
        )
    return {Dimension.TOKENS_PER_MINUTE: min(most, rate.capacity)}


async def _in_spite_of_the_store(doing: Awaitable[None]) -> None:
    """While the store is away, what it lends runs out by itself."""
    with suppress(StoreUnavailable):
        await doing
