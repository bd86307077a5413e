"""`/v1/vector_stores`: files are imported and found, by their project only, until they are deleted."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import PROJECT_SCOPES, Scope
from gateway.http.routes import vector_store_files
from router.bus import Bus
from router.messages import ScorePrompt, ServiceClass, Task
from router.transport.memory import MemoryTransport
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import ORGANISATION, StoreScope
from stored_objects.vector_stores.passages import BLOCK_PASSAGES
from stored_objects.vector_stores.records import VectorStore
from stored_objects.vector_stores.searches import IndexNotReady
from tests.fakes.scripted_worker import ScriptedWorker, score
from tests.gateway.conftest import OTHER_KEY, SetStage, eventually
from tests.gateway.http.routes.test_files import error_of
from tests.gateway.vector_stores.library import CATS, DOGS, EMBEDDER, RENT, TOKENS_OF_A_TEXT, Library, library

SMALL = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}}
OTHER = {"authorization": f"Bearer {OTHER_KEY}"}


@pytest.fixture
async def shelf() -> AsyncIterator[Library]:
    async with library() as made:
        yield made


async def test_files_are_imported_and_found_by_meaning_and_by_words(shelf: Library) -> None:
    store = await shelf.create(DOGS, CATS, RENT, name="pets", metadata={"for": "test"})
    assert (store["name"], store["metadata"], store["embedding_model"]) == ("pets", {"for": "test"}, EMBEDDER)
    assert store["status"] == "completed"
    assert store["file_counts"] == {"in_progress": 0, "completed": 3, "failed": 0, "cancelled": 0, "total": 3}
    assert store["usage_bytes"] > 0
    found = await shelf.search(store["id"], "pies", ranking_options={"hybrid_search": weights(1.0, 0.0)})
    assert found[0]["content"][0]["text"].startswith("# Dogs") or "kennel" in found[0]["content"][0]["text"]
    assert found[0]["filename"] == "0.md"
    assert 0.9 < found[0]["score"] <= 1
    words = await shelf.search(store["id"], "700 euros", ranking_options={"hybrid_search": weights(0.0, 1.0)})
    assert [each["filename"] for each in words] == ["2.md"]
    both = await shelf.search(store["id"], ["kot", "czynsz"], max_num_results=2)
    assert {each["filename"] for each in both} == {"1.md", "2.md"}
    high = await shelf.search(store["id"], "pies", ranking_options={"score_threshold": 0.9})
    assert [each["filename"] for each in high] == ["0.md"]
    options = {"hybrid_search": weights(0.0, 1.0), "only_if_relevant": True}
    assert await shelf.search(store["id"], "700 euros", ranking_options=options) == words
    assert await shelf.search(store["id"], "700 quarrelsome submarines", ranking_options=options) == []


def weights(vectors: float, words: float) -> dict[str, float]:
    return {"embedding_weight": vectors, "text_weight": words}


async def test_imports_are_of_the_class_flex_and_searches_are_not_and_both_are_billed(shelf: Library) -> None:
    store = await shelf.create(DOGS)
    await shelf.search(store["id"], "pies")
    await eventually(lambda: len(shelf.stage.receipts) == 2)
    assert [job.service_class for job in shelf.worker.jobs] == [ServiceClass.FLEX, ServiceClass.DEFAULT]
    assert [each.usage.prompt_tokens for each in shelf.stage.receipts] == [TOKENS_OF_A_TEXT] * 2


async def test_a_search_whose_index_is_not_ready_embeds_nothing(
    shelf: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await shelf.create(DOGS)

    async def not_ready(store: VectorStore) -> None:
        raise IndexNotReady("the index of the vector store is being built")

    monkeypatch.setattr(shelf.stage.gateway.searches, "prepare", not_ready)
    embedded = len(shelf.worker.jobs)
    refused = await shelf.client.post(f"/v1/vector_stores/{store['id']}/search", json={"query": "pies"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "index_not_ready")
    assert len(shelf.worker.jobs) == embedded


async def test_the_same_content_is_embedded_once(shelf: Library) -> None:
    first = await shelf.create(DOGS)
    second = await shelf.create(DOGS, CATS)
    assert len(shelf.worker.jobs) == 2
    for store in (first, second):
        assert (await shelf.search(store["id"], "dog"))[0]["filename"] == "0.md"
    await shelf.client.delete(f"/v1/vector_stores/{first['id']}")
    assert (await shelf.search(second["id"], "dog"))[0]["filename"] == "0.md"


async def test_attributes_filter_searches(shelf: Library) -> None:
    store = await shelf.create()
    for content, year in ((DOGS, 2025), (CATS, 2026)):
        body = {"file_id": await shelf.upload(content, f"{year}.md"), "attributes": {"year": year, "public": True}}
        await shelf.post(f"/{store['id']}/files", body)
    await shelf.imported(store["id"])
    later = {"type": "and", "filters": [{"type": "gt", "key": "year", "value": 2025}, equal("public", True)]}
    found = await shelf.search(store["id"], "dog", filters=later)
    assert [each["filename"] for each in found] == ["2026.md"]
    assert found[0]["attributes"] == {"year": 2026, "public": True}
    changed = await shelf.post(f"/{store['id']}/files/{found[0]['file_id']}", {"attributes": {"year": 2024}})
    assert changed["attributes"] == {"year": 2024}
    assert await shelf.search(store["id"], "dog", filters=later) == []


def equal(key: str, value: object) -> dict[str, object]:
    return {"type": "eq", "key": key, "value": value}


async def test_a_broken_file_fails_with_its_reason_while_others_go_on(shelf: Library) -> None:
    store = await shelf.create(DOGS, b"%PDF-1.7 broken", b"\x00\x01\x02\xff" * 100)
    assert store["file_counts"]["completed"] == 1
    assert store["file_counts"]["failed"] == 2
    failed = (await shelf.get(f"/{store['id']}/files?filter=failed&order=asc"))["data"]
    assert [each["last_error"]["code"] for each in failed] == ["invalid_file", "unsupported_file"]
    assert all(each["last_error"]["message"] for each in failed)


async def test_content_is_listed_passage_by_passage(shelf: Library) -> None:
    store = await shelf.create(DOGS)
    (file,) = (await shelf.get(f"/{store['id']}/files"))["data"]
    assert file["status"] == "completed"
    assert file["chunking_strategy"]["type"] == "static"
    content = await shelf.get(f"/{store['id']}/files/{file['id']}/content")
    (passage,) = content["data"]
    assert "barks at night" in passage["text"]
    place = {"page": None, "heading_path": ["Dogs"], "start": 0, "end": len(passage["text"])}
    assert {name: passage[name] for name in place} == place
    (found,) = await shelf.search(store["id"], "dog")
    assert (found["content"], found["passage"]) == ([passage], 0)
    assert (content["has_more"], content["next_page"]) == (False, None)


async def test_content_that_is_read_in_several_parts_is_one_list(
    shelf: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_store_files, "READ_BLOCKS", 1)
    lines = [f"Line {number} of a file about dogs, {number} times „as long” as it is." for number in range(600)]
    store = await shelf.create("\n\n".join(lines).encode(), chunking_strategy=SMALL)
    (file,) = (await shelf.get(f"/{store['id']}/files"))["data"]
    content = await shelf.get(f"/{store['id']}/files/{file['id']}/content")
    assert len(content["data"]) > 2 * BLOCK_PASSAGES
    assert {each["type"] for each in content["data"]} == {"text"}
    assert "\n\n".join(each["text"] for each in content["data"]).split("\n\n") == lines
    assert (content["object"], content["has_more"]) == ("vector_store.file_content.page", False)


async def test_batches_of_files_are_counted_listed_and_cancelled(shelf: Library) -> None:
    store = await shelf.create()
    ids = [await shelf.upload(each, "a.md") for each in (DOGS, CATS)]
    batch = await shelf.post(f"/{store['id']}/file_batches", {"file_ids": ids, "attributes": {"year": 2026}})
    assert batch["object"] == "vector_store.files_batch"
    await shelf.imported(store["id"])
    path = f"/{store['id']}/file_batches/{batch['id']}"
    assert (await shelf.get(path))["status"] == "completed"
    assert (await shelf.get(path))["file_counts"]["completed"] == 2
    listed = (await shelf.get(f"{path}/files?order=asc"))["data"]
    assert [each["id"] for each in listed] == ids
    assert listed[0]["attributes"] == {"year": 2026}
    assert (await shelf.post(f"{path}/cancel"))["status"] == "cancelled"
    assert (await shelf.get(path))["file_counts"]["completed"] == 2


async def test_deleted_files_and_stores_are_gone(shelf: Library) -> None:
    store = await shelf.create(DOGS, CATS)
    (file, *_) = (await shelf.get(f"/{store['id']}/files?order=asc"))["data"]
    removed = await shelf.client.delete(f"/v1/vector_stores/{store['id']}/files/{file['id']}")
    assert removed.json() == {"id": file["id"], "object": "vector_store.file.deleted", "deleted": True}
    assert [each["filename"] for each in await shelf.search(store["id"], "dog")] == ["1.md"]
    await shelf.get(f"/{store['id']}/files/{file['id']}", status=404)
    assert (await shelf.client.get(f"/v1/files/{file['id']}")).status_code == 200
    deleted = await shelf.client.delete(f"/v1/vector_stores/{store['id']}")
    assert deleted.json()["object"] == "vector_store.deleted"
    await shelf.get(f"/{store['id']}", status=404)
    assert (await shelf.post(f"/{store['id']}/search", {"query": "dog"}, status=404))["error"]["code"] == "not_found"


async def test_a_deleted_file_is_gone_from_all_vector_stores(shelf: Library) -> None:
    store = await shelf.create(DOGS, CATS)
    (file, _) = (await shelf.get(f"/{store['id']}/files?order=asc"))["data"]
    other = await shelf.post("", {"file_ids": [file["id"]]})
    await shelf.imported(other["id"])
    assert (await shelf.client.delete(f"/v1/files/{file['id']}")).status_code == 200
    assert [each["filename"] for each in await shelf.search(store["id"], "dog")] == ["1.md"]
    assert await shelf.search(other["id"], "dog") == []
    assert (await shelf.get(f"/{other['id']}"))["file_counts"]["total"] == 0


async def test_another_project_sees_nothing(shelf: Library) -> None:
    store = await shelf.create(DOGS)
    (file,) = (await shelf.get(f"/{store['id']}/files"))["data"]
    path = f"/v1/vector_stores/{store['id']}"
    for method, url, body in [
        ("GET", path, None),
        ("POST", path, {"name": "mine"}),
        ("DELETE", path, None),
        ("POST", f"{path}/search", {"query": "dog"}),
        ("GET", f"{path}/files", None),
        ("POST", f"{path}/files", {"file_id": file["id"]}),
        ("GET", f"{path}/files/{file['id']}", None),
        ("POST", f"{path}/files/{file['id']}", {"attributes": {}}),
        ("DELETE", f"{path}/files/{file['id']}", None),
        ("GET", f"{path}/files/{file['id']}/content", None),
        ("POST", f"{path}/file_batches", {"file_ids": [file["id"]]}),
    ]:
        response = await shelf.client.request(method, url, json=body, headers=OTHER)
        assert response.status_code == 404, (method, url, response.text)
    mine = await shelf.client.post("/v1/vector_stores", json={"file_ids": [file["id"]]}, headers=OTHER)
    assert error_of(mine) == (400, "invalid_value", "file_ids")
    assert (await shelf.client.get("/v1/vector_stores", headers=OTHER)).json()["data"] == []


async def test_a_persons_store_is_read_by_the_persons_keys_and_those_whom_it_is_shared_with(shelf: Library) -> None:
    stores, (file,) = shelf.stage.gateway.vector_stores, [await shelf.upload(DOGS)]
    accounts = shelf.stage.accounts
    for name, project in (("ada", "project-1"), ("bob", "project-2")):
        principal = Principal(f"key-{name}", "tenant-1", "salt-1", project=project, user=f"user-{name}")
        accounts.added[f"hr_live_{name}"] = principal
    ada, bob = ({"authorization": f"Bearer hr_live_{name}"} for name in ("ada", "bob"))
    owner = ProjectOwner("tenant-1", "project-1")
    store = await stores.create(owner, embedder=EMBEDDER, scope=StoreScope.PERSON, person="user-ada")
    path = f"/v1/vector_stores/{store.id}"
    await shelf.get(f"/{store.id}", status=404)  # a key of the project without a person
    attached = await shelf.client.post(f"{path}/files", json={"file_id": file}, headers=ada)
    assert attached.status_code == 200, attached.text

    async def statuses(headers: dict[str, str]) -> set[int]:
        calls = [("GET", "", None), ("POST", "/search", {"query": "dog"}), ("GET", f"/files/{file}/content", None)]
        return {
            (await shelf.client.request(method, f"{path}{url}", json=body, headers=headers)).status_code
            for method, url, body in calls
        }

    assert (await statuses(ada), await statuses(bob)) == ({200}, {404})
    await stores.share(store, ORGANISATION)
    assert await statuses(bob) == {200}
    assert [each["id"] for each in (await shelf.client.get("/v1/vector_stores", headers=bob)).json()["data"]] == [
        store.id
    ]
    for method, url, body in (
        ("POST", "", {"name": "mine"}),
        ("POST", "/files", {"file_id": file}),
        ("POST", f"/files/{file}", {"attributes": {}}),
        ("DELETE", f"/files/{file}", None),
        ("POST", "/file_batches", {"file_ids": [file]}),
        ("DELETE", "", None),
    ):
        response = await shelf.client.request(method, f"{path}{url}", json=body, headers=bob)
        assert response.status_code == 403, (method, url, response.text)
    await stores.unshare(store, ORGANISATION)
    assert await statuses(bob) == {404}


async def test_stores_are_listed_in_pages(shelf: Library) -> None:
    ids = [(await shelf.create(name=str(number)))["id"] for number in range(3)]
    first = await shelf.get("?limit=2")
    assert [each["id"] for each in first["data"]] == ids[:0:-1]
    assert first["has_more"] is True
    rest = await shelf.get(f"?limit=2&after={first['last_id']}")
    assert ([each["id"] for each in rest["data"]], rest["has_more"]) == ([ids[0]], False)
    back = await shelf.get(f"?limit=1&before={rest['first_id']}")
    assert [each["id"] for each in back["data"]] == [ids[1]]
    assert (await shelf.get("?after=vs_none", status=400))["error"]["param"] == "after"


async def test_a_store_is_changed(shelf: Library) -> None:
    store = await shelf.create(name="pets", expires_after={"anchor": "last_active_at", "days": 1})
    assert store["expires_at"] == store["last_active_at"] + 86400
    changed = await shelf.post(f"/{store['id']}", {"metadata": {"a": "b"}})
    assert (changed["name"], changed["metadata"], changed["expires_after"]) == (
        "pets",
        {"a": "b"},
        store["expires_after"],
    )
    forever = await shelf.post(f"/{store['id']}", {"name": "zoo", "expires_after": None})
    assert (forever["name"], forever["expires_after"], forever["expires_at"]) == ("zoo", None, None)


async def test_a_file_expires_in_vector_stores_when_the_project_s_file_does(shelf: Library) -> None:
    form = {"purpose": "assistants", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    uploaded = (await shelf.client.post("/v1/files", data=form, files={"file": ("a.md", DOGS)})).json()
    store = await shelf.post("", {"file_ids": [uploaded["id"]]})
    (attached,) = await shelf.stage.gateway.vector_stores.records.find_files(store["id"], [uploaded["id"]])
    assert int(attached.expires) == uploaded["expires_at"]


async def test_an_expired_store_is_neither_searched_nor_filled(shelf: Library) -> None:
    store = await shelf.create(DOGS, expires_after={"anchor": "last_active_at", "days": 1})
    records = shelf.stage.gateway.vector_stores.records
    (found,) = await records.find_any([store["id"]])
    await records.update(replace(found, expires=1.0))
    assert (await shelf.get(f"/{store['id']}"))["status"] == "expired"
    refused = await shelf.post(f"/{store['id']}/search", {"query": "dog"}, status=400)
    assert refused["error"]["code"] == "vector_store_expired"


async def test_a_full_project_gets_no_vector_store_and_imports_no_text(shelf: Library) -> None:
    quota = shelf.stage.gateway.vector_stores.quota
    store, id = await shelf.create(), await shelf.upload(b"A long text. " * 4000)
    await quota.close()
    quota.quotas.per_project = 20_000
    await shelf.post(f"/{store['id']}/files", {"file_id": id})
    await shelf.imported(store["id"])
    (failed,) = (await shelf.get(f"/{store['id']}/files"))["data"]
    assert (failed["status"], failed["last_error"]["code"]) == ("failed", "server_error")
    assert "stores as much as is allowed" in failed["last_error"]["message"]
    await quota.close()
    quota.quotas.per_project = 1
    other = await shelf.upload(DOGS)
    for path, body in (
        ("", {"file_ids": [other]}),
        (f"/{store['id']}/files", {"file_id": other}),
        (f"/{store['id']}/file_batches", {"file_ids": [other]}),
    ):
        response = await shelf.client.post(f"/v1/vector_stores{path}", json=body)
        assert error_of(response) == (429, "insufficient_quota", None), path
        assert response.headers["x-should-retry"] == "false"
    assert [each["id"] for each in (await shelf.get(""))["data"]] == [store["id"]]
    assert (await shelf.get(f"/{store['id']}"))["file_counts"]["total"] == 1


async def test_without_an_embedding_model_there_are_no_stores(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.client.post("/v1/vector_stores", json={})
    assert error_of(response) == (400, "model_not_found", None)
    assert "No embedding model" in response.json()["error"]["message"]


async def test_the_setting_names_the_embedding_model(set_stage: SetStage) -> None:
    stage = await set_stage(embedding_model="org/other")
    response = await stage.client.post("/v1/vector_stores", json={})
    assert error_of(response) == (400, "model_not_found", None)
    assert "org/other" not in response.json()["error"]["message"]


async def test_attaching_and_searching_need_the_scope_of_embeddings(shelf: Library) -> None:
    store = await shelf.create()
    scopes = PROJECT_SCOPES - {Scope.EMBEDDINGS}
    caller = Principal("key-3", "tenant-1", "salt-1", project="project-1", scopes=scopes)
    shelf.stage.accounts.added["hr_live_files"] = caller
    headers = {"authorization": "Bearer hr_live_files"}
    for path, body in ((f"/{store['id']}/search", {"query": "x"}), ("", {})):
        response = await shelf.client.post(f"/v1/vector_stores{path}", json=body, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (403, "missing_scope")
    listed: httpx.Response = await shelf.client.get("/v1/vector_stores", headers=headers)
    assert [each["id"] for each in listed.json()["data"]] == [store["id"]]


RERANKER = "org/reranker"


@asynccontextmanager
async def reranker(shelf: Library) -> AsyncIterator[ScriptedWorker]:
    """A worker beside the embedder whose scores are higher for longer texts."""
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(shelf.stage.broker, "worker-3"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, RERANKER, score, "worker-3", task=Task.SCORE)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: shelf.stage.gateway.models.find(RERANKER) is not None)
        yield worker


async def test_a_named_reranker_ranks_the_found_passages_again_and_is_billed(shelf: Library) -> None:
    store = await shelf.create(b"A dog and a dog.\n", b"# Kennels\n\nMuch longer text about one dog.\n", RENT)
    async with reranker(shelf) as worker:
        receipts = len(shelf.stage.receipts)
        plain = await shelf.search(store["id"], "dog", max_num_results=2)
        assert [each["filename"] for each in plain] == ["0.md", "1.md"]
        found = await shelf.search(store["id"], "dog", max_num_results=2, ranking_options={"ranker": RERANKER})
        (job,) = worker.jobs
        assert isinstance(job.prompt, ScorePrompt)
        assert set(job.prompt.contexts) == {"dog"}
        longest_first = sorted(map(str, job.prompt.candidates), key=len, reverse=True)
        assert longest_first[-1] == "A dog and a dog."
        assert [each["content"][0]["text"] in text for each, text in zip(found, longest_first, strict=False)] == [
            True
        ] * 2
        assert [each["score"] for each in found] == pytest.approx(
            [1 / (1 + math.exp(-len(text) / 10)) for text in longest_first[:2]]
        )
        await eventually(lambda: len(shelf.stage.receipts) == receipts + 3)
        tokens = [TOKENS_OF_A_TEXT, TOKENS_OF_A_TEXT, 3 * len(job.prompt.candidates)]
        assert sorted(each.usage.prompt_tokens for each in shelf.stage.receipts[receipts:]) == sorted(tokens)
        threshold = {"ranker": RERANKER, "score_threshold": 0.99}
        above = await shelf.search(store["id"], "dog", ranking_options=threshold)
        assert {each["filename"] for each in above} == {"1.md", "2.md"}


async def test_the_reranker_of_the_setting_is_used_unless_a_request_names_another_ranker() -> None:
    async with library(rerank_model=RERANKER) as shelf, reranker(shelf) as worker:
        store = await shelf.create(DOGS, CATS)
        await shelf.search(store["id"], "dog")
        await shelf.search(store["id"], "dog", ranking_options={"ranker": "auto"})
        assert len(worker.jobs) == 2
        await shelf.search(store["id"], "dog", ranking_options={"ranker": "none"})
        await shelf.search(store["id"], "dog", ranking_options={"ranker": "default-2024-11-15"})
        nothing = {"hybrid_search": weights(0.0, 1.0)}
        assert await shelf.search(store["id"], "submarine", ranking_options=nothing) == []
        assert len(worker.jobs) == 2


async def test_a_refused_search_does_not_name_the_reranker_of_the_setting() -> None:
    async with library(rerank_model=RERANKER) as shelf:
        store = await shelf.create(DOGS)
        refused = await shelf.post(f"/{store['id']}/search", {"query": "dog"}, status=404)
        assert (refused["error"]["code"], refused["error"]["param"]) == ("model_not_found", "ranker")
        assert RERANKER not in refused["error"]["message"]
        assert await shelf.search(store["id"], "dog", ranking_options={"ranker": "none"})


@pytest.mark.parametrize(("ranker", "status"), [("no/such", 404), (EMBEDDER, 400)])
async def test_a_reranker_that_does_not_score_costs_nothing(shelf: Library, ranker: str, status: int) -> None:
    store = await shelf.create(DOGS)
    embedded = len(shelf.worker.jobs)
    body = {"query": "dog", "ranking_options": {"ranker": ranker}}
    refused = await shelf.post(f"/{store['id']}/search", body, status=status)
    assert refused["error"]["param"] == "ranker"
    assert len(shelf.worker.jobs) == embedded
