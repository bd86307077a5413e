"""Defines presets, named sets of model settings, and the interface of the store that keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from chat_ui.history.records import ModelSettings, Owner


@dataclass(frozen=True)
class Preset:
    """A named set of model settings."""

    id: str
    name: str
    settings: ModelSettings


class PresetStore(Protocol):
    """Store of presets."""

    async def add(self, owner: Owner, preset: Preset) -> None:
        """Store a preset (a named set of model settings) of the owner durably."""
        ...

    async def all(self, owner: Owner) -> list[Preset]:
        """Return the owner's presets, sorted by name."""
        ...

    async def change(self, owner: Owner, preset_id: str, changes: Mapping[str, Any]) -> Preset | None:
        """Change a preset's `name` or `settings`; return the changed preset, `None` if it does not exist."""
        ...

    async def remove(self, owner: Owner, preset_id: str) -> bool:
        """Delete a preset of the owner; return false if it does not exist."""
        ...
