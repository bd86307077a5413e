"""Vector stores of people who have left are listed and deleted, in their organisation alone."""

from __future__ import annotations

import pytest

from auth_billing.access.roles import Role
from auth_billing.people.people_records import Membership
from stored_objects.errors import BlobNotFound, DocumentNotFound
from stored_objects.files.files import FILE_PREFIX, public_id
from stored_objects.objects.records import ObjectKind, ObjectOwner
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import StoreScope, person_grantee
from stored_objects.vector_stores.ownerless import OwnerlessVectorStores
from stored_objects.vector_stores.records import VectorStore
from stored_objects.vector_stores.vector_stores import NewFile
from tests.fakes.people import DictMembershipStore
from tests.stored_objects.vector_stores.conftest import ADA, CHUNKING, EVE, Platform


@pytest.fixture
async def members() -> DictMembershipStore:
    """Memberships of Ada in the first organisation, and of Eve in the second."""
    store = DictMembershipStore()
    await store.add(Membership("org-1", "ada", Role.MEMBER, 1.0))
    await store.add(Membership("org-2", "eve", Role.MEMBER, 1.0))
    return store


async def persons(platform: Platform, person: str, owner: ProjectOwner = ADA) -> VectorStore:
    platform.clock.now += 1
    return await platform.stores.create(owner, embedder="minilm", scope=StoreScope.PERSON, person=person)


async def test_those_of_former_members_are_listed_by_page(platform: Platform, members: DictMembershipStore) -> None:
    ownerless = OwnerlessVectorStores(platform.stores, members)
    await platform.create()
    kept = await persons(platform, "ada")
    eves = await persons(platform, "eve")
    bobs = [await persons(platform, "bob") for _ in range(2)]
    theirs = await persons(platform, "ada", EVE)
    first = await ownerless.page("org-1", 2)
    assert ([each.id for each in first.items], first.has_more) == ([bobs[1].id, bobs[0].id], True)
    rest = await ownerless.page("org-1", 2, bobs[0].id)
    assert ([each.id for each in rest.items], rest.has_more) == ([eves.id], False)
    for other in (kept.id, theirs.id, "vs_none"):
        with pytest.raises(DocumentNotFound):
            await ownerless.page("org-1", 2, other)
        with pytest.raises(DocumentNotFound):
            await ownerless.delete("org-1", other)
    assert {kept.id, theirs.id} <= platform.records.stores.keys()


async def test_deletion_leaves_nothing(platform: Platform, members: DictMembershipStore) -> None:
    store, bob = await persons(platform, "bob"), ObjectOwner("org-1", "bob")
    await platform.stores.share(store, person_grantee("ada"))
    blob = await platform.files.objects.put(bob, b"text", kind=ObjectKind.FILE, media_type="text/plain")
    file = public_id(FILE_PREFIX, blob.id)
    await platform.stores.add(store, [NewFile(file, "a.txt", CHUNKING, {}, person="bob")])
    await platform.import_next()
    assert await platform.used() > 0
    deleted = await OwnerlessVectorStores(platform.stores, members).delete("org-1", store.id)
    assert deleted.id == store.id
    assert (platform.records.stores, platform.passages.sets, platform.passages.blocks) == ({}, {}, {})
    assert await platform.counted() == 0
    with pytest.raises(BlobNotFound):
        await platform.files.find(bob, file)


async def test_a_person_who_has_returned_owns_them_again(platform: Platform, members: DictMembershipStore) -> None:
    store = await persons(platform, "bob")
    await members.add(Membership("org-1", "bob", Role.MEMBER, 2.0))
    with pytest.raises(DocumentNotFound):
        await OwnerlessVectorStores(platform.stores, members).delete("org-1", store.id)
