"""MongoDB store of organisations' accounts: one document each, so that a single conditional update is atomic.

See docs/design/money.md#documents.

    accounts {
        _id: organisation,
        open: true | false,            false: no new holds
        available: int,                nano-USD that can be held
        spent: int,                    nano-USD, the cost of all settled jobs
        held_map: {
            job: {amount: int, month: "2026-11", project: str, key: str},
            lease: {as above, gateway: str, at: float},    a gateway's credit lease: `credit_leases.py`
        },
        budgets: {NAME: int},          nano-USD a month; NAME as in `holds.budget_names`
        used: {MONTH: {NAME: int}},    nano-USD held and spent by jobs accepted in the month
        version: int,                  incremented by every change to `held_map`
        credits, credited: int         number and sum of applied credit entries: `store/credits.py`
        withdrawals, withdrawn: int    number and sum of withdrawals of credit; `withdrawal`: one not in the ledger yet
    }

Invariant: `available + sum(held_map.*.amount) + spent + withdrawn == credited`; crediting an account changes
`available` and `credited` only, a withdrawal `available` and `withdrawn` only. A job counts in the month of its
acceptance, so a new month begins with nothing used, and budgets need no reset. Months older than the last three are
deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from auth_billing.money.billing_records import Balance, Charge, Hold, JobRecord
from auth_billing.store.connection import StoreConnection

COLLECTION = "accounts"

_EMPTY: dict[str, Any] = {
    "open": True,
    "available": 0,
    "spent": 0,
    "held_map": {},
    "budgets": {},
    "used": {},
    "version": 0,
}


class MongoBalanceStore:
    """MongoDB implementation of `billing_records.BalanceStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._accounts = connection.durable(COLLECTION)
        self._unjournaled = connection.unjournaled(COLLECTION)

    async def create(self, organisation: str) -> None:
        """Create an empty credit account for an organisation, unless the organisation has one."""
        await self._accounts.insert_if_absent({"_id": organisation, **_EMPTY})

    async def find(self, organisation: str) -> Balance | None:
        """Return an organisation's credit account, or `None` if the organisation has none."""
        return await self._accounts.find_record(from_document, {"_id": organisation})

    async def with_holds(self) -> Sequence[Balance]:
        """Return the credit accounts of all organisations that have at least one open hold or credit lease."""
        return [from_document(each) async for each in self._accounts.find({"held_map": {"$ne": {}}})]

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        """Take the jobs' holds (nano-USD) out of the account's available credit, in one update, all or none.

        Return false, with nothing changed, if the account does not allow them or has other budgets than `budgets`. The
        query compares with `budgets` instead of an expression over the document's own fields, because that takes the
        embedded store twice as long. Not journaled.
        """
        allowing = _allowing(jobs[0].organisation, jobs[0], sum(job.hold for job in jobs), budgets)
        if allowing is None:
            return False
        query = {**allowing, **{f"held_map.{job.id}": {"$exists": False} for job in jobs}}
        return await self._unjournaled.update_matching(query, _held(jobs))

    async def restore_hold(self, job: JobRecord, version: int) -> bool:
        """Restore the hold of a job, which a crash of the store lost, so that the job can be settled.

        Return false, with nothing changed, if the account's version is not `version` any more.
        """
        query = {"_id": job.organisation, "version": version, f"held_map.{job.id}": {"$exists": False}}
        return await self._accounts.update_matching(query, _held([job]))

    async def extend_lease(self, seen: Balance, id: str, lease: Hold) -> bool:
        """Move `lease.amount` (nano-USD) from the account's available credit to the lease `id`, in one update.

        Create the lease if `seen` does not have it. Return false, with nothing changed, if the account does not allow
        it, has other budgets than `seen`, or the lease was created or released after `seen`. Not journaled.
        """
        allowing = _allowing(seen.organisation, lease, lease.amount, seen.budgets)
        if allowing is None:
            return False
        increase = {"available": -lease.amount, "version": 1, f"held_map.{id}.amount": lease.amount}
        _reduce_use(increase, lease, -lease.amount)
        fields = {name: getattr(lease, name) for name in ("month", "project", "key", "gateway", "at")}
        return await self._unjournaled.update_matching(
            {**allowing, f"held_map.{id}.amount": {"$exists": id in seen.held}},
            {"$inc": increase, "$set": {f"held_map.{id}.{name}": value for name, value in fields.items()}},
        )

    async def hold_from_leases(self, organisation: str, jobs: Mapping[str, Sequence[JobRecord]]) -> bool:
        """Turn parts of an organisation's credit leases into the holds of jobs, in one update, all or none.

        `jobs`: by lease id, the jobs to hold from that lease, which have the lease's project, key and month. Return
        false, with nothing changed, if a lease has too little left or a job is held already. Not journaled.
        """
        amounts = {f"held_map.{lease}.amount": sum(job.hold for job in its_jobs) for lease, its_jobs in jobs.items()}
        entries = {f"held_map.{job.id}": _entry(job) for its_jobs in jobs.values() for job in its_jobs}
        query = {
            "_id": organisation,
            **{field: {"$gte": amount} for field, amount in amounts.items()},
            **{field: {"$exists": False} for field in entries},
        }
        increase = {"version": 1, **{field: -amount for field, amount in amounts.items()}}
        return await self._unjournaled.update_matching(query, {"$inc": increase, "$set": entries})

    async def settle(self, charges: Sequence[Charge]) -> bool:
        """Turn the holds of one organisation's jobs into costs (nano-USD) and available credit, all or none.

        This is one journaled update. Return false, with nothing changed, if one of the jobs is not held.
        """
        held = {f"held_map.{charge.job.id}": {"$exists": True} for charge in charges}
        increase = {"available": 0, "spent": 0, "version": 1}
        for charge in charges:
            unused = charge.job.hold - charge.cost
            increase["available"] += unused
            increase["spent"] += charge.cost
            _reduce_use(increase, charge.job, unused)
        return await self._accounts.update_matching(
            {"_id": charges[0].job.organisation, **held}, {"$unset": dict.fromkeys(held, ""), "$inc": increase}
        )

    async def release(self, organisation: str, id: str, hold: Hold) -> bool:
        """Make the amount of the hold of a job, or of a credit lease, with this id available to the organisation again.

        Return false, with nothing changed, if the account has no such hold or lease with the amount of `hold`.
        """
        increase = {"available": hold.amount, "version": 1}
        _reduce_use(increase, hold, hold.amount)
        entry = f"held_map.{id}"
        return await self._accounts.update_matching(
            {"_id": organisation, f"{entry}.amount": hold.amount}, {"$unset": {entry: ""}, "$inc": increase}
        )

    async def drop_months(self, organisation: str, months: Collection[str]) -> None:
        """Delete an account's record of budget use in past months (e.g. `2026-08`) whose jobs were settled long ago."""
        await self._accounts.update_one({"_id": organisation}, {"$unset": {f"used.{each}": "" for each in months}})

    async def set_open(self, organisation: str, *, to: bool) -> bool:
        """Open an organisation's account (`to` true) or close it; return false if the organisation has no account.

        A closed account refuses new holds; open holds are settled.
        """
        return await self._accounts.update_matching({"_id": organisation}, {"$set": {"open": to}})


def _allowing(
    organisation: str, of: JobRecord | Hold, amount: int, budgets: Mapping[str, int]
) -> dict[str, Any] | None:
    """Return the query for an account that can hold `amount` nano-USD, or `None` if its budgets are too small."""
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
    _reduce_use(increase, one, -total)
    return {"$inc": increase, "$set": {f"held_map.{job.id}": _entry(job) for job in jobs}}


def _entry(job: JobRecord) -> dict[str, Any]:
    return {"amount": job.hold, "month": job.month, "project": job.project, "key": job.key}


def _reduce_use(increase: dict[str, int], of: JobRecord | Hold, amount: int) -> None:
    """Add to an update that `amount` less is used of the budgets that `of` counts against."""
    for name in of.budgets:
        field = f"used.{of.month}.{name}"
        increase[field] = increase.get(field, 0) - amount


def from_document(document: Mapping[str, Any]) -> Balance:
    """Convert a MongoDB document of the collection `accounts` to an organisation's account."""
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
        withdrawn=document.get("withdrawn", 0),
    )
