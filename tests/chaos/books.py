"""Read the books of a run from the store's documents, without the code that wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auth_billing.store.connection import StoreConnection
from tests.chaos.evidence import Account, Job, Row
from tests.chaos.history import Told

NOTHING = {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}


async def read_jobs(connection: StoreConnection) -> dict[str, Job]:
    """All jobs, by id."""
    return {document["_id"]: _job(document) async for document in connection.durable("jobs").find()}


async def read_rows(connection: StoreConnection) -> list[Row]:
    """The whole ledger."""
    return [
        Row(row["_id"], row.get("job", ""), row["kind"], row["debit"], row["credit"], row["amount"])
        async for row in connection.durable("ledger").find()
    ]


async def read_accounts(connection: StoreConnection) -> list[Account]:
    """All accounts."""
    return [
        Account(each["_id"], each["available"], each["spent"], _held_for_jobs(each["held_map"]))
        async for each in connection.durable("accounts").find()
        if "held_map" in each
    ]


async def read_job_of_attempt(connection: StoreConnection) -> dict[str, str]:
    """Which job each attempt was at, by the usage records of workers."""
    return {each["attempt"]: each["job"] async for each in connection.durable("usage").find()}


async def at_rest(connection: StoreConnection) -> bool:
    """Whether nothing is held and every job is settled."""
    unsettled = await connection.durable("jobs").count_documents({"state": {"$ne": "settled"}})
    return not unsettled and not any(account.held for account in await read_accounts(connection))


def _calls(final: Mapping[str, Any]) -> int:
    return sum(part.get("units", {}).get("call", 0) for part in final.get("parts", ()))


def _held_for_jobs(held: Mapping[str, Any]) -> dict[str, int]:
    """Without the credit that a gateway has in hand for jobs to come: that is no job's."""
    return {job: hold["amount"] for job, hold in held.items() if not hold.get("gateway")}


def _job(document: Mapping[str, Any]) -> Job:
    final: Mapping[str, Any] = document.get("final") or NOTHING | {"source": ""}
    price = document["price"]
    return Job(
        id=document["_id"],
        organisation=document["organisation"],
        state=document["state"],
        source=final["source"],
        billed=Told(final["prompt_tokens"], final["completion_tokens"], final["cached_tokens"], _calls(final)),
        cost=document.get("cost") or 0,
        hold=document["hold"],
        price=(price["input"], price["cached_input"], price["output"]),
    )
