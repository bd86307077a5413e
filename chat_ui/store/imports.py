"""MongoDB store of conversation imports: each user's latest one, with its progress and lease.

imports {_id: ORGANISATION/USER, organisation, user, import, ..., until}
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document
from chat_ui.history.records import Owner
from chat_ui.importing.records import Import, ImportState, Skipped, SkipReason
from chat_ui.store.documents import owned_by, owner_from

COLLECTION = "imports"


class MongoImportStore:
    """MongoDB implementation of `importing.records.ImportStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._imports = connection.unjournaled(COLLECTION)

    async def find(self, owner: Owner) -> Import | None:
        """Return the record of the owner's last import, running or ended; `None` if there is none."""
        return await self._imports.find_record(_import, _import_key(owner))

    async def begin(self, owner: Owner, started: Import, before: Import | None, now: float) -> bool:
        """Store a new import, `started`, in place of the owner's last one, `before`; return whether it was stored.

        It is not stored if `before` was replaced or is still leased at `now` (Unix seconds).
        """
        stored = _fields(started)
        if before is None:
            return await self._imports.insert_if_absent({**_import_key(owner), **stored})
        free = {**_import_key(owner), "import": before.id, "until": {"$lt": now}}
        return await self._imports.update_matching(free, {"$set": stored})

    async def renew(self, owner: Owner, record: Import) -> bool:
        """Store the running import's progress and lease end; return false, and store nothing, if it was replaced."""
        ours = {**_import_key(owner), "import": record.id}
        return await self._imports.update_matching(ours, {"$set": _fields(record)})

    async def abandoned(self, now: float, limit: int) -> list[tuple[Owner, Import]]:
        """Return at most `limit` unfinished imports, with owner, whose lease ended before `now` (Unix seconds)."""
        found = self._imports.find({"until": {"$gt": 0.0, "$lt": now}}).limit(limit)
        return [(owner_from(each), _import(each)) async for each in found]


def _import_key(owner: Owner) -> dict[str, Any]:
    return owned_by(owner, _id=f"{owner.organisation}/{owner.user}")


def _fields(value: Import) -> dict[str, Any]:
    fields = asdict(value)
    skipped = [{**asdict(each), "reason": each.reason.value} for each in value.skipped]
    return {**fields, "import": fields.pop("id"), "state": value.state.value, "skipped": skipped}


def _import(document: dict[str, Any]) -> Import:
    skipped = [_skipped(each) for each in document["skipped"]]
    state = ImportState(document["state"])
    return from_document(Import, document, id=document["import"], state=state, skipped=skipped)


def _skipped(document: dict[str, Any]) -> Skipped:
    """Return a skipped conversation; unknown reasons of other versions become `OTHER`, without a limit."""
    try:
        reason = SkipReason(document["reason"])
    except ValueError:
        return Skipped(document["title"], SkipReason.OTHER)
    return Skipped(document["title"], reason, document["limit"])
