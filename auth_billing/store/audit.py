"""The books in MongoDB as an auditor reads them: in pages, and whatever is in them.

The other stores trust what they have written; here a document may be anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import pymongo

from auth_billing.audit.audit_records import JobsRead, LedgerRow, LedgerSums
from auth_billing.money.books import Balance, JobRecord, JobState
from auth_billing.money.ledger import SETTLE
from auth_billing.store import balances, jobs, ledger, usage
from auth_billing.store.connection import StoreConnection, translated_errors
from router.messages import Usage

READ_SECONDS = 60.0
"""What a read gets: a sum over a large ledger takes longer than what a request may wait for."""

RecordT = TypeVar("RecordT")


class MongoAuditStore:
    """Implements `audit_records.AuditStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._accounts = connection.durable(balances.COLLECTION)
        self._jobs = connection.durable(jobs.COLLECTION)
        self._ledger = connection.durable(ledger.COLLECTION)
        self._usage = connection.durable(usage.COLLECTION)

    async def accounts(self, after: str, limit: int) -> Sequence[str]:
        """Ids of accounts, in order, after one."""
        return await _ids(self._accounts, after, limit)

    async def job_ids(self, after: str, limit: int) -> Sequence[str]:
        """Ids of jobs, in order, after one."""
        return await _ids(self._jobs, after, limit)

    async def rows(self, after: str, limit: int) -> Sequence[LedgerRow]:
        """Rows of the ledger, in the order of their ids, after one."""
        with translated_errors(), pymongo.timeout(READ_SECONDS):
            page = self._ledger.find({"_id": {"$gt": after}}).sort("_id", 1).limit(limit)
            return [_row(each) async for each in page]

    async def balance(self, organisation: str) -> Balance | str | None:
        """An account; why it can't be read; `None` if there is none."""
        with translated_errors(), pymongo.timeout(READ_SECONDS):
            document = await self._accounts.find_one({"_id": organisation})
        return None if document is None else _read(balances.from_document, document)

    async def read_jobs(self, jobs: Collection[str]) -> JobsRead:
        """Those of the jobs that are there."""
        return _sorted_out(await _all(self._jobs, {"_id": {"$in": list(jobs)}}))

    async def settlements(self, jobs: Collection[str]) -> Mapping[str, LedgerRow]:
        """The rows of the ledger that settle these jobs, by job."""
        ids = {f"{job}:settle:0": job for job in jobs}
        return {ids[each["_id"]]: _row(each) for each in await _all(self._ledger, {"_id": {"$in": list(ids)}})}

    async def worked(self, jobs: Collection[str]) -> Mapping[str, Sequence[Usage]]:
        """What workers say of these jobs, an entry an attempt."""
        found: dict[str, list[Usage]] = defaultdict(list)
        for document in await _all(self._usage, {"job": {"$in": list(jobs)}}):
            said = _usage(document)
            if said is not None:
                found[document["job"]].append(said)
        return found

    async def settling(self, organisation: str) -> Sequence[JobRecord]:
        """An organisation's jobs whose cost is written and that are not finished."""
        query = {"organisation": organisation, "state": JobState.SETTLING.value}
        return list(_sorted_out(await _all(self._jobs, query)).jobs.values())

    async def sums(self, organisation: str, credits: int) -> LedgerSums:
        """What the ledger has of an organisation; of credit the rows up to number `credits`."""
        settled, _ = await self._sum({"organisation": organisation, "kind": SETTLE})
        credited, count = await self._sum({"organisation": organisation, "number": {"$gt": 0, "$lte": credits}})
        with translated_errors(), pymongo.timeout(READ_SECONDS):
            waiting = await self._ledger.find_one(
                {"organisation": organisation, "number": {"$gt": credits}}, sort=[("number", 1)]
            )
        return LedgerSums(settled, count, credited, None if waiting is None else waiting["at"])

    async def _sum(self, query: dict[str, Any]) -> tuple[int, int]:
        """The sum of the amounts of some rows, and how many they are."""
        group = {"$group": {"_id": None, "amount": {"$sum": "$amount"}, "rows": {"$sum": 1}}}
        with translated_errors(), pymongo.timeout(READ_SECONDS):
            found = [each async for each in self._ledger.aggregate([{"$match": query}, group])]
        return (found[0]["amount"], found[0]["rows"]) if found else (0, 0)


async def _ids(collection: Any, after: str, limit: int) -> list[str]:
    with translated_errors(), pymongo.timeout(READ_SECONDS):
        page = collection.find({"_id": {"$gt": after}}, {"_id": True}).sort("_id", 1).limit(limit)
        return [each["_id"] async for each in page]


async def _all(collection: Any, query: dict[str, Any]) -> list[dict[str, Any]]:
    with translated_errors(), pymongo.timeout(READ_SECONDS):
        return [each async for each in collection.find(query)]


def _sorted_out(documents: Sequence[dict[str, Any]]) -> JobsRead:
    read = {each["_id"]: _read(jobs.job_from_document, each) for each in documents}
    return JobsRead(
        {job: record for job, record in read.items() if isinstance(record, JobRecord)},
        {job: reason for job, reason in read.items() if isinstance(reason, str)},
    )


def _read(parse: Callable[[Mapping[str, Any]], RecordT], document: Mapping[str, Any]) -> RecordT | str:
    """The record of a document, or why there is none."""
    try:
        return parse(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _row(document: Mapping[str, Any]) -> LedgerRow:
    return LedgerRow(
        id=document["_id"],
        organisation=str(document.get("organisation")),
        **{
            name: document.get(name) for name in ("debit", "credit", "amount", "kind", "job", "price_version", "number")
        },
        usage=_usage(document),
    )


def _usage(document: Mapping[str, Any]) -> Usage | None:
    try:
        return Usage(**document["usage"])
    except (KeyError, TypeError):
        return None
