"""MongoDB store of second factors: `second_factors {_id: user, nonce, confirmed, last_step, recovery}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auth_billing.people.second_factor import SecondFactorRecord
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

COLLECTION = "second_factors"
_CONFIRMED = {"$ne": None}


class MongoSecondFactorStore:
    """MongoDB implementation of `second_factor.SecondFactorStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._factors = connection.durable(COLLECTION)

    async def find(self, user: str) -> SecondFactorRecord | None:
        """Return a user's second factor, confirmed or not, or `None` if there is none."""
        return await self._factors.find_record(_record, {"_id": user})

    async def confirmed(self, users: Sequence[str]) -> frozenset[str]:
        """Return those of the users with these ids who have a confirmed second factor."""
        found = self._factors.find({"_id": {"$in": list(users)}, "confirmed": _CONFIRMED}, {"_id": 1})
        return frozenset([document["_id"] async for document in found])

    async def begin(self, user: str, nonce: bytes) -> bool:
        """Store a user's unconfirmed second factor, in place of an earlier one; return false if one is confirmed."""
        new = to_document(SecondFactorRecord(user, nonce), recovery=[])
        if await self._factors.insert_if_absent(new):
            return True
        return await self._factors.update_matching({"_id": user, "confirmed": None}, {"$set": {"nonce": nonce}})

    async def confirm(self, user: str, nonce: bytes, now: float, step: int, recovery: Sequence[bytes]) -> bool:
        """Confirm a user's unconfirmed second factor with this nonce at `now` (Unix seconds); return false without one.

        Its digests of recovery codes and the time step of the first code are stored too.
        """
        change = {"confirmed": now, "last_step": step, "recovery": list(recovery)}
        return await self._factors.update_matching({"_id": user, "nonce": nonce, "confirmed": None}, {"$set": change})

    async def accept_step(self, user: str, nonce: bytes, step: int) -> bool:
        """Store the TOTP time step of an accepted code, so that no code is accepted twice.

        Return false if the step is not newer than the last, or the second factor is not confirmed.
        """
        older = {"_id": user, "nonce": nonce, "confirmed": _CONFIRMED, "last_step": {"$lt": step}}
        return await self._factors.update_matching(older, {"$set": {"last_step": step}})

    async def use_recovery_code(self, user: str, digest: bytes) -> bool:
        """Remove a recovery code, by digest, from a user's confirmed second factor; return false if it is not there."""
        unused = {"_id": user, "confirmed": _CONFIRMED, "recovery": digest}
        return await self._factors.update_matching(unused, {"$pull": {"recovery": digest}})

    async def remove(self, user: str) -> bool:
        """Delete a user's second factor; return false if there was none."""
        return bool((await self._factors.delete_one({"_id": user})).deleted_count)


def _record(document: dict[str, Any]) -> SecondFactorRecord:
    recovery = tuple(bytes(digest) for digest in document["recovery"])
    return from_document(SecondFactorRecord, document, nonce=bytes(document["nonce"]), recovery=recovery)
