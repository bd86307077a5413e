"""MongoDB store of credit: numbered ledger entries and withdrawals, and how many of them each account has applied.

    ledger   {..., kind: "topup" | "promo" | "refund", number: int, reference: str, job: only of refunds, reason?: str}
             {..., kind: "withdrawal", withdrawal: int (its number), reference, reason?}
    accounts {..., credits: int, credited: int}    number and sum of applied entries; absent: 0
             {..., withdrawals: int, withdrawn: int, withdrawal?: the ledger's document of one that is not posted yet}

A unique index on (organisation, number) makes an organisation's entries a sequence. An account moves from entry n to
n + 1 by one conditional update, which has no effect when repeated. A withdrawal is in the account first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auth_billing.money.credit import CreditEntry, CreditKind, WithdrawalState
from auth_billing.money.ledger import customer_account
from auth_billing.store.balances import COLLECTION as ACCOUNTS
from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document
from auth_billing.store.ledger import COLLECTION as LEDGER

SOURCES = {CreditKind.TOP_UP: "cash", CreditKind.PROMO: "promo", CreditKind.REFUND: "refunds"}
"""The ledger account that is debited, by the kind of credit."""
WITHDRAWALS = "withdrawals"
"""The ledger account that gets withdrawn credit."""


class MongoCreditStore:
    """MongoDB implementation of `money.credit.CreditStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._ledger = connection.durable(LEDGER)
        self._accounts = connection.durable(ACCOUNTS)
        self._balances = MongoBalanceStore(connection)

    async def applied(self, organisation: str) -> tuple[int, int]:
        """Return the number and sum (nano-USD) of credit entries applied to an account; create a missing account."""
        account = await self._accounts.find_one({"_id": organisation}, {"credits": 1, "credited": 1})
        if account is None:
            await self._balances.create(organisation)
            return 0, 0
        return account.get("credits", 0), account.get("credited", 0)

    async def find(self, id: str) -> CreditEntry | None:
        """Return the credit entry (top-up, promotion, refund, withdrawal) with this id, or `None` if there is none."""
        return await self._ledger.find_record(_from_document, {"_id": id})

    async def find_numbered(self, organisation: str, number: int) -> CreditEntry | None:
        """Return the organisation's credit entry with this sequence number, or `None` if there is none."""
        return await self._ledger.find_record(_from_document, {"organisation": organisation, "number": number})

    async def newest(self, organisation: str, limit: int) -> Sequence[CreditEntry]:
        """Return up to `limit` credit entries and withdrawals of an organisation, newest first."""
        found = [
            _from_document(each)
            for name in ("number", "withdrawal")
            async for each in self._ledger.find({"organisation": organisation, name: {"$gt": 0}})
            .sort(name, -1)
            .limit(limit)
        ]
        return sorted(found, key=lambda entry: entry.at, reverse=True)[:limit]

    async def refunded(self, organisation: str, job: str) -> int:
        """Return the sum of an organisation's refunds of a job in nano-USD, 0 if there are none."""
        query = {"organisation": organisation, "number": {"$gt": 0}, "job": job}
        return sum([int(each["amount"]) async for each in self._ledger.find(query, {"amount": 1})])

    async def append(self, entry: CreditEntry) -> bool:
        """Append a credit entry to the ledger durably; return false if an entry with its id or its number is stored."""
        return await self._ledger.insert_if_absent(_to_document(entry))

    async def apply(self, entry: CreditEntry) -> None:
        """Add a credit entry's amount to its organisation's account, in one update, if its number is next to apply."""
        before = entry.number - 1
        query = {"_id": entry.organisation, "credits": before if before else {"$in": [None, 0]}}
        increase = {"available": entry.amount, "credited": entry.amount, "credits": 1}
        await self._accounts.update_one(query, {"$inc": increase})

    async def credited_since(self, at: float) -> Sequence[str]:
        """Return the ids of the organisations that have credit entries made since `at` (Unix seconds)."""
        return list(await self._ledger.distinct("organisation", {"number": {"$gt": 0}, "at": {"$gte": at}}))

    async def withdrawal_state(self, organisation: str) -> WithdrawalState:
        """Return how many withdrawals an account has, and the credit available for the next; zeros if it is missing."""
        account = await self._accounts.find_one({"_id": organisation}) or {}
        unposted = account.get("withdrawal")
        return WithdrawalState(
            account.get("withdrawals", 0),
            account.get("available", 0),
            None if unposted is None else _from_document(unposted),
        )

    async def withdraw(self, entry: CreditEntry) -> bool:
        """Take a withdrawal's amount out of the account's available credit, and keep the entry there, in one update.

        The account keeps the entry until it is posted to the ledger. Return false, with nothing changed, if less is
        available, `entry.number` is not the next one, or the last withdrawal is not posted.
        """
        before = entry.number - 1
        query = {
            "_id": entry.organisation,
            "available": {"$gte": entry.amount},
            "withdrawals": before if before else {"$in": [None, 0]},
            "withdrawal": None,
        }
        increase = {"available": -entry.amount, "withdrawn": entry.amount, "withdrawals": 1}
        change = {"$inc": increase, "$set": {"withdrawal": _to_document(entry)}}
        return await self._accounts.update_matching(query, change)

    async def post_withdrawal(self, entry: CreditEntry) -> None:
        """Append an account's withdrawal to the ledger, unless it is there; then remove its copy from the account."""
        await self._ledger.insert_if_absent(_to_document(entry))
        posted = {"_id": entry.organisation, "withdrawal.withdrawal": entry.number}
        await self._accounts.update_one(posted, {"$unset": {"withdrawal": ""}})

    async def unposted_withdrawals(self) -> Sequence[CreditEntry]:
        """Return the withdrawals of all organisations that accounts have and that the ledger may not have yet."""
        found = self._accounts.find({"withdrawal": {"$exists": True}}, {"withdrawal": 1})
        return [_from_document(each["withdrawal"]) async for each in found]


def _to_document(entry: CreditEntry) -> dict[str, Any]:
    own, taken = customer_account(entry.organisation), entry.kind is CreditKind.WITHDRAWAL
    return {
        "_id": entry.id,
        "organisation": entry.organisation,
        "debit": own if taken else SOURCES[entry.kind],
        "credit": WITHDRAWALS if taken else own,
        "amount": entry.amount,
        "kind": entry.kind.value,
        "at": entry.at,
        "withdrawal" if taken else "number": entry.number,
        "reference": entry.reference,
        **({} if entry.job is None else {"job": entry.job}),
        **({"reason": entry.reason} if entry.reason else {}),
    }


def _from_document(document: Mapping[str, Any]) -> CreditEntry:
    number = document["number"] if "number" in document else document["withdrawal"]
    return from_document(CreditEntry, document, kind=CreditKind(document["kind"]), number=number)
