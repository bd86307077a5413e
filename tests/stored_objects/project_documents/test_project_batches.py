"""The batches of projects: created by keys or people, found by their project, cancelled until they end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.access.principal import Principal
from stored_objects.errors import BatchEnded, BlobNotFound, DocumentNotFound
from stored_objects.objects.records import ObjectKind, ObjectOwner
from stored_objects.project_documents.batches import WINDOW, BatchState
from stored_objects.project_documents.project_batches import ProjectBatches
from tests.fakes.batches import DictBatchStore
from tests.fakes.stored_objects import stored_objects

KEY = Principal(key_id="key-1", tenant="acme", cache_salt="", project="web", user="ada")
PERSON = replace(KEY, key_id="")


async def test_a_batch_is_of_the_key_or_the_person_that_created_it() -> None:
    objects, store, announced = stored_objects(), DictBatchStore(), list[str]()
    batches = ProjectBatches(objects, store, lambda: announced.append("created"), clock=lambda: 5.0)
    owner = ObjectOwner.of_project("acme", "web")
    file = await objects.put(owner, b"{}", kind=ObjectKind.FILE, media_type="application/octet-stream")
    by_key = await batches.create(KEY, file, "/v1/embeddings", metadata={"a": "b"}, output_lifetime=9.0)
    by_person = await batches.create(PERSON, file, "/v1/embeddings")
    assert (by_key.key_id, by_key.user, by_person.key_id, by_person.user) == ("key-1", "", "", "ada")
    assert (by_key.expires, by_key.metadata, by_key.output_lifetime) == (5.0 + WINDOW, {"a": "b"}, 9.0)
    assert announced == ["created"] * 2
    assert set((await objects.find(owner, file.id)).references) == {by_key.id, by_person.id}
    assert await batches.find("acme", "web", by_key.id) == by_key
    newest = await batches.page("acme", "web", after=None, limit=1)
    assert {each.id for each in newest + await batches.page("acme", "web", after=newest[0].id, limit=5)} == {
        by_key.id,
        by_person.id,
    }
    for elsewhere in (("acme", "other"), ("another", "web")):
        with pytest.raises(DocumentNotFound):
            await batches.find(*elsewhere, by_key.id)
        with pytest.raises(DocumentNotFound):
            await batches.cancel(*elsewhere, by_key.id)
        with pytest.raises(DocumentNotFound):
            await batches.page(*elsewhere, after=by_key.id, limit=1)
    await objects.delete(file.id, owner)
    with pytest.raises(BlobNotFound):
        await batches.create(KEY, file, "/v1/embeddings")


async def test_a_batch_can_be_cancelled_until_it_ends() -> None:
    objects, store = stored_objects(), DictBatchStore()
    batches = ProjectBatches(objects, store, lambda: None)
    owner = ObjectOwner.of_project("acme", "web")
    file = await objects.put(owner, b"{}", kind=ObjectKind.FILE, media_type="application/octet-stream")
    id = (await batches.create(KEY, file, "/v1/embeddings")).id
    for _ in range(2):
        assert (await batches.cancel("acme", "web", id)).state is BatchState.CANCELLING
    store.records[id] = replace(store.records[id], state=BatchState.CANCELLED)
    with pytest.raises(BatchEnded, match="'cancelled'"):
        await batches.cancel("acme", "web", id)
