"""Imports in MongoDB: `imports {_id: ORGANISATION/USER, organisation, user, import, ..., until}`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pymongo.errors import DuplicateKeyError

from auth_billing.store.connection import StoreConnection, translated_errors
from chat_ui.history.records import Owner
from chat_ui.importing.records import Import, ImportState, Skipped, SkipReason
from chat_ui.store.documents import of_owner, owner_from

COLLECTION = "imports"


class MongoImportStore:
    """Implements `importing.records.ImportStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._imports = connection.passing(COLLECTION)

    async def find(self, owner: Owner) -> Import | None:
        """The owner's last one."""
        with translated_errors():
            document = await self._imports.find_one(_place(owner))
        return None if document is None else _import(document)

    async def begin(self, owner: Owner, started: Import, before: Import | None, now: float) -> bool:
        """Put `started` where `before` was, if that is still there and nobody alive works at it."""
        told = _told(started)
        with translated_errors():
            if before is None:
                try:
                    await self._imports.insert_one({**_place(owner), **told})
                except DuplicateKeyError:
                    return False
                return True
            free = {**_place(owner), "import": before.id, "until": {"$lt": now}}
            return bool((await self._imports.update_one(free, {"$set": told})).matched_count)

    async def keep(self, owner: Owner, at: Import) -> bool:
        """Say how far it is; false if another import is in its place."""
        ours = {**_place(owner), "import": at.id}
        with translated_errors():
            result = await self._imports.update_one(ours, {"$set": _told(at)})
        return bool(result.matched_count)

    async def abandoned(self, now: float, limit: int) -> list[tuple[Owner, Import]]:
        """Those that nobody alive works at, though something is left to do."""
        with translated_errors():
            found = self._imports.find({"until": {"$gt": 0.0, "$lt": now}}).limit(limit)
            return [(owner_from(each), _import(each)) async for each in found]


def _place(owner: Owner) -> dict[str, Any]:
    return of_owner(owner, _id=f"{owner.organisation}/{owner.user}")


def _told(value: Import) -> dict[str, Any]:
    fields = asdict(value)
    skipped = [{**asdict(each), "reason": each.reason.value} for each in value.skipped]
    return {**fields, "import": fields.pop("id"), "state": value.state.value, "skipped": skipped}


def _import(document: dict[str, Any]) -> Import:
    return Import(
        id=document["import"],
        begun=document["begun"],
        total=document["total"],
        state=ImportState(document["state"]),
        done=document["done"],
        imported=document["imported"],
        known=document["known"],
        skipped=[_skipped(each) for each in document["skipped"]],
        writing=document["writing"],
        until=document["until"],
    )


def _skipped(document: dict[str, Any]) -> Skipped:
    """One that another version has stored may have a reason that we don't know: the first ones had words, no limit."""
    try:
        reason = SkipReason(document["reason"])
    except ValueError:
        return Skipped(document["title"], SkipReason.OTHER)
    return Skipped(document["title"], reason, document["limit"])
