"""Runs of background responses, in memory and in MongoDB: leases, logs that only their holder extends, and ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.store.connection import StoreConnection
from auth_billing.store.idempotency import MongoIdempotencyStore
from router.messages import Outcome, Receipt, Usage
from stored_objects.project_documents.records import DocumentStore, ProjectDocument, ProjectOwner
from stored_objects.project_documents.response_runs import LogGroup, ResponseRun, ResponseRuns
from stored_objects.store.documents import RESPONSES, MongoDocumentStore
from stored_objects.store.response_runs import MongoResponseRuns
from tests.fakes.project_documents import DictDocumentStore, DictResponseRuns

OURS, THEIRS = ProjectOwner("org-1", "proj-1"), ProjectOwner("org-1", "proj-2")
NOW = 1000.0
RUN = ResponseRun("runner-1", NOW + 10, b"job", "key-1", "user-1", search=b"plan")
DOCUMENT = ProjectDocument("resp_1", OURS.organisation, OURS.project, NOW, NOW + 1e6, b"queued")
USAGE = Usage(prompt_tokens=3, completion_tokens=4)
RECEIPT = Receipt(job="resp_1-1", tenant="org-1", gateway="gateway-1", outcome=Outcome.FINISHED, usage=USAGE, at=NOW)


@pytest.fixture(params=["memory", pytest.param("store", marks=pytest.mark.store)])
def stores(request: pytest.FixtureRequest) -> tuple[ResponseRuns, DocumentStore]:
    if request.param == "memory":
        documents = DictDocumentStore()
        return DictResponseRuns(documents), documents
    connection = request.getfixturevalue("connection")
    return MongoResponseRuns(connection), MongoDocumentStore(connection, RESPONSES)


def group(number: int, content: bytes = b"x") -> LogGroup:
    return LogGroup(DOCUMENT.id, OURS, number, content, NOW, NOW + 1e6)


async def test_one_process_claims_an_expired_run(stores: tuple[ResponseRuns, DocumentStore]) -> None:
    runs, _ = stores
    await runs.begin(DOCUMENT, RUN)
    assert await runs.abandoned(NOW + 9, 5) == []
    assert await runs.claim(DOCUMENT.id, "runner-2", NOW + 30, NOW + 9) is None
    assert await runs.renew("runner-1", [DOCUMENT.id, "resp_2"], NOW + 20) == {DOCUMENT.id: False}
    assert await runs.abandoned(NOW + 21, 5) == [DOCUMENT.id]
    claimed = await runs.claim(DOCUMENT.id, "runner-2", NOW + 30, NOW + 21)
    assert claimed == (DOCUMENT, replace(RUN, runner="runner-2", lease=NOW + 30, takeovers=1))
    assert await runs.claim(DOCUMENT.id, "runner-3", NOW + 30, NOW + 21) is None
    assert await runs.renew("runner-1", [DOCUMENT.id], NOW + 50) == {}
    await runs.release(DOCUMENT.id, "runner-1")
    assert await runs.abandoned(NOW + 22, 5) == []
    await runs.release(DOCUMENT.id, "runner-2")
    assert await runs.abandoned(NOW + 22, 5) == [DOCUMENT.id]


async def test_a_response_is_begun_by_one_run(stores: tuple[ResponseRuns, DocumentStore]) -> None:
    runs, _ = stores
    assert await runs.begin(DOCUMENT, RUN)
    assert await runs.renew("runner-1", [DOCUMENT.id], NOW + 20) == {DOCUMENT.id: False}
    assert await runs.begin(DOCUMENT, RUN)  # the same write, repeated because its answer was lost
    assert not await runs.begin(replace(DOCUMENT, content=b"other"), replace(RUN, runner="runner-2"))
    assert await runs.claim(DOCUMENT.id, "runner-3", NOW + 40, NOW + 21) == (
        DOCUMENT,
        replace(RUN, runner="runner-3", lease=NOW + 40, takeovers=1),
    )


async def test_a_log_has_each_number_once(stores: tuple[ResponseRuns, DocumentStore]) -> None:
    runs, documents = stores
    await runs.begin(DOCUMENT, RUN)
    assert await runs.append([group(0, b"a"), group(1, b"b")]) == [True, True]
    assert await runs.append([group(1, b"c"), group(2, b"d")]) == [False, True]
    assert await runs.log(OURS, DOCUMENT.id, 0) == [b"a", b"b", b"d"]
    assert await runs.log(OURS, DOCUMENT.id, 2) == [b"d"]
    assert await runs.log(OURS, "resp_2", 0) == []
    assert await documents.delete_items(OURS, DOCUMENT.id) == 0
    assert await documents.delete(OURS, DOCUMENT.id) == DOCUMENT.size
    assert await runs.log(OURS, DOCUMENT.id, 0) == []
    assert await runs.renew("runner-1", [DOCUMENT.id], NOW + 50) == {}


async def test_only_the_holder_ends_a_run(stores: tuple[ResponseRuns, DocumentStore]) -> None:
    runs, documents = stores
    await runs.begin(DOCUMENT, RUN)
    assert await runs.is_running(OURS, DOCUMENT.id) is True
    assert not await runs.finish(DOCUMENT.id, "runner-2", b"theirs", 9, [RECEIPT])
    assert await runs.finish(DOCUMENT.id, "runner-1", b"ended", 7000, [RECEIPT])
    assert not await runs.finish(DOCUMENT.id, "runner-1", b"again", 9, [])
    found = await documents.find(OURS, DOCUMENT.id, NOW)
    assert found == replace(DOCUMENT, content=b"ended")
    assert await documents.stored_bytes("org-1", OURS.quota_owner.requester) == 7000
    assert await runs.is_running(OURS, DOCUMENT.id) is False
    assert await runs.abandoned(NOW + 1e9, 5) == []
    assert await runs.claim(DOCUMENT.id, "runner-2", NOW + 1e9, NOW + 1e8) is None


async def test_its_project_cancels_it_while_it_runs(stores: tuple[ResponseRuns, DocumentStore]) -> None:
    runs, documents = stores
    await runs.begin(DOCUMENT, RUN)
    assert not await runs.cancel(THEIRS, DOCUMENT.id)
    assert await runs.is_running(THEIRS, DOCUMENT.id) is None
    assert await runs.cancel(OURS, DOCUMENT.id)
    assert await runs.renew("runner-1", [DOCUMENT.id], NOW + 20) == {DOCUMENT.id: True}
    await runs.finish(DOCUMENT.id, "runner-1", b"cancelled", 9, [])
    assert not await runs.cancel(OURS, DOCUMENT.id)
    await documents.insert([replace(DOCUMENT, id="resp_2")])
    assert await runs.is_running(OURS, "resp_2") is None


@pytest.mark.store
async def test_the_sweeper_finds_the_receipts_of_an_ended_response(connection: StoreConnection) -> None:
    runs = MongoResponseRuns(connection)
    await runs.begin(DOCUMENT, RUN)
    answered = MongoIdempotencyStore(connection)
    assert await answered.statements([DOCUMENT.id]) == {}
    await runs.finish(DOCUMENT.id, "runner-1", b"ended", 9, [RECEIPT])
    (statement,) = (await answered.statements([DOCUMENT.id])).values()
    assert (statement.usage, statement.outcome) == (RECEIPT.usage, RECEIPT.outcome)


@pytest.mark.store
async def test_a_run_of_an_earlier_version_has_no_searches(connection: StoreConnection) -> None:
    runs = MongoResponseRuns(connection)
    await runs.begin(DOCUMENT, RUN)
    await connection.durable(RESPONSES).update_one({"_id": DOCUMENT.id}, {"$unset": {"run.search": ""}})
    claimed = await runs.claim(DOCUMENT.id, "runner-2", NOW + 30, NOW + 21)
    assert claimed is not None
    assert claimed[1].search == b""
