"""Alerts in MongoDB: `alerts {_id, organisation, month, budget, threshold, limit, amount, at, sent, lease, rounds}`.

`sent` is 0 until it is; the store forgets alerts after two months, when nothing about them can become due again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ReturnDocument

from auth_billing.money.alerts import Alert, Claimed
from auth_billing.money.books import Balance
from auth_billing.store import balances
from auth_billing.store.connection import StoreConnection, translated_errors
from auth_billing.store.insertion import insert_new

COLLECTION = "alerts"
KEPT = timedelta(days=62)


class MongoAlertStore:
    """Implements `alerts.AlertStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._alerts = connection.durable(COLLECTION)
        self._accounts = connection.durable(balances.COLLECTION)

    async def watched(self, low: int) -> Sequence[Balance]:
        """Accounts that have budgets, or less than `low` available."""
        query = {"$or": [{"budgets": {"$ne": {}}}, {"available": {"$lt": low}}]}
        with translated_errors():
            return [balances.from_document(each) async for each in self._accounts.find(query)]

    async def add(self, alerts: Sequence[Alert]) -> None:
        """Write down those that are not there yet."""
        with translated_errors():
            there = {
                each["_id"] async for each in self._alerts.find({"_id": {"$in": [a.id for a in alerts]}}, {"_id": 1})
            }
            new = [_to_document(each) for each in alerts if each.id not in there]
            if new:
                await insert_new(self._alerts, new)

    async def claim(self, now: float, lease: float) -> Claimed | None:
        """An alert that is not sent and that nobody has a lease on; it is the caller's until `lease`."""
        with translated_errors():
            document = await self._alerts.find_one_and_update(
                {"sent": 0, "lease": {"$lt": now}}, {"$set": {"lease": lease}}, return_document=ReturnDocument.AFTER
            )
        if document is None:
            return None
        names = ("organisation", "month", "budget", "threshold", "limit", "amount", "at")
        return Claimed(Alert(**{name: document[name] for name in names}), document["rounds"])

    async def postpone(self, id: str, until: float) -> None:
        """One more round has failed; nobody tries before `until`."""
        with translated_errors():
            await self._alerts.update_one({"_id": id}, {"$set": {"lease": until}, "$inc": {"rounds": 1}})

    async def done(self, id: str, at: float) -> None:
        """It is sent, or given up."""
        with translated_errors():
            await self._alerts.update_one({"_id": id}, {"$set": {"sent": at}})


def _to_document(alert: Alert) -> dict[str, Any]:
    forget = datetime.fromtimestamp(alert.at, UTC) + KEPT  # the type that makes the store forget it
    return {"_id": alert.id, **vars(alert), "sent": 0, "lease": 0.0, "rounds": 0, "expires": forget}
