"""Access rules of vector stores: decides who may read and who may change one.

A vector store belongs to a project, or to one person in it. Its owner, and those whom it is shared with, read it; its
owner changes it: people and API keys of the project, or the person, in a session or by API keys of the project. A
session is not bound to the project, so that a person whose project was archived keeps the right. Its readers are stored
with it as grantees, each the name of a project, a person or the organisation in an access list. A
caller who is none of the grantees of a vector store does not find it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from auth_billing.access.principal import Principal
from stored_objects.project_documents.records import ProjectOwner

if TYPE_CHECKING:
    from stored_objects.vector_stores.records import VectorStore

ORGANISATION = "organisation"
"""Grantee that stands for all people and API keys of the organisation."""
_PERSON = "person:"


class StoreScope(StrEnum):
    """Whose a vector store is: a person's, a project's, or a project's for the whole organisation."""

    PERSON = "person"
    PROJECT = "project"
    ORGANISATION = "organisation"

    @classmethod
    def of(cls, store: VectorStore) -> StoreScope:
        """Return whose a vector store is."""
        if store.person:
            return cls.PERSON
        return cls.ORGANISATION if ORGANISATION in store.shared_with else cls.PROJECT


def project_grantee(id: str) -> str:
    """Return the grantee that stands for all people and API keys of a project."""
    return f"project:{id}"


def person_grantee(id: str) -> str:
    """Return the grantee that stands for a person, by the user's id."""
    return f"{_PERSON}{id}"


def person_of(grantee: str) -> str | None:
    """Return the user's id of a grantee that is a person; `None` for other grantees."""
    return grantee.removeprefix(_PERSON) if grantee.startswith(_PERSON) else None


@dataclass(frozen=True)
class Reader:
    """A caller who looks for vector stores: in a project, and perhaps a person."""

    owner: ProjectOwner
    person: str = ""
    """Id of the user; empty: an API key of none."""
    in_session: bool = False
    """Whether the person is signed in to the chat, instead of calling with an API key."""

    @classmethod
    def of(cls, principal: Principal) -> Reader:
        """Return the reader that a principal is: its project, with the user whose key or session it is."""
        return cls(ProjectOwner.of(principal), principal.user, in_session=not principal.key_id)

    @property
    def organisation(self) -> str:
        """Id of the organisation, outside which nothing is found."""
        return self.owner.organisation

    @property
    def grantees(self) -> list[str]:
        """The grantees that the reader is one of; a vector store with any of them is found."""
        project = [project_grantee(self.owner.project)] if self.owner.project else []
        person = [person_grantee(self.person)] if self.person else []
        return [ORGANISATION, *project, *person]

    def may_change(self, store: VectorStore) -> bool:
        """Return whether the reader may rename, fill, share and delete a vector store."""
        if store.person and self.in_session:
            return (store.organisation, store.person) == (self.organisation, self.person)
        return store.owner == self.owner and store.person in ("", self.person)
