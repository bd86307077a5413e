"""Rate limiter of a gateway: decides by the limits of all its subjects whether a request to a model may run now.

A request is charged in two steps, because its model is known only after its body was read: first one request and a slot
of its key, its person, its project and its organisation; then one request and a slot of the model within the project
and within the organisation, and the tokens of all six. A request to an assistant is charged to each model that it may
call as well; one that it did not call gets its request back. A refused request is charged nothing; one that fails later
counts as a request. One that is answered by several jobs in turn is charged the tokens of each, and once as a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from auth_billing.access.principal import Principal
from auth_billing.errors import LargerThanLimit, StoreUnavailable
from auth_billing.rate_limits.lease import Charge, Lease, LimitStatus
from auth_billing.rate_limits.limit_registry import LimitRegistry
from auth_billing.rate_limits.limits import (
    Dimension,
    Limits,
    Subject,
    SubjectKind,
    key_subject,
    model_subject,
    organisation_model_subject,
    organisation_subject,
    person_subject,
    project_subject,
)
from auth_billing.rate_limits.ports import BucketStore
from auth_billing.rate_limits.store_circuit import StoreCircuit

MAINTENANCE_INTERVAL = 0.1
"""Seconds between two returns of unused units and renewals of slots."""
ONE_REQUEST = {Dimension.REQUESTS_PER_MINUTE: 1, Dimension.REQUESTS_PER_DAY: 1}


class RateLimiter:
    """Enforces rate limits in one process. The task `run` must be running.

    Args:
        store: the buckets that all processes share.
        book: resolves the limits of subjects.
        holder: unique name of this process, never used before.
        circuit: circuit breaker of the store, shared with `book`.
    """

    def __init__(self, store: BucketStore, book: LimitRegistry, holder: str, circuit: StoreCircuit) -> None:
        self.book = book
        self._store = store
        self._holder = holder
        self._circuit = circuit
        self._leases: dict[str, Lease] = {}

    def allowance(self, principal: Principal) -> Allowance:
        """Return the object that charges one new request of `principal` to its rate limits; nothing is taken yet.

        Call `enter` next, and `close` when the request ends.
        """
        return Allowance(self, principal)

    def __len__(self) -> int:
        """Number of leases in memory."""
        return len(self._leases)

    async def run(self) -> None:
        """Maintain all subjects' leases every `MAINTENANCE_INTERVAL` seconds until cancelled; a task of the gateway."""
        while True:
            await asyncio.sleep(MAINTENANCE_INTERVAL)
            await self.maintain()

    async def maintain(self) -> None:
        """Maintain all subjects' leases once: give unused units back, renew the slots in use, drop unused leases.

        While the store is unavailable, the units stay in the leases.
        """
        for lease in list(self._leases.values()):
            await _ignoring_store_outage(lease.maintain())
            if not lease.used:
                del self._leases[lease.subject.id]

    async def close(self) -> None:
        """Give all units and slots of all subjects that are not in use back to the store, when the gateway stops."""
        for lease in self._leases.values():
            await _ignoring_store_outage(lease.close())

    async def leases_of(self, subjects: Sequence[Subject]) -> list[Lease]:
        """Return this process's rate-limit lease of each subject, in order, with current limits; create missing leases.

        Raises:
            StoreUnavailable: the limits are not known.
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


@dataclass(frozen=True)
class TokenUse:
    """Tokens of one request, as its limits count them."""

    total: int = 0
    """Tokens that the limits of key, person, project and organisation count."""
    of_models: Mapping[str, int] = field(default_factory=dict)
    """Tokens that the limits of each model count; 0 of a model that was called and has none, as one that draws."""


class _Taken(NamedTuple):
    """What a request took from one lease; `model` is the lease's, "" of key, person, project and organisation."""

    lease: Lease
    charge: Charge
    model: str
    used: Callable[[], TokenUse]
    """Returns the tokens that the charge was for, once they are used."""


class _Wanted(NamedTuple):
    """What a request needs of one lease."""

    lease: Lease
    units: Mapping[Dimension, int]
    slot: bool
    model: str = ""


class Allowance:
    """The requests, tokens and slots that one request has taken of its limits."""

    def __init__(self, limiter: RateLimiter, principal: Principal) -> None:
        self._limiter = limiter
        self._principal = principal
        self._taken: list[_Taken] = []
        self._leases: list[Lease] = []
        """Leases of key, person, project and organisation."""
        self._of_models: dict[str, list[Lease]] = {}
        """Leases of the models that were charged, by name."""
        self._open = 1

    async def enter(self) -> None:
        """Take one request and a slot for a new HTTP request from the limits of key, person, project and organisation.

        Raises:
            RateLimitExceeded, StoreUnavailable: nothing was taken.
        """
        caller, project = self._principal, self._principal.project
        subjects = [key_subject(caller.key_id, caller.user)]
        if project:  # not of an admin key, so that an organisation at its limit can still be administered
            subjects += [person_subject(caller.tenant, caller.user)] if caller.user else []
            subjects += [project_subject(project), organisation_subject(caller.tenant)]
        self._leases = await self._limiter.leases_of(subjects)
        await self._reserve([_Wanted(lease, ONE_REQUEST, slot=True) for lease in self._leases], TokenUse)

    async def charge(self, model: str, *, most: TokenUse, least: int, used: Callable[[], TokenUse]) -> None:
        """Take tokens for the HTTP request from the limits that `enter` used, and from those of the models.

        Each model that the request may call has its own limits, from which a request and a slot are taken too; once, if
        the request is charged again for a further job, before which unused tokens of the ended ones are given back.

        Args:
            model: the requested model.
            most: tokens that the request may use; a lower limit is taken entirely, and the excess is owed. It has the
                requested model and, of an assistant, those that it may call.
            least: tokens that the requested model will use at least.
            used: returns, when the request ends, the tokens that were used of these, with the models that were called.

        Raises:
            LargerThanLimit: `least` exceeds a limit.
            RateLimitExceeded, StoreUnavailable: nothing is taken; before a first job, what `enter` took is given back.
        """
        caller = self._principal
        self._correct()
        charged, new = set(self._of_models), [name for name in most.of_models if name not in self._of_models]
        subjects = [
            subject
            for name in new
            for subject in (model_subject(caller.project, name), organisation_model_subject(caller.tenant, name))
        ]
        leases = iter(await self._limiter.leases_of(subjects))
        self._of_models |= {name: [next(leases), next(leases)] for name in new}
        wanted = [_Wanted(lease, _tokens(lease, most.total, least), slot=False) for lease in self._leases]
        for name, tokens in most.of_models.items():
            for lease in self._of_models[name]:
                units = _tokens(lease, tokens, least if name == model else 0)
                if name not in charged:
                    units = {**ONE_REQUEST, **units}
                wanted.append(_Wanted(lease, units, slot=name not in charged, model=name))
        await self._reserve(wanted, used, keeps=bool(charged))

    def retain(self) -> None:
        """Count one more owner of the allowance, such as a response that still streams; each must call `close` once."""
        self._open += 1

    def close(self) -> None:
        """Count one owner of the allowance less; at the last one, free its slots and give its unused tokens back."""
        self._open -= 1
        if self._open:
            return
        called = {model for use in self._correct() for model in use.of_models}
        for lease, charge, model, _ in self._taken:
            if model and model not in called:
                for dimension in ONE_REQUEST:
                    lease.correct(charge, dimension, 0)
            lease.release(charge)

    def _correct(self) -> list[TokenUse]:
        """Correct the tokens of all charges to those that were used; return these, by job."""
        uses = {each.used: each.used() for each in self._taken}
        for lease, charge, model, used in self._taken:
            tokens = uses[used].of_models.get(model, 0) if model else uses[used].total
            lease.correct(charge, Dimension.TOKENS_PER_MINUTE, tokens)
        return list(uses.values())

    def statuses(self) -> list[tuple[SubjectKind, Dimension, LimitStatus]]:
        """Return the state of each per-minute and per-day limit of the request, with the kind of its subject."""
        return [
            (lease.subject.kind, dimension, status)
            for lease in [*self._leases, *(lease for leases in self._of_models.values() for lease in leases)]
            for dimension, status in lease.statuses().items()
        ]

    async def _reserve(self, wanted: Sequence[_Wanted], used: Callable[[], TokenUse], *, keeps: bool = False) -> None:
        """Take all of `wanted`; on a refusal take nothing, and undo what was taken before unless it `keeps` that."""
        before = len(self._taken) if keeps else 0
        missing = [each for each in wanted if not self._has(each, used)]
        if not missing:
            return
        results = await asyncio.gather(*(self._take(each, used) for each in missing), return_exceptions=True)
        errors = [result for result in results if result is not None]
        if errors:
            for each in self._taken[before:]:
                each.lease.undo(each.charge)
            del self._taken[before:]
            raise max(errors, key=lambda error: getattr(error, "wait", 0.0))

    def _has(self, wanted: _Wanted, used: Callable[[], TokenUse]) -> bool:
        charge = wanted.lease.reserve_at_once(wanted.units, slot=wanted.slot)
        if charge is not None:
            self._taken.append(_Taken(wanted.lease, charge, wanted.model, used))
        return charge is not None

    async def _take(self, wanted: _Wanted, used: Callable[[], TokenUse]) -> None:
        # Noted at once: if the request is cancelled while it waits for another lease, `close` knows of this one.
        charge = await wanted.lease.reserve(wanted.units, slot=wanted.slot)
        self._taken.append(_Taken(wanted.lease, charge, wanted.model, used))


def _tokens(lease: Lease, most: int, least: int) -> dict[Dimension, int]:
    rate = lease.limits.rates.get(Dimension.TOKENS_PER_MINUTE)
    if rate is None:
        return {}
    if least > rate.capacity:
        raise LargerThanLimit(
            f"Request too large for {lease.subject.display_name} on tokens per min (TPM): Limit {rate.capacity}, "
            f"Requested at least {least}. The input must be reduced in order to run successfully.",
            wait=0.0,
            kind=lease.subject.kind,
        )
    return {Dimension.TOKENS_PER_MINUTE: min(most, rate.capacity)}


async def _ignoring_store_outage(doing: Awaitable[None]) -> None:
    """Ignore that the store is away: leased units and slots expire by themselves."""
    with suppress(StoreUnavailable):
        await doing
