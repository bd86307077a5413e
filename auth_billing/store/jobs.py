"""Jobs in MongoDB: who asked for what, what was held, what it used and what it cost. What usage reports are made of.

    jobs {
        _id: job,
        organisation, project, key, user: str,    project, key (its id), user: "" if there is none
        model, service_class, gateway: str,
        created, deadline: float,                  Unix seconds
        month: "2026-11",                          whose budgets it counts against
        price: {version, input, cached_input, output: int},    nano-USD per token, as accepted
        hold: int,                                 nano-USD
        state: "held" | "settling" | "settled",
        checkpoint: {prompt_tokens, completion_tokens, cached_tokens: int} | absent,
        from "settling" on, written once:
        cost: int,                                 nano-USD, at most `hold`
        final: {prompt_tokens, completion_tokens, cached_tokens: int, outcome, source: str, at: float}
    }

`final.source` is `receipt`, `void` (never queued) or `swept` (`books.Source`); `final.outcome` is `finished`, `failed`
or `cancelled`; `final.at` is when it was settled (Unix seconds).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pymongo
from pymongo.errors import DuplicateKeyError

from auth_billing.money.books import Charge, Final, JobRecord, JobState, Source
from auth_billing.prices.pricing import Price
from auth_billing.store.connection import BATCH_SECONDS, StoreConnection, translated_errors
from auth_billing.store.insertion import insert_new
from router.messages import Outcome, ServiceClass, Usage

COLLECTION = "jobs"


class MongoJobStore:
    """Implements `books.JobStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._jobs = connection.durable(COLLECTION)
        self._passing = connection.passing(COLLECTION)

    async def insert(self, jobs: Sequence[JobRecord]) -> None:
        """Store new jobs; those that are there already stay as they are."""
        documents = [_to_document(job) for job in jobs]
        with translated_errors():
            if len(documents) == 1:  # two thirds of the time that `insert_many` takes on the embedded store
                with suppress(DuplicateKeyError):
                    await self._jobs.insert_one(documents[0])
            else:
                await insert_new(self._jobs, documents)

    async def find(self, jobs: Collection[str]) -> Mapping[str, JobRecord]:
        """Those of the jobs that are known, by id."""
        with translated_errors():
            found = [job_from_document(each) async for each in self._jobs.find({"_id": {"$in": list(jobs)}})]
        return {job.id: job for job in found}

    async def checkpoint(self, usage: Mapping[str, Usage]) -> None:
        """Note what clients have got, of jobs that are `HELD`; a checkpoint never goes back."""
        if not usage:
            return
        counted = [_counts(each) for each in usage.values()]
        highest = {name: _of_each(usage, [each[name] for each in counted]) for name in counted[0]}
        checkpoint = {name: {"$max": [f"$checkpoint.{name}", count]} for name, count in highest.items()}
        with translated_errors(), pymongo.timeout(BATCH_SECONDS):
            await self._passing.update_many(_held(usage), [{"$set": {"checkpoint": checkpoint}}])

    async def charge(self, charges: Sequence[Charge]) -> bool:
        """`HELD` to `SETTLING`, with cost and final written; other states stay. Whether all were `HELD`."""
        jobs = [charge.job.id for charge in charges]
        charged = {
            "state": JobState.SETTLING.value,
            "cost": _of_each(jobs, [charge.cost for charge in charges]),
            "final": _of_each(jobs, [_final_to_document(charge.final) for charge in charges]),
        }
        with translated_errors(), pymongo.timeout(BATCH_SECONDS):
            result = await self._jobs.update_many(_held(jobs), [{"$set": charged}])
        return bool(result.modified_count == len(charges))

    async def finish(self, jobs: Collection[str]) -> None:
        """`SETTLING` to `SETTLED`."""
        with translated_errors(), pymongo.timeout(BATCH_SECONDS):
            await self._jobs.update_many(
                {"_id": {"$in": list(jobs)}, "state": JobState.SETTLING.value},
                {"$set": {"state": JobState.SETTLED.value}},
            )

    async def settling_since(self, before: float, limit: int) -> Sequence[JobRecord]:
        """Jobs that have been `SETTLING` since a time before `before`, and should be done by now."""
        return await self._some({"state": JobState.SETTLING.value, "final.at": {"$lt": before}}, limit)

    async def held(self, limit: int) -> Sequence[JobRecord]:
        """Jobs that are `HELD`, those of the earliest deadlines first."""
        return await self._some({"state": JobState.HELD.value}, limit)

    async def held_by(self, gateways: Collection[str], limit: int) -> Sequence[JobRecord]:
        """Jobs of these gateways that are `HELD`."""
        return await self._some({"state": JobState.HELD.value, "gateway": {"$in": list(gateways)}}, limit)

    async def gateways(self) -> Collection[str]:
        """The gateways of jobs that are `HELD`."""
        with translated_errors():
            return set(await self._jobs.distinct("gateway", {"state": JobState.HELD.value}))

    async def _some(self, query: dict[str, Any], limit: int) -> Sequence[JobRecord]:
        with translated_errors(), pymongo.timeout(BATCH_SECONDS):
            return [job_from_document(each) async for each in self._jobs.find(query).sort("deadline", 1).limit(limit)]


def _held(jobs: Collection[str]) -> dict[str, Any]:
    return {"_id": {"$in": list(jobs)}, "state": JobState.HELD.value}


def _of_each(jobs: Collection[str], values: Sequence[Any]) -> dict[str, Any]:
    """The value of the document's own job, as an expression: one statement for all costs a third of one for each.

    That is what it costs the embedded store; one journal entry for all does the rest.
    """
    return {"$arrayElemAt": [{"$literal": list(values)}, {"$indexOfArray": [{"$literal": list(jobs)}, "$_id"]}]}


def _to_document(job: JobRecord) -> dict[str, Any]:
    return {
        "_id": job.id,
        **{name: getattr(job, name) for name in ("organisation", "project", "key", "user", "model")},
        "service_class": job.service_class.value,
        **{name: getattr(job, name) for name in ("gateway", "created", "deadline", "month")},
        "price": dict(vars(job.price)),
        "hold": job.hold,
        "state": job.state.value,
    }


def job_from_document(document: Mapping[str, Any]) -> JobRecord:
    """A job from what the collection has of it."""
    checkpoint, final = document.get("checkpoint"), document.get("final")
    return JobRecord(
        id=document["_id"],
        **{name: document[name] for name in ("organisation", "project", "key", "user", "model", "gateway")},
        service_class=ServiceClass(document["service_class"]),
        **{name: document[name] for name in ("created", "deadline", "month", "hold")},
        price=Price(**document["price"]),
        state=JobState(document["state"]),
        checkpoint=None if checkpoint is None else Usage(**checkpoint),
        cost=document.get("cost"),
        final=None if final is None else _final_from_document(final),
    )


def _counts(usage: Usage) -> dict[str, int]:
    return {name: getattr(usage, name) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")}


def _final_to_document(final: Final) -> dict[str, Any]:
    said = {"outcome": final.outcome.value, "source": final.source.value, "at": final.at}
    return {**_counts(final.usage), **said}


def _final_from_document(document: Mapping[str, Any]) -> Final:
    counts = {name: document[name] for name in ("prompt_tokens", "completion_tokens", "cached_tokens")}
    return Final(Usage(**counts), Outcome(document["outcome"]), Source(document["source"]), document["at"])
