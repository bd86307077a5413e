"""MongoDB store of credit: ledger entries with a `number`, and how many of them each account has applied.

    ledger   {..., kind: "topup" | "promo" | "refund", number: int, reference: str, job: only of refunds}
    accounts {..., credits: int, credited: int}    number and sum of applied entries; absent: 0

A unique index on (organisation, number) makes an organisation's entries a sequence. An account moves from entry n to
n + 1 by one conditional update, which has no effect when repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auth_billing.money.credit import CreditEntry, CreditKind
from auth_billing.money.ledger import customer_account
from auth_billing.store.balances import COLLECTION as ACCOUNTS
from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document
from auth_billing.store.ledger import COLLECTION as LEDGER

SOURCES = {CreditKind.TOP_UP: "cash", CreditKind.PROMO: "promo", CreditKind.REFUND: "refunds"}
"""The ledger account that is debited, by the kind of credit."""


class MongoCreditStore:
    """MongoDB implementation of `money.credit.CreditStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._ledger = connection.durable(LEDGER)
        self._accounts = connection.durable(ACCOUNTS)
        self._balances = MongoBalanceStore(connection)

    async def applied(self, organisation: str) -> tuple[int, int]:
        """Return how many entries were applied to the account, and their sum in nano-USD; create a missing account."""
        account = await self._accounts.find_one({"_id": organisation}, {"credits": 1, "credited": 1})
        if account is None:
            await self._balances.create(organisation)
            return 0, 0
        return account.get("credits", 0), account.get("credited", 0)

    async def find(self, id: str) -> CreditEntry | None:
        """Return the credit entry with this id, or `None`."""
        return await self._ledger.find_record(_from_document, {"_id": id})

    async def find_numbered(self, organisation: str, number: int) -> CreditEntry | None:
        """Return the organisation's credit entry with this number, or `None`."""
        return await self._ledger.find_record(_from_document, {"organisation": organisation, "number": number})

    async def newest(self, organisation: str, limit: int) -> Sequence[CreditEntry]:
        """Return up to `limit` credit entries of an organisation, newest first."""
        query = {"organisation": organisation, "number": {"$gt": 0}}
        return [_from_document(each) async for each in self._ledger.find(query).sort("number", -1).limit(limit)]

    async def refunded(self, organisation: str, job: str) -> int:
        """Return the sum of the refunds of a job in nano-USD."""
        query = {"organisation": organisation, "number": {"$gt": 0}, "job": job}
        return sum([int(each["amount"]) async for each in self._ledger.find(query, {"amount": 1})])

    async def append(self, entry: CreditEntry) -> bool:
        """Store a credit entry durably; false if the organisation has an entry with its id or its sequence number."""
        return await self._ledger.insert_if_absent(_to_document(entry))

    async def apply(self, entry: CreditEntry) -> None:
        """Add a credit entry to its organisation's account, in one update, if it is the next number to apply."""
        before = entry.number - 1
        query = {"_id": entry.organisation, "credits": before if before else {"$in": [None, 0]}}
        increase = {"available": entry.amount, "credited": entry.amount, "credits": 1}
        await self._accounts.update_one(query, {"$inc": increase})

    async def credited_since(self, at: float) -> Sequence[str]:
        """Return the ids of organisations that have credit entries since `at` (Unix seconds)."""
        return list(await self._ledger.distinct("organisation", {"number": {"$gt": 0}, "at": {"$gte": at}}))


def _to_document(entry: CreditEntry) -> dict[str, Any]:
    return {
        "_id": entry.id,
        "organisation": entry.organisation,
        "debit": SOURCES[entry.kind],
        "credit": customer_account(entry.organisation),
        "amount": entry.amount,
        "kind": entry.kind.value,
        "at": entry.at,
        "number": entry.number,
        "reference": entry.reference,
        **({} if entry.job is None else {"job": entry.job}),
    }


def _from_document(document: Mapping[str, Any]) -> CreditEntry:
    return from_document(CreditEntry, document, kind=CreditKind(document["kind"]))
