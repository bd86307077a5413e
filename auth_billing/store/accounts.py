"""Organisations and projects in MongoDB."""

from __future__ import annotations

from typing import Any

from pymongo.errors import DuplicateKeyError

from auth_billing.records import Organisation, Project
from auth_billing.store.connection import StoreConnection, translated_errors

ORGANISATIONS = "organisations"
PROJECTS = "projects"


class MongoAccountStore:
    """Implements `records.AccountStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._organisations = connection.durable(ORGANISATIONS)
        self._projects = connection.durable(PROJECTS)

    async def ensure_organisation(self, organisation: Organisation) -> None:
        """Store it unless one with its id is there."""
        await _insert_once(self._organisations, dict(vars(organisation)))

    async def ensure_project(self, project: Project) -> None:
        """Store it unless one with its id is there."""
        await _insert_once(self._projects, dict(vars(project)))


async def _insert_once(collection: Any, fields: dict[str, Any]) -> None:
    try:
        with translated_errors():
            await collection.insert_one({"_id": fields.pop("id"), **fields})
    except DuplicateKeyError:
        return
