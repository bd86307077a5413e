"""Checks the invariants of accounts, jobs and ledger on the raw documents, without the code under test."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from auth_billing.store.connection import StoreConnection


async def open_accounts(
    connection: StoreConnection, organisations: Iterable[str], available: int, **fields: Any
) -> None:
    """Insert accounts that have credit without a ledger entry for it."""
    plain = {"open": True, "available": available, "spent": 0, "held_map": {}, "budgets": {}, "used": {}, "version": 0}
    documents = [{"_id": organisation, **plain, **fields} for organisation in organisations]
    await connection.unjournaled("accounts").insert_many(documents)


async def check_invariants(connection: StoreConnection, paid_in: int) -> dict[str, dict[str, Any]]:
    """Check the invariants of an idle system (docs/design/reliability-contract.md#invariants); return the jobs by id.

    `paid_in` is the initial credit of each account in nano-USD; credit entries of the ledger are added to it.
    """
    jobs = {each["_id"]: each async for each in connection.durable("jobs").find()}
    rows = [each async for each in connection.durable("ledger").find()]
    accounts = {each["_id"]: each async for each in connection.durable("accounts").find()}
    settles: dict[str, dict[str, Any] | None] = {each["job"]: each for each in rows if each["kind"] == "settle"}
    credits: Counter[str] = Counter()
    for row in rows:
        assert row["amount"] > 0
        assert row["debit"] != row["credit"]
        if row["kind"] != "settle":
            credits[row["organisation"]] += row["amount"]
    assert len(settles) == sum(row["kind"] == "settle" for row in rows)  # I3
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for job in jobs.values():
        assert job["state"] == "settled", job
        assert 0 <= job["cost"] <= job["hold"]
        entry = settles.pop(job["_id"], None)
        assert (entry["amount"] if entry is not None else 0) == job["cost"]
        assert entry is None or entry["debit"] == f"customer:{job['organisation']}"
        for name in ("organisation", f"project:{job['project']}", f"key:{job['key']}"):
            used[job["organisation"]][name] += job["cost"]
    assert settles == {}
    for account in accounts.values():
        _check_account(account, used[account["_id"]], paid_in + credits[account["_id"]])
    return jobs


def _check_account(account: Mapping[str, Any], used: Mapping[str, int], paid_in: int) -> None:
    assert account["held_map"] == {}, account  # I5
    assert account["available"] >= 0  # I6
    assert account["spent"] == used.get("organisation", 0)
    assert account["available"] + account["spent"] == paid_in
    sums: Counter[str] = Counter()
    for month in account["used"].values():
        sums.update(month)
    assert dict(+sums) == {name: amount for name, amount in used.items() if amount}
