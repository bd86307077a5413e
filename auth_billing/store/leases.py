"""Signs of life of gateways in MongoDB: `gateway_leases {_id: gateway, beat: int, at: date}`.

`beat` goes up with each sign, so that whoever watches it needs no clock that agrees with the gateway's. The store
itself forgets a gateway that has been silent for a day (`at`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pymongo.errors import DuplicateKeyError

from auth_billing.store.connection import StoreConnection, translated_errors

COLLECTION = "gateway_leases"
KEPT_SECONDS = 24 * 3600


class MongoLeaseStore:
    """Implements `books.LeaseStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._leases = connection.passing(COLLECTION)

    async def beat(self, gateway: str) -> None:
        """Say once more that a gateway is alive."""
        sign = {"$inc": {"beat": 1}, "$currentDate": {"at": True}}
        with translated_errors():
            try:
                await self._leases.update_one({"_id": gateway}, sign, upsert=True)
            except DuplicateKeyError:  # somebody inserted it at the same moment
                await self._leases.update_one({"_id": gateway}, sign)

    async def beats(self) -> Mapping[str, int]:
        """How often each gateway has said so."""
        with translated_errors():
            return {each["_id"]: each["beat"] async for each in self._leases.find({})}
