"""MongoDB store of jobs as billing sees them: owner, hold, settlement state, usage and cost. Usage reports read them.

    jobs {
        _id: job,
        organisation, project, key, user: str,    ids; project, key, user: "" if there is none
        model, service_class, gateway: str,
        created, deadline: float,                  Unix seconds
        month: "2026-11",                          the month whose budgets it counts against
        price: {version, input, cached_input, output: int, units: {<unit>: int} | absent},
                                                   nano-USD per token and unit, at acceptance
        part_prices: [{model, price}] | absent,    of the models that the job's steps may use
        hold: int,                                 nano-USD
        state: "held" | "settling" | "settled",
        checkpoint: {prompt_tokens, completion_tokens, cached_tokens: int, units | absent, parts: [part], extent: int}
            | absent,                              `parts`, `extent`: absent in jobs without steps and units
        idempotency: str | absent,                 id of the record of the request's idempotency key
        from "settling" on, written once:
        cost: int,                                 nano-USD, at most `hold`
        final: {
            prompt_tokens, completion_tokens, cached_tokens: int, outcome, source: str, at: float,
            units | absent, unit_count, unit_cost: int | absent,
            parts: [{<part>, cost, input_cost, cached_cost, output_cost, unit_count, unit_cost: int}] | absent,
            part_cost: int | absent                the sum of the parts' `cost`, which is contained in the job's
            reported: {<reported>} | absent        what the worker's replies reported, for the audit
        }
    }

`usage_documents.py` describes `units`, parts and `reported`. `final.source` is `receipt`, `void` (never queued) or
`swept` (`billing_records.SettlementSource`); `final.outcome` is `finished`, `failed` or `cancelled`; `final.at` is the
time of the settlement (Unix seconds).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pymongo

from auth_billing.money.billing_records import Charge, FinalUsage, JobRecord, JobState, SettlementSource
from auth_billing.prices.pricing import Price
from auth_billing.store.connection import BATCH_TIMEOUT, StoreConnection
from auth_billing.store.prices import rate_to_document
from auth_billing.store.usage_documents import (
    parts_from_documents,
    parts_to_documents,
    reported_from_document,
    reported_to_document,
    usage_from_document,
    usage_to_document,
)
from router.messages import Outcome, ServiceClass, Usage
from router.usage_arithmetic import JobUsage

COLLECTION = "jobs"


class MongoJobStore:
    """MongoDB implementation of `billing_records.JobStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._jobs = connection.durable(COLLECTION)
        self._unjournaled = connection.unjournaled(COLLECTION)

    async def insert(self, jobs: Sequence[JobRecord]) -> None:
        """Store the billing records of new jobs durably; a job that is stored already is not changed."""
        await self._jobs.insert_new([_to_document(job) for job in jobs])

    async def find(self, jobs: Collection[str]) -> Mapping[str, JobRecord]:
        """Return the billing records of the jobs with these ids, by id; unknown ids are left out."""
        found = [job_from_document(each) async for each in self._jobs.find({"_id": {"$in": list(jobs)}})]
        return {job.id: job for job in found}

    async def checkpoint(self, usage: Mapping[str, JobUsage]) -> None:
        """Raise the checkpoints of `HELD` jobs to the usage delivered so far, by job id; none decreases.

        The write is not journaled.
        """
        if not usage:
            return
        checkpoint = _higher_tokens(usage)
        if any(each.parts or each.answer.units for each in usage.values()):
            checkpoint |= _higher_units_and_parts(usage)
        with pymongo.timeout(BATCH_TIMEOUT):
            await self._unjournaled.update_many(
                _held(usage), [{"$set": {f"checkpoint.{name}": value for name, value in checkpoint.items()}}]
            )

    async def charge(self, charges: Sequence[Charge]) -> bool:
        """Move jobs from `HELD` to `SETTLING` with their cost, each atomically; return whether all were `HELD`.

        A job in a later state is not changed: the first charge is final.
        """
        jobs = [charge.job.id for charge in charges]
        charged = {
            "state": JobState.SETTLING.value,
            "cost": _by_job(jobs, [charge.cost for charge in charges]),
            "final": _by_job(jobs, [_final_to_document(charge) for charge in charges]),
        }
        with pymongo.timeout(BATCH_TIMEOUT):
            result = await self._jobs.update_many(_held(jobs), [{"$set": charged}])
        return bool(result.modified_count == len(charges))

    async def finish(self, jobs: Collection[str]) -> None:
        """Mark the settlement of these jobs, by id, as finished: `SETTLING` becomes `SETTLED`, other states stay."""
        with pymongo.timeout(BATCH_TIMEOUT):
            await self._jobs.update_many(
                {"_id": {"$in": list(jobs)}, "state": JobState.SETTLING.value},
                {"$set": {"state": JobState.SETTLED.value}},
            )

    async def settling_since(self, before: float, limit: int) -> Sequence[JobRecord]:
        """Return up to `limit` jobs that are `SETTLING` (settlement unfinished) since before `before`, Unix seconds."""
        return await self._some({"state": JobState.SETTLING.value, "final.at": {"$lt": before}}, limit)

    async def held(self, limit: int) -> Sequence[JobRecord]:
        """Return up to `limit` `HELD` jobs (accepted, unsettled) of all gateways, earliest deadline first."""
        return await self._some({"state": JobState.HELD.value}, limit)

    async def held_by_gateways(self, gateways: Collection[str], limit: int) -> Sequence[JobRecord]:
        """Return up to `limit` `HELD` jobs (accepted, unsettled) of these gateways, earliest deadline first."""
        return await self._some({"state": JobState.HELD.value, "gateway": {"$in": list(gateways)}}, limit)

    async def gateways(self) -> Collection[str]:
        """Return the ids of the gateways that have jobs in the state `HELD` (accepted, not settled)."""
        return set(await self._jobs.distinct("gateway", {"state": JobState.HELD.value}))

    async def _some(self, query: dict[str, Any], limit: int) -> Sequence[JobRecord]:
        with pymongo.timeout(BATCH_TIMEOUT):
            return [job_from_document(each) async for each in self._jobs.find(query).sort("deadline", 1).limit(limit)]


def _held(jobs: Collection[str]) -> dict[str, Any]:
    return {"_id": {"$in": list(jobs)}, "state": JobState.HELD.value}


def _by_job(jobs: Collection[str], values: Sequence[Any]) -> dict[str, Any]:
    """Return an expression for the value of the document's job, so that one statement updates all jobs.

    On the embedded store that takes a third of the time of one statement per job, with one journal entry.
    """
    return {"$arrayElemAt": [{"$literal": list(values)}, {"$indexOfArray": [{"$literal": list(jobs)}, "$_id"]}]}


def _higher_tokens(usage: Mapping[str, JobUsage]) -> dict[str, Any]:
    """Return expressions for the token counts of checkpoints, the larger of each."""
    return {
        name: {"$max": [f"$checkpoint.{name}", _by_job(usage, [getattr(each.answer, name) for each in usage.values()])]}
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens")
    }


def _higher_units_and_parts(usage: Mapping[str, JobUsage]) -> dict[str, Any]:
    """Return expressions for the units and parts of checkpoints, which are replaced together if they have grown.

    A gateway only adds to them, so their total, the `extent`, says which of two checkpoints is the later one.
    """
    extents = _by_job(usage, [_extent(each) for each in usage.values()])
    grown = {"$gt": [extents, {"$ifNull": ["$checkpoint.extent", 0]}]}
    values: dict[str, tuple[Any, list[Any]]] = {
        "units": ({}, [dict(each.answer.units) for each in usage.values()]),
        "parts": ([], [parts_to_documents(each.parts) for each in usage.values()]),
        "extent": (0, [_extent(each) for each in usage.values()]),
    }
    return {
        name: {"$cond": [grown, _by_job(usage, new), {"$ifNull": [f"$checkpoint.{name}", {"$literal": none}]}]}
        for name, (none, new) in values.items()
    }


def _extent(used: JobUsage) -> int:
    usages = [Usage(prompt_tokens=0, units=used.answer.units), *(part.usage for part in used.parts)]
    return sum(each.prompt_tokens + each.completion_tokens + sum(each.units.values()) for each in usages)


def _to_document(job: JobRecord) -> dict[str, Any]:
    prices = [{"model": model, "price": rate_to_document(price)} for model, price in job.part_prices.items()]
    return {
        "_id": job.id,
        **{name: getattr(job, name) for name in ("organisation", "project", "key", "user", "model")},
        "service_class": job.service_class.value,
        **{name: getattr(job, name) for name in ("gateway", "created", "deadline", "month")},
        "price": rate_to_document(job.price),
        **({"part_prices": prices} if prices else {}),
        "hold": job.hold,
        "state": job.state.value,
        **({"idempotency": job.idempotency} if job.idempotency else {}),
    }


def job_from_document(document: Mapping[str, Any]) -> JobRecord:
    """Convert a MongoDB document of the collection `jobs` to billing's record of the job."""
    checkpoint, final = document.get("checkpoint"), document.get("final")
    return JobRecord(
        id=document["_id"],
        **{name: document[name] for name in ("organisation", "project", "key", "user", "model", "gateway")},
        service_class=ServiceClass(document["service_class"]),
        **{name: document[name] for name in ("created", "deadline", "month", "hold")},
        price=Price(**document["price"]),
        state=JobState(document["state"]),
        part_prices={each["model"]: Price(**each["price"]) for each in document.get("part_prices", ())},
        checkpoint=None if checkpoint is None else _used(checkpoint),
        idempotency=document.get("idempotency", ""),
        cost=document.get("cost"),
        final=None if final is None else _final_from_document(final),
    )


def _used(document: Mapping[str, Any]) -> JobUsage:
    return JobUsage(usage_from_document(document), parts_from_documents(document.get("parts", ())))


def _final_to_document(charge: Charge) -> dict[str, Any]:
    final, price = charge.final, charge.job.price
    fields = {"outcome": final.outcome.value, "source": final.source.value, "at": final.at}
    document = {**usage_to_document(final.usage), **fields}
    if final.usage.units:
        document |= {"unit_count": sum(final.usage.units.values()), "unit_cost": price.unit_cost(final.usage)}
    if final.parts:
        document["parts"] = [
            {**part, "cost": cost, **_costs(charge.job.part_prices.get(used.model), used.usage)}
            for part, used, cost in zip(parts_to_documents(final.parts), final.parts, final.part_costs, strict=True)
        ]
        document["part_cost"] = sum(final.part_costs)
    if final.reported is not None:
        document["reported"] = reported_to_document(final.reported)
    return document


def _costs(price: Price | None, usage: Usage) -> dict[str, int]:
    """Return the cost of each kind of usage and the number of units, as reports add them up; free without a price."""
    price = price or Price(0, 0, 0, 0)
    return {
        "input_cost": (usage.prompt_tokens - usage.cached_tokens) * price.input,
        "cached_cost": usage.cached_tokens * price.cached_input,
        "output_cost": usage.completion_tokens * price.output,
        "unit_count": sum(usage.units.values()),
        "unit_cost": price.unit_cost(usage),
    }


def _final_from_document(document: Mapping[str, Any]) -> FinalUsage:
    parts = document.get("parts", ())
    return FinalUsage(
        usage_from_document(document),
        Outcome(document["outcome"]),
        SettlementSource(document["source"]),
        document["at"],
        parts=parts_from_documents(parts),
        part_costs=tuple(each["cost"] for each in parts),
        reported=reported_from_document(document.get("reported")),
    )
