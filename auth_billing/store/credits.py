"""Credit in MongoDB: rows of the ledger that have a `number`, and how many of them each account has taken in.

    ledger   {..., kind: "topup" | "promo" | "refund", number: int, reference: str, job: only of refunds}
    accounts {..., credits: int, credited: int}    rows taken in, and their sum; both may be absent: 0

A unique index on (organisation, number) makes an organisation's rows a sequence; an account moves from row n to n + 1
by one conditional update, so that whoever repeats it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.errors import DuplicateKeyError

from auth_billing.money.credit import CreditEntry, CreditKind
from auth_billing.money.ledger import customer
from auth_billing.store.balances import COLLECTION as ACCOUNTS
from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.connection import StoreConnection, translated_errors
from auth_billing.store.ledger import COLLECTION as LEDGER

SOURCES = {CreditKind.TOP_UP: "cash", CreditKind.PROMO: "promo", CreditKind.REFUND: "refunds"}
"""The ledger's account that an entry takes from."""


class MongoCreditStore:
    """Implements `credit.CreditStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._ledger = connection.durable(LEDGER)
        self._accounts = connection.durable(ACCOUNTS)
        self._balances = MongoBalanceStore(connection)

    async def open(self, organisation: str) -> tuple[int, int]:
        """How many entries the account has taken in, and their sum; a new organisation's account is made."""
        account = await self._account(organisation)
        if account is None:
            await self._balances.open(organisation)
            return 0, 0
        return account.get("credits", 0), account.get("credited", 0)

    async def find(self, id: str) -> CreditEntry | None:
        """An entry by its id."""
        return await self._one({"_id": id})

    async def numbered(self, organisation: str, number: int) -> CreditEntry | None:
        """An entry by its number."""
        return await self._one({"organisation": organisation, "number": number})

    async def newest(self, organisation: str, limit: int) -> Sequence[CreditEntry]:
        """Some entries, the latest first."""
        query = {"organisation": organisation, "number": {"$gt": 0}}
        with translated_errors():
            return [_from_document(each) async for each in self._ledger.find(query).sort("number", -1).limit(limit)]

    async def refunded(self, organisation: str, job: str) -> int:
        """What was paid back for a job."""
        query = {"organisation": organisation, "number": {"$gt": 0}, "job": job}
        with translated_errors():
            return sum([int(each["amount"]) async for each in self._ledger.find(query, {"amount": 1})])

    async def append(self, entry: CreditEntry) -> bool:
        """Store an entry, durably; false if there is one with its id or its number."""
        try:
            with translated_errors():
                await self._ledger.insert_one(_to_document(entry))
        except DuplicateKeyError:
            return False
        return True

    async def take_in(self, entry: CreditEntry) -> None:
        """Add an entry to its account if that has taken in all before it, and not this one."""
        before = entry.number - 1
        ready = {"_id": entry.organisation, "credits": before if before else {"$in": [None, 0]}}
        increase = {"available": entry.amount, "credited": entry.amount, "credits": 1}
        with translated_errors():
            await self._accounts.update_one(ready, {"$inc": increase})

    async def credited_since(self, at: float) -> Sequence[str]:
        """The organisations that have entries since a time."""
        with translated_errors():
            return list(await self._ledger.distinct("organisation", {"number": {"$gt": 0}, "at": {"$gte": at}}))

    async def _account(self, organisation: str) -> Mapping[str, Any] | None:
        with translated_errors():
            found: Mapping[str, Any] | None = await self._accounts.find_one(
                {"_id": organisation}, {"credits": 1, "credited": 1}
            )
        return found

    async def _one(self, query: dict[str, Any]) -> CreditEntry | None:
        with translated_errors():
            document = await self._ledger.find_one(query)
        return None if document is None else _from_document(document)


def _to_document(entry: CreditEntry) -> dict[str, Any]:
    return {
        "_id": entry.id,
        "organisation": entry.organisation,
        "debit": SOURCES[entry.kind],
        "credit": customer(entry.organisation),
        "amount": entry.amount,
        "kind": entry.kind.value,
        "at": entry.at,
        "number": entry.number,
        "reference": entry.reference,
        **({} if entry.job is None else {"job": entry.job}),
    }


def _from_document(document: Mapping[str, Any]) -> CreditEntry:
    return CreditEntry(
        organisation=document["organisation"],
        number=document["number"],
        kind=CreditKind(document["kind"]),
        reference=document["reference"],
        amount=document["amount"],
        at=document["at"],
        job=document.get("job"),
    )
