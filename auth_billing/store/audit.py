"""MongoDB reads for the audit: pages of accounts, jobs and ledger entries, each document validated.

Other stores expect the documents that they wrote; here a document may be malformed, which is reported, not raised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import pymongo

from auth_billing.audit.audit_records import JobsRead, LedgerSums, RawLedgerEntry
from auth_billing.money.billing_records import Balance, JobRecord, JobState
from auth_billing.money.ledger import SETTLE
from auth_billing.store import balances, jobs, ledger, usage
from auth_billing.store.connection import StoreConnection
from auth_billing.store.usage_documents import parts_from_documents, usage_from_document
from router.messages import Usage, UsagePart
from router.usage_arithmetic import JobUsage

READ_TIMEOUT = 60.0
"""Seconds for one read: the sum of a large ledger takes longer than a request may."""

RecordT = TypeVar("RecordT")


class MongoAuditStore:
    """MongoDB implementation of `audit_records.AuditStore`. Read-only; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._accounts = connection.durable(balances.COLLECTION)
        self._jobs = connection.durable(jobs.COLLECTION)
        self._ledger = connection.durable(ledger.COLLECTION)
        self._usage = connection.durable(usage.COLLECTION)

    async def accounts(self, after: str, limit: int) -> Sequence[str]:
        """Return a page of all account ids (organisation ids), in order: up to `limit` that sort after `after`."""
        return await _ids(self._accounts, after, limit)

    async def job_ids(self, after: str, limit: int) -> Sequence[str]:
        """Return a page of the ids of all stored jobs: up to `limit` that sort after `after`, in order."""
        return await _ids(self._jobs, after, limit)

    async def rows(self, after: str, limit: int) -> Sequence[RawLedgerEntry]:
        """Return a page of the ledger's entries as stored: up to `limit` whose ids sort after `after`, in order."""
        with pymongo.timeout(READ_TIMEOUT):
            page = self._ledger.find({"_id": {"$gt": after}}).sort("_id", 1).limit(limit)
            return [_row(each) async for each in page]

    async def balance(self, organisation: str) -> Balance | str | None:
        """Return an organisation's account; a text with the reason if it is malformed, `None` if there is none."""
        with pymongo.timeout(READ_TIMEOUT):
            document = await self._accounts.find_one({"_id": organisation})
        return None if document is None else _read(balances.from_document, document)

    async def read_jobs(self, jobs: Collection[str]) -> JobsRead:
        """Read stored jobs by id: return the valid ones, and the reason for each malformed one; omit unknown ids."""
        return _sorted_out(await _all(self._jobs, {"_id": {"$in": list(jobs)}}))

    async def settlements(self, jobs: Collection[str]) -> Mapping[str, RawLedgerEntry]:
        """Return the ledger entry that settles each of these jobs, by job id; a job without an entry is left out."""
        ids = {f"{job}:settle:0": job for job in jobs}
        return {ids[each["_id"]]: _row(each) for each in await _all(self._ledger, {"_id": {"$in": list(ids)}})}

    async def worked(self, jobs: Collection[str]) -> Mapping[str, Mapping[str, JobUsage]]:
        """Return the usage records of these jobs, which workers sent: the usage by job id and attempt id."""
        found: dict[str, dict[str, JobUsage]] = defaultdict(dict)
        for document in await _all(self._usage, {"job": {"$in": list(jobs)}}):
            used = _read(usage.used_from_document, document)
            if isinstance(used, JobUsage):
                found[document["job"]][str(document.get("attempt"))] = used
        return found

    async def settling(self, organisation: str) -> Sequence[JobRecord]:
        """Return an organisation's jobs in the state `SETTLING`: the cost is written, the settlement is unfinished."""
        query = {"organisation": organisation, "state": JobState.SETTLING.value}
        return list(_sorted_out(await _all(self._jobs, query)).jobs.values())

    async def sums(self, organisation: str, credits: int) -> LedgerSums:
        """Return an organisation's ledger sums (nano-USD), of credit entries only those with numbers 1 to `credits`."""
        settled, _ = await self._sum({"organisation": organisation, "kind": SETTLE})
        credited, count = await self._sum({"organisation": organisation, "number": {"$gt": 0, "$lte": credits}})
        with pymongo.timeout(READ_TIMEOUT):
            waiting = await self._ledger.find_one(
                {"organisation": organisation, "number": {"$gt": credits}}, sort=[("number", 1)]
            )
        withdrawn, _ = await self._sum({"organisation": organisation, "withdrawal": {"$gt": 0}})
        return LedgerSums(settled, count, credited, None if waiting is None else waiting["at"], withdrawn)

    async def _sum(self, query: dict[str, Any]) -> tuple[int, int]:
        """Return the sum of the amounts of the matching entries, and their number."""
        group = {"$group": {"_id": None, "amount": {"$sum": "$amount"}, "rows": {"$sum": 1}}}
        with pymongo.timeout(READ_TIMEOUT):
            found = [each async for each in self._ledger.aggregate([{"$match": query}, group])]
        return (found[0]["amount"], found[0]["rows"]) if found else (0, 0)


async def _ids(collection: Any, after: str, limit: int) -> list[str]:
    with pymongo.timeout(READ_TIMEOUT):
        page = collection.find({"_id": {"$gt": after}}, {"_id": True}).sort("_id", 1).limit(limit)
        return [each["_id"] async for each in page]


async def _all(collection: Any, query: dict[str, Any]) -> list[dict[str, Any]]:
    with pymongo.timeout(READ_TIMEOUT):
        return [each async for each in collection.find(query)]


def _sorted_out(documents: Sequence[dict[str, Any]]) -> JobsRead:
    read = {each["_id"]: _read(jobs.job_from_document, each) for each in documents}
    return JobsRead(
        {job: record for job, record in read.items() if isinstance(record, JobRecord)},
        {job: reason for job, reason in read.items() if isinstance(reason, str)},
    )


def _read(parse: Callable[[Mapping[str, Any]], RecordT], document: Mapping[str, Any]) -> RecordT | str:
    """Return the record of a document, or why the document is malformed."""
    try:
        return parse(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _row(document: Mapping[str, Any]) -> RawLedgerEntry:
    return RawLedgerEntry(
        id=document["_id"],
        organisation=str(document.get("organisation")),
        **{
            name: document.get(name) for name in ("debit", "credit", "amount", "kind", "job", "price_version", "number")
        },
        usage=_usage(document),
        parts=_parts(document),
    )


def _usage(document: Mapping[str, Any]) -> Usage | None:
    try:
        return usage_from_document(document["usage"])
    except (KeyError, TypeError):
        return None


def _parts(document: Mapping[str, Any]) -> tuple[UsagePart, ...]:
    try:
        return parts_from_documents(document.get("parts", ()))
    except (KeyError, TypeError):
        return ()
