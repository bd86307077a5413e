"""Keeps runs of background responses in MongoDB, in the documents of their responses.

    responses {..., run: {runner, lease, job, key_id, user, takeovers, cancelled, search},
                    answer: {usage: {job: {...}}}}

`lease` is 0 once the response has ended; `answer.usage` are the receipts of its jobs, which settle them if the gateway
dies before publishing (`auth_billing/store/idempotency.py`). A group of the log is a document whose parent is the
response, so it is erased with it; its bytes are counted in the size of the ended response.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from auth_billing.store.connection import StoreConnection
from auth_billing.store.usage_documents import stated
from router.messages import Receipt
from stored_objects.project_documents.records import ProjectDocument, ProjectOwner
from stored_objects.project_documents.response_runs import LogGroup, ResponseRun
from stored_objects.store.documents import RESPONSES, document_of, owned_by, record_of

ENDED = 0.0
"""Lease of a run whose response has ended."""
RELEASED = 1.0
"""Lease of a run that any process may claim."""
RENEWAL_INTERVAL = 2.5
"""Seconds by which a renewal has to extend a lease to be written."""


class MongoResponseRuns:
    """MongoDB implementation of `responses.runs.ResponseRuns`. Writes are journaled."""

    def __init__(self, connection: StoreConnection) -> None:
        self._responses = connection.durable(RESPONSES)

    async def begin(self, document: ProjectDocument, run: ResponseRun) -> bool:
        """Insert a new response with its run into MongoDB; return false if its id is taken by another run."""
        if await self._responses.insert_if_absent({**document_of(document), "run": asdict(run)}):
            return True
        own = {"_id": document.id, "run.runner": run.runner, "run.job": run.job}  # by a write that was repeated
        return await self._responses.find_one(own, {"_id": 1}) is not None

    async def append(self, groups: Sequence[LogGroup]) -> list[bool]:
        """Insert groups into MongoDB by one write; return for each whether its number was free."""
        return await self._responses.insert_new([_group(each) for each in groups])

    async def log(self, owner: ProjectOwner, response: str, start: int) -> list[bytes]:
        """Read the groups of a response of `owner` from number `start` on from MongoDB, in order."""
        # With the owner in the query the embedded store does not use the index of parents, but scans all logs.
        query = {"parent": response, "_id": {"$gte": _group_id(response, start)}}
        found = self._responses.find(query, {"content": 1, **dict.fromkeys(owned_by(owner), 1)}).sort("_id", 1)
        owned = owned_by(owner).items()
        return [bytes(each["content"]) for each in await found.to_list(None) if owned <= each.items()]

    async def renew(self, runner: str, responses: Collection[str], lease: float) -> dict[str, bool]:
        """Extend leases in MongoDB; return for each response that `runner` still holds whether it is cancelled."""
        held = {"_id": {"$in": list(responses)}, "run.runner": runner, "run.lease": {"$gt": ENDED}}
        old = {**held, "run.lease": {"$gt": ENDED, "$lt": lease - RENEWAL_INTERVAL}}
        await self._responses.update_many(old, {"$set": {"run.lease": lease}})
        found = self._responses.find(held, {"run.cancelled": 1})
        return {each["_id"]: bool(each["run"]["cancelled"]) async for each in found}

    async def cancel(self, owner: ProjectOwner, response: str) -> bool:
        """Mark a response of `owner` that is being written as cancelled in MongoDB; return false if there is none."""
        running = {"_id": response, **owned_by(owner), "run.lease": {"$gt": ENDED}}
        return await self._responses.update_matching(running, {"$set": {"run.cancelled": True}})

    async def is_running(self, owner: ProjectOwner, response: str) -> bool | None:
        """Read from MongoDB whether a response of `owner` is being written; `None` if it never had a run."""
        found = await self._responses.find_one({"_id": response, **owned_by(owner)}, {"run.lease": 1})
        return None if found is None or "run" not in found else found["run"]["lease"] > ENDED

    async def abandoned(self, now: float, limit: int) -> list[str]:
        """Read from MongoDB the ids of up to `limit` responses whose run's lease ended before `now`."""
        found = self._responses.find({"run.lease": {"$gt": ENDED, "$lt": now}}, {"_id": 1}).limit(limit)
        return [each["_id"] for each in await found.to_list(limit)]

    async def claim(
        self, response: str, runner: str, lease: float, now: float
    ) -> tuple[ProjectDocument, ResponseRun] | None:
        """Give `runner` an expired run in one conditional update; `None` if another process was faster."""
        expired = {"_id": response, "run.lease": {"$gt": ENDED, "$lt": now}}
        change = {"$set": {"run.runner": runner, "run.lease": lease}, "$inc": {"run.takeovers": 1}}
        if not await self._responses.update_matching(expired, change):
            return None
        found = await self._responses.find_one({"_id": response, "run.runner": runner})
        if found is None:
            return None
        run = found["run"]
        contents = {name: bytes(run.get(name, b"")) for name in ("job", "search")}
        return record_of(found), ResponseRun(**{**run, **contents})

    async def release(self, response: str, runner: str) -> None:
        """End the lease that `runner` holds in MongoDB, so that another process claims the run at once."""
        held = {"_id": response, "run.runner": runner, "run.lease": {"$gt": ENDED}}
        await self._responses.update_matching(held, {"$set": {"run.lease": RELEASED}})

    async def finish(self, response: str, runner: str, content: bytes, size: int, receipts: Sequence[Receipt]) -> bool:
        """Store the ended response with its receipts in one conditional update; return false if the run is lost."""
        ended = {
            "run.lease": ENDED,
            "content": content,
            "size": size,
            "answer": {"usage": {each.job: stated(each) for each in receipts}},
        }
        held = {"_id": response, "run.runner": runner, "run.lease": {"$gt": ENDED}}
        return await self._responses.update_matching(held, {"$set": ended, "$unset": {"run.job": "", "run.search": ""}})


def _group_id(response: str, number: int) -> str:
    return f"{response}/{number:08d}"


def _group(group: LogGroup) -> dict[str, Any]:
    record = ProjectDocument(
        _group_id(group.response, group.number),
        group.owner.organisation,
        group.owner.project,
        created=group.created,
        expires=group.expires,
        content=group.content,
        parent=group.response,
    )
    return {**document_of(record), "size": 0}
