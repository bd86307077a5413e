"""MongoDB store of presets: `chat_presets {_id, organisation, user, name, settings}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auth_billing.store.connection import StoreConnection
from chat_ui.history.limits import MAX_PRESETS
from chat_ui.history.presets import Preset
from chat_ui.history.records import Owner
from chat_ui.store.documents import owned_by, preset_from, to_stored

COLLECTION = "chat_presets"


class MongoPresetStore:
    """MongoDB implementation of `history.records.PresetStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._presets = connection.durable(COLLECTION)

    async def add(self, owner: Owner, preset: Preset) -> None:
        """Store a preset (a named set of model settings) of the owner durably; one with the same id is replaced."""
        key = owned_by(owner, _id=preset.id)
        await self._presets.replace_one(
            key, {**key, "name": preset.name, "settings": to_stored(preset.settings)}, upsert=True
        )

    async def all(self, owner: Owner) -> list[Preset]:
        """Return the owner's presets, sorted by name, at most `MAX_PRESETS`."""
        found = self._presets.find(owned_by(owner)).sort([("name", 1), ("_id", 1)]).limit(MAX_PRESETS)
        return [preset_from(each) async for each in found]

    async def change(self, owner: Owner, preset_id: str, changes: Mapping[str, Any]) -> Preset | None:
        """Change a preset's `name` or `settings`; return the changed preset, `None` if it does not exist."""
        stored = {name: to_stored(value) for name, value in changes.items()}
        await self._presets.update_one(owned_by(owner, _id=preset_id), {"$set": stored})
        return await self._presets.find_record(preset_from, owned_by(owner, _id=preset_id))

    async def remove(self, owner: Owner, preset_id: str) -> bool:
        """Delete a preset of the owner; return false if it does not exist."""
        result = await self._presets.delete_one(owned_by(owner, _id=preset_id))
        return bool(result.deleted_count)
