"""Searches for responses have the rights that their caller has at that moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from auth_billing.access.model_access import ModelAccess, ModelPolicy, PolicyMode
from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from auth_billing.errors import InvalidApiKey, NoSuchRecord
from gateway.errors import InvalidRequest, ModelNotFound, ScopeMissing
from gateway.openai.responses.tools import FileSearchTool
from gateway.openai.vector_store_search import RankingOptions
from router.messages import Task
from stored_objects.errors import DocumentNotFound
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import StoreScope, person_grantee
from tests.fakes.scripted_worker import status
from tests.gateway.conftest import KEY, MODEL, eventually
from tests.gateway.vector_stores.library import EMBEDDER, Library, library

RERANKER = "org/reranker"


@pytest.fixture
async def shelf() -> AsyncIterator[Library]:
    async with library() as opened:
        yield opened


def tool_of(*stores: str) -> FileSearchTool:
    return FileSearchTool(type="file_search", vector_store_ids=list(stores))


async def caller(shelf: Library) -> Principal:
    return await shelf.stage.accounts.authenticate(KEY)


async def test_it_is_the_key_as_it_is_now(shelf: Library) -> None:
    store = (await shelf.create())["id"]
    before = await caller(shelf)
    policy = ModelPolicy(PolicyMode.DENY, frozenset({"org/other"}))
    now = replace(before, scopes=before.scopes - {Scope.BATCHES}, models=ModelAccess((policy,)))
    shelf.stage.accounts.added[KEY] = now
    assert await shelf.stage.gateway.searcher.caller_now(before, tool_of(store, store), MODEL) == now


async def test_a_revoked_key_searches_nothing(shelf: Library) -> None:
    store = (await shelf.create())["id"]
    before = await caller(shelf)
    shelf.stage.accounts.revoked.add(before.key_id)
    with pytest.raises(InvalidApiKey):
        await shelf.stage.gateway.searcher.caller_now(before, tool_of(store), MODEL)


async def test_a_person_who_left_searches_nothing(shelf: Library) -> None:
    store = (await shelf.create())["id"]
    person = replace(await caller(shelf), key_id="", user="user-1")
    assert (await shelf.stage.gateway.searcher.caller_now(person, tool_of(store), MODEL)).user == "user-1"
    shelf.stage.accounts.revoked.add("user-1")
    with pytest.raises(NoSuchRecord):
        await shelf.stage.gateway.searcher.caller_now(person, tool_of(store), MODEL)


@pytest.mark.parametrize("scope", [Scope.FILES, Scope.EMBEDDINGS])
async def test_a_scope_that_was_taken_away_is_missed(shelf: Library, scope: Scope) -> None:
    store = (await shelf.create())["id"]
    before = await caller(shelf)
    shelf.stage.accounts.added[KEY] = replace(before, scopes=before.scopes - {scope})
    with pytest.raises(ScopeMissing):
        await shelf.stage.gateway.searcher.caller_now(before, tool_of(store), MODEL)


async def test_a_store_that_is_not_shared_any_more_is_not_found(shelf: Library) -> None:
    bob = replace(await caller(shelf), user="bob")
    shelf.stage.accounts.added[KEY] = bob
    stores, searcher = shelf.stage.gateway.vector_stores, shelf.stage.gateway.searcher
    store = await stores.create(ProjectOwner.of(bob), embedder=EMBEDDER, scope=StoreScope.PERSON, person="ada")
    await stores.share(store, person_grantee("bob"))
    assert [each.id for each in await searcher.stores(bob, tool_of(store.id))] == [store.id]
    await stores.unshare(store, person_grantee("bob"))
    with pytest.raises(DocumentNotFound):
        await searcher.caller_now(bob, tool_of(store.id), MODEL)


@pytest.mark.parametrize("model", [MODEL, EMBEDDER])
async def test_a_model_that_was_forbidden_is_refused_for_good(shelf: Library, model: str) -> None:
    store = (await shelf.create())["id"]
    before = await caller(shelf)
    access = ModelAccess((ModelPolicy(PolicyMode.DENY, frozenset({model})),))
    shelf.stage.accounts.added[KEY] = replace(before, models=access)
    with pytest.raises(InvalidRequest):
        await shelf.stage.gateway.searcher.caller_now(before, tool_of(store), MODEL)


async def test_a_model_that_is_not_served_may_be_later(shelf: Library) -> None:
    store = (await shelf.create())["id"]
    with pytest.raises(ModelNotFound):
        await shelf.stage.gateway.searcher.caller_now(await caller(shelf), tool_of(store), "org/none")


async def test_a_reranker_that_was_forbidden_is_refused_for_good(shelf: Library) -> None:
    store = (await shelf.create())["id"]
    gateway, before = shelf.stage.gateway, await caller(shelf)
    shelf.stage.worker.bus.send_status(status(RERANKER, "worker-3", task=Task.SCORE))
    await eventually(lambda: gateway.models.find(RERANKER) is not None)
    options = RankingOptions(ranker=RERANKER)
    tool = FileSearchTool(type="file_search", vector_store_ids=[store], ranking_options=options)
    assert await gateway.searcher.caller_now(before, tool, MODEL) == before
    access = ModelAccess((ModelPolicy(PolicyMode.DENY, frozenset({RERANKER})),))
    shelf.stage.accounts.added[KEY] = replace(before, models=access)
    with pytest.raises(InvalidRequest):
        await gateway.searcher.caller_now(before, tool, MODEL)
