"""MongoDB store of budget and credit alerts: finds accounts that may need alerts, keeps alerts, leases unsent ones.

    alerts {_id, organisation, month, budget, threshold, limit, amount, at, sent, lease, rounds, expires}

`sent` is 0 until the alert is sent, `lease` the Unix time until which a process claimed it. A TTL index deletes alerts
after two months, when they cannot become due again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ReturnDocument

from auth_billing.money.alerts import Alert, ClaimedAlert
from auth_billing.money.billing_records import Balance
from auth_billing.store import balances
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document

COLLECTION = "alerts"
RETENTION = timedelta(days=62)


class MongoAlertStore:
    """MongoDB implementation of `money.alerts.AlertStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._alerts = connection.durable(COLLECTION)
        self._accounts = connection.durable(balances.COLLECTION)

    async def candidates(self, low_credit: int) -> Sequence[Balance]:
        """Return the accounts that may need alerts: with budgets, or with less than `low_credit` nano-USD available."""
        query = {"$or": [{"budgets": {"$ne": {}}}, {"available": {"$lt": low_credit}}]}
        return [balances.from_document(each) async for each in self._accounts.find(query)]

    async def add(self, alerts: Sequence[Alert]) -> None:
        """Store alerts durably, to be sent; alerts that are stored already are skipped."""
        stored = {each["_id"] async for each in self._alerts.find({"_id": {"$in": [a.id for a in alerts]}}, {"_id": 1})}
        new = [_to_document(each) for each in alerts if each.id not in stored]
        if new:
            await self._alerts.insert_new(new)

    async def claim(self, now: float, until: float) -> ClaimedAlert | None:
        """Claim one unsent alert, unless another process has claimed it at `now`, until `until` (both Unix seconds).

        Return the claimed alert, `None` if there is none.
        """
        document = await self._alerts.find_one_and_update(
            {"sent": 0, "lease": {"$lt": now}}, {"$set": {"lease": until}}, return_document=ReturnDocument.AFTER
        )
        return None if document is None else ClaimedAlert(from_document(Alert, document), document["rounds"])

    async def postpone(self, id: str, until: float) -> None:
        """Count a failed round of sending the alert `id`; no process can claim it before `until` (Unix seconds)."""
        await self._alerts.update_one({"_id": id}, {"$set": {"lease": until}, "$inc": {"rounds": 1}})

    async def mark_done(self, id: str, at: float) -> None:
        """Mark the alert `id` as sent or dropped at `at` (Unix seconds), so that no process claims it again."""
        await self._alerts.update_one({"_id": id}, {"$set": {"sent": at}})


def _to_document(alert: Alert) -> dict[str, Any]:
    expires = datetime.fromtimestamp(alert.at, UTC) + RETENTION  # a date, as the TTL index needs it
    return {"_id": alert.id, **vars(alert), "sent": 0, "lease": 0.0, "rounds": 0, "expires": expires}
