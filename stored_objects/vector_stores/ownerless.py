"""Finds and deletes vector stores whose owner, a person, is no member of the organisation any more."""

from __future__ import annotations

from auth_billing.people.people_records import MembershipStore
from stored_objects.errors import DocumentNotFound
from stored_objects.vector_stores.records import PageQuery, VectorStore, place_of
from stored_objects.vector_stores.vector_stores import Page, VectorStores


class OwnerlessVectorStores:
    """Vector stores of people who have left the organisation, for its administrators.

    Methods raise `StoreUnavailable` if the store does not answer.
    """

    def __init__(self, stores: VectorStores, memberships: MembershipStore) -> None:
        self._stores = stores
        self._memberships = memberships

    async def page(self, organisation: str, limit: int, after: str | None = None) -> Page[VectorStore]:
        """Return a page of the organisation's vector stores without an owner, the newest first, after the id `after`.

        Raises:
            DocumentNotFound: there is no vector store `after` without an owner.
        """
        last = None if after is None else await self.find(organisation, after)
        members = [each.user for each in await self._memberships.of_organisation(organisation)]
        one_more = PageQuery(limit + 1, after=None if last is None else place_of(last))
        found = await self._stores.records.page_of_others(organisation, members, one_more)
        return Page(found[:limit], len(found) > limit)

    async def find(self, organisation: str, id: str) -> VectorStore:
        """Return one of the organisation's vector stores without an owner.

        Raises:
            DocumentNotFound: there is none with this id.
        """
        for found in await self._stores.records.find_any([id]):
            is_persons = found.organisation == organisation and found.person
            if is_persons and await self._memberships.find(organisation, found.person) is None:
                return found
        raise DocumentNotFound(id)

    async def delete(self, organisation: str, id: str) -> VectorStore:
        """Delete one of these vector stores with its files, as its owner would, and return it.

        Raises:
            DocumentNotFound: there is none with this id.
        """
        found = await self.find(organisation, id)
        await self._stores.delete(found)
        return found
