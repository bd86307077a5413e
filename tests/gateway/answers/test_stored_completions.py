"""Completions that the store refuses, or that wait for it while it is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from auth_billing.errors import RecordRefused, StoreUnavailable
from gateway.answers import stored_completions as module
from gateway.answers.stored_completions import CompletionStorage
from gateway.openai.chat_completion_answers import ChatAnswerMessage, ChatChoice, ChatCompletion
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.usage import CompletionUsage
from router.messages import Usage
from stored_objects.objects.quota import CountSubject
from stored_objects.project_documents.project_documents import ProjectDocuments, Retention
from stored_objects.project_documents.records import ProjectOwner
from tests.fakes.byte_counts import MIB, document_quota
from tests.fakes.project_documents import DictDocumentStore
from tests.gateway.conftest import eventually

OWNER = ProjectOwner("org-1", "proj-1")
REQUEST = ChatCompletionRequest.parse({"model": "m", "messages": [{"role": "user", "content": "hi"}], "store": True})


def completion(id: str) -> ChatCompletion:
    message = ChatAnswerMessage(content="Hello.", refusal=None)
    return ChatCompletion(
        id=id,
        created=1,
        model="m",
        service_tier="default",
        system_fingerprint="fp",
        choices=[ChatChoice(index=0, message=message, logprobs=None, finish_reason="stop")],
        usage=CompletionUsage.of(Usage(prompt_tokens=1)),
    )


class FailingStore(DictDocumentStore):
    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.attempts = 0

    async def insert(self, documents: Any) -> None:
        self.attempts += 1
        if self.error is not None:
            raise self.error
        await super().insert(documents)


@pytest.fixture
def store() -> FailingStore:
    return FailingStore()


@pytest.fixture
def documents(store: FailingStore) -> ProjectDocuments:
    return ProjectDocuments(store, Retention(30), document_quota())


@pytest.fixture
def storage(documents: ProjectDocuments) -> CompletionStorage:
    return CompletionStorage(documents)


async def test_a_completion_that_the_store_can_not_hold_is_not_tried_again(
    storage: CompletionStorage, store: FailingStore
) -> None:
    store.error = RecordRefused("too large")
    await storage.put(OWNER, REQUEST, completion("a"))
    store.error = None
    await storage.flush()
    assert store.records == {}


async def test_only_so_many_bytes_wait(
    storage: CompletionStorage, store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.error = StoreUnavailable("away")
    long = ChatCompletionRequest.parse({"model": "m", "messages": [{"role": "user", "content": "x" * 10_000}]})
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 30_000)
    for id in "abc":
        await storage.put(OWNER, long, completion(id))
    await storage.put(OWNER, REQUEST, completion("d"))
    assert await stored_by(storage, store) == {"a", "b", "d"}
    store.error = StoreUnavailable("away")
    await storage.put(OWNER, long, completion("e"))  # what is stored waits no more
    assert await stored_by(storage, store) == {"a", "b", "d", "e"}


async def test_a_completion_that_waits_is_counted_once(
    storage: CompletionStorage, store: FailingStore, documents: ProjectDocuments
) -> None:
    store.error = StoreUnavailable("away")
    await storage.put(OWNER, REQUEST, completion("a"))
    running = asyncio.create_task(storage.run())
    await eventually(lambda: store.attempts > 2)
    running.cancel()
    assert await stored_by(storage, store) == {"a"}
    await documents.quota.close()
    used = await documents.quota.quotas.used(CountSubject(OWNER.organisation))
    assert used == sum(each.size for each in store.records.values())


async def test_a_completion_of_a_full_project_is_not_stored(
    storage: CompletionStorage, store: FailingStore, documents: ProjectDocuments
) -> None:
    await documents.quota.reserve(OWNER, 100 * MIB)
    await storage.put(OWNER, REQUEST, completion("a"))
    assert await stored_by(storage, store) == set()


async def stored_by(storage: CompletionStorage, store: FailingStore) -> set[str]:
    """Let the store answer again; return the ids of the completions that it has once no completion waits."""
    store.error = None
    running = asyncio.create_task(storage.run())
    await storage.flush()
    running.cancel()
    return {each.id for each in store.records.values() if not each.parent}
