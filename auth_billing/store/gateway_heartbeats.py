"""MongoDB store of gateway heartbeats: `gateway_leases {_id: gateway, beat: int, at: date}`.

`beat` counts the heartbeats, so that an observer needs no clock that agrees with the gateway's. A TTL index deletes a
gateway a day after its last heartbeat (`at`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pymongo.errors import DuplicateKeyError

from auth_billing.store.connection import StoreConnection

COLLECTION = "gateway_leases"
RETENTION_PERIOD = 24 * 3600
"""Seconds after which the store deletes a gateway's last heartbeat."""


class MongoHeartbeatStore:
    """MongoDB implementation of `billing_records.HeartbeatStore`. Writes are not journaled."""

    def __init__(self, connection: StoreConnection) -> None:
        self._heartbeats = connection.unjournaled(COLLECTION)

    async def increment(self, gateway: str) -> None:
        """Increment the stored heartbeat count of the gateway with this id, atomically. Not journaled."""
        change = {"$inc": {"beat": 1}, "$currentDate": {"at": True}}
        try:
            await self._heartbeats.update_one({"_id": gateway}, change, upsert=True)
        except DuplicateKeyError:  # a concurrent call inserted it
            await self._heartbeats.update_one({"_id": gateway}, change)

    async def counts(self) -> Mapping[str, int]:
        """Return the heartbeat count of each gateway that sent one within the last day, by gateway id."""
        return {each["_id"]: each["beat"] async for each in self._heartbeats.find({})}
