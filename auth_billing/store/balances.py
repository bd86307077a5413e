"""Accounts in MongoDB, one document an organisation, so that one conditional update decides about money
(docs/design/money.md#documents).

    accounts {
        _id: organisation,
        open: true | false,            false: no new holds
        available: int,                nano-USD that can be held
        spent: int,                    nano-USD that settled jobs have cost, ever
        held_map: {
            job: {amount: int, month: "2026-11", project: str, key: str},
            lease: {the same, gateway: str, at: float},    credit that a gateway has in hand: `credit_leases.py`
        },
        budgets: {NAME: int},          nano-USD a month; NAME as in `holds.budgets_of`
        used: {MONTH: {NAME: int}},    nano-USD held and spent of jobs accepted in the month
        version: int,                  goes up with every change to `held_map`
        credits, credited: int         credit taken in: `store/credits.py`
    }

Always `available + sum(held_map.*.amount) + spent` = all that was paid in less what was paid back: whoever changes
credit changes `available` only. A job counts in the month in which it was accepted, so a new month begins with nothing
used (months older than the last three are dropped), and there is no moment at which budgets are reset.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pymongo.errors import DuplicateKeyError

from auth_billing.money.books import Balance, Charge, Hold, JobRecord
from auth_billing.store.connection import StoreConnection, translated_errors

COLLECTION = "accounts"

_NOTHING: dict[str, Any] = {
    "open": True,
    "available": 0,
    "spent": 0,
    "held_map": {},
    "budgets": {},
    "used": {},
    "version": 0,
}


class MongoBalanceStore:
    """Implements `books.BalanceStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._accounts = connection.durable(COLLECTION)
        self._passing = connection.passing(COLLECTION)

    async def open(self, organisation: str) -> None:
        """Make an account with nothing in it unless there is one."""
        try:
            with translated_errors():
                await self._accounts.insert_one({"_id": organisation, **_NOTHING})
        except DuplicateKeyError:
            return

    async def find(self, organisation: str) -> Balance | None:
        """The account of an organisation."""
        with translated_errors():
            document = await self._accounts.find_one({"_id": organisation})
        return None if document is None else from_document(document)

    async def with_holds(self) -> Sequence[Balance]:
        """All accounts that have open holds."""
        with translated_errors():
            return [from_document(each) async for each in self._accounts.find({"held_map": {"$ne": {}}})]

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        """Set the jobs' holds aside, all or none; false if the account does not allow it (or has them already).

        Comparing with limits that the caller knows, and these with the document's, takes half the time on the embedded
        store that an expression over both takes.
        """
        possible = _allowing(jobs[0].organisation, jobs[0], sum(job.hold for job in jobs), budgets)
        if possible is None:
            return False
        affordable = {**possible, **{f"held_map.{job.id}": {"$exists": False} for job in jobs}}
        with translated_errors():
            result = await self._passing.update_one(affordable, _held(jobs))
        return bool(result.matched_count)

    async def hold_again(self, job: JobRecord, version: int) -> bool:
        """Put back a hold that a crash of the store has lost; false if the account has changed since `version`."""
        unchanged = {"_id": job.organisation, "version": version, f"held_map.{job.id}": {"$exists": False}}
        with translated_errors():
            result = await self._accounts.update_one(unchanged, _held([job]))
        return bool(result.matched_count)

    async def lease(self, seen: Balance, id: str, lease: Hold) -> bool:
        """Set `lease.amount` more aside for a gateway, onto the lease with this id if `seen` has it."""
        possible = _allowing(seen.organisation, lease, lease.amount, seen.budgets)
        if possible is None:
            return False
        increase = {"available": -lease.amount, "version": 1, f"held_map.{id}.amount": lease.amount}
        _use_less(increase, lease, -lease.amount)
        said = {name: getattr(lease, name) for name in ("month", "project", "key", "gateway", "at")}
        with translated_errors():
            result = await self._passing.update_one(
                {**possible, f"held_map.{id}.amount": {"$exists": id in seen.held}},
                {"$inc": increase, "$set": {f"held_map.{id}.{name}": value for name, value in said.items()}},
            )
        return bool(result.matched_count)

    async def hand_over(self, organisation: str, jobs: Mapping[str, Sequence[JobRecord]]) -> bool:
        """Turn parts of leases into the holds of jobs, all or none."""
        amounts = {f"held_map.{lease}.amount": sum(job.hold for job in of_it) for lease, of_it in jobs.items()}
        entries = {f"held_map.{job.id}": _entry(job) for of_it in jobs.values() for job in of_it}
        possible = {
            "_id": organisation,
            **{amount: {"$gte": least} for amount, least in amounts.items()},
            **{entry: {"$exists": False} for entry in entries},
        }
        increase = {"version": 1, **{amount: -less for amount, less in amounts.items()}}
        with translated_errors():
            result = await self._passing.update_one(possible, {"$inc": increase, "$set": entries})
        return bool(result.matched_count)

    async def settle(self, charges: Sequence[Charge]) -> bool:
        """Turn holds into costs, all or none; false if one of them is not held."""
        held = {f"held_map.{charge.job.id}": {"$exists": True} for charge in charges}
        increase = {"available": 0, "spent": 0, "version": 1}
        for charge in charges:
            unused = charge.job.hold - charge.cost
            increase["available"] += unused
            increase["spent"] += charge.cost
            _use_less(increase, charge.job, unused)
        with translated_errors():
            result = await self._accounts.update_one(
                {"_id": charges[0].job.organisation, **held}, {"$unset": dict.fromkeys(held, ""), "$inc": increase}
            )
        return bool(result.matched_count)

    async def release(self, organisation: str, id: str, hold: Hold) -> bool:
        """Give back a hold that no job needs, or a lease; false if it is not there with this amount."""
        increase = {"available": hold.amount, "version": 1}
        _use_less(increase, hold, hold.amount)
        entry = f"held_map.{id}"
        with translated_errors():
            result = await self._accounts.update_one(
                {"_id": organisation, f"{entry}.amount": hold.amount}, {"$unset": {entry: ""}, "$inc": increase}
            )
        return bool(result.matched_count)

    async def forget_months(self, organisation: str, months: Collection[str]) -> None:
        """Forget what was used in months whose jobs are settled long since."""
        with translated_errors():
            await self._accounts.update_one({"_id": organisation}, {"$unset": {f"used.{each}": "" for each in months}})

    async def set_open(self, organisation: str, *, to: bool) -> bool:
        """Take no more holds, or take them again; open ones are settled as ever. False if there is no such account."""
        with translated_errors():
            result = await self._accounts.update_one({"_id": organisation}, {"$set": {"open": to}})
        return bool(result.matched_count)


def _allowing(
    organisation: str, of: JobRecord | Hold, amount: int, budgets: Mapping[str, int]
) -> dict[str, Any] | None:
    """What an account is like in which so much can be held; `None` if its budgets never allow it."""
    left = {name: budgets[name] - amount for name in of.budgets if name in budgets}
    if any(each < 0 for each in left.values()):
        return None
    return {
        "_id": organisation,
        "open": True,
        "available": {"$gte": amount},
        "budgets": dict(budgets),
        **{f"used.{of.month}.{name}": {"$not": {"$gt": each}} for name, each in left.items()},
    }


def _held(jobs: Sequence[JobRecord]) -> dict[str, Any]:
    one, total = jobs[0], sum(job.hold for job in jobs)
    increase = {"available": -total, "version": 1}
    _use_less(increase, one, -total)
    return {"$inc": increase, "$set": {f"held_map.{job.id}": _entry(job) for job in jobs}}


def _entry(job: JobRecord) -> dict[str, Any]:
    return {"amount": job.hold, "month": job.month, "project": job.project, "key": job.key}


def _use_less(increase: dict[str, int], of: JobRecord | Hold, amount: int) -> None:
    for name in of.budgets:
        field = f"used.{of.month}.{name}"
        increase[field] = increase.get(field, 0) - amount


def from_document(document: Mapping[str, Any]) -> Balance:
    """An account as its document has it."""
    return Balance(
        organisation=document["_id"],
        available=document["available"],
        spent=document["spent"],
        held={job: Hold(**entry) for job, entry in document["held_map"].items()},
        budgets=document["budgets"],
        used=document["used"],
        is_open=document["open"],
        version=document["version"],
        credits=document.get("credits", 0),
        credited=document.get("credited", 0),
    )
