"""MongoDB store of organisations and projects: `organisations {_id, name, ..., owners}`, `projects {_id, ...}`.

`owners` is in the organisation's one document, so that one conditional update never removes the last owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from auth_billing.people.organisation_records import Organisation, Project
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

ORGANISATIONS = "organisations"
PROJECTS = "projects"

_organisation = partial(from_document, Organisation)
_project = partial(from_document, Project)


class MongoOrganisationStore:
    """MongoDB implementation of `OrganisationStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._organisations = connection.durable(ORGANISATIONS)
        self._projects = connection.durable(PROJECTS)

    async def ensure_organisation(self, organisation: Organisation) -> None:
        """Store a new organisation; no effect if one with its id is stored."""
        await self._organisations.insert_if_absent(to_document(organisation))

    async def ensure_project(self, project: Project) -> None:
        """Store a new project; no effect if one with its id is stored."""
        await self._projects.insert_if_absent(to_document(project))

    async def find_organisation(self, organisation: str) -> Organisation | None:
        """Return the organisation with this id, or `None` if there is none."""
        return await self._organisations.find_record(_organisation, {"_id": organisation})

    async def find_organisations(self, ids: Sequence[str]) -> list[Organisation]:
        """Return the organisations with these ids, in any order; unknown ids are left out."""
        return [_organisation(each) async for each in self._organisations.find({"_id": {"$in": list(ids)}})]

    async def page(self, after: str, limit: int) -> list[Organisation]:
        """Return a page of all organisations: up to `limit` whose ids sort after `after`, sorted by id."""
        found = self._organisations.find({"_id": {"$gt": after}}).sort("_id", 1).limit(limit)
        return [_organisation(each) async for each in found]

    async def projects(self, organisation: str) -> list[Project]:
        """Return all projects of an organisation, archived ones included, oldest first."""
        found = self._projects.find({"organisation": organisation}).sort([("created", 1), ("_id", 1)])
        return [_project(document) async for document in found]

    async def find_project(self, organisation: str, project: str) -> Project | None:
        """Return the organisation's project with this id, archived or not, or `None`."""
        return await self._projects.find_record(_project, {"_id": project, "organisation": organisation})

    async def rename_project(self, organisation: str, project: str, name: str) -> None:
        """Change the name of an organisation's project; no effect if there is no such project."""
        await self._projects.update_one({"_id": project, "organisation": organisation}, {"$set": {"name": name}})

    async def archive_project(self, organisation: str, project: str, now: float) -> None:
        """Mark an organisation's project as archived at `now` (Unix seconds); no effect if archived or missing."""
        open_one = {"_id": project, "organisation": organisation, "archived": None}
        await self._projects.update_one(open_one, {"$set": {"archived": now}})

    async def set_document_audit(self, organisation: str, *, on: bool) -> None:
        """Set whether accesses to an organisation's documents are recorded; no effect if there is no such one."""
        await self._organisations.update_one({"_id": organisation}, {"$set": {"audits_documents": on}})

    async def add_owner(self, organisation: str, user: str) -> None:
        """Add a user id to an organisation's list of owners; no effect if it is there."""
        await self._organisations.update_one({"_id": organisation}, {"$addToSet": {"owners": user}})

    async def give_up_owner(self, organisation: str, user: str) -> bool:
        """Remove a user id from an organisation's owners; return false, with no change, if no owner would remain."""
        one_of_several = {"_id": organisation, "owners": user, "owners.1": {"$exists": True}}
        if await self._organisations.update_matching(one_of_several, {"$pull": {"owners": user}}):
            return True
        return await self._organisations.find_one({"_id": organisation, "owners": user}) is None
