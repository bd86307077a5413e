"""A stored background response and the store of its run, for tests of its writer and its readers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gateway.answers.responses.background_run import BackgroundRun, LogWriter, events_of
from gateway.answers.responses.events import ResponseEvents
from gateway.answers.responses.response_object import ResponseObject
from gateway.answers.responses.run_log import encoded
from gateway.http.gateway import Gateway
from gateway.openai.responses.request import ResponseRequest
from router.messages import ChatPrompt, Delta, Job, ServiceClass
from router.messages.codec import encode
from stored_objects.project_documents.project_documents import ProjectDocuments, Retention
from stored_objects.project_documents.records import ProjectDocument, ProjectOwner
from stored_objects.project_documents.response_runs import LogGroup, ResponseRun
from stored_objects.responses.responses import StoredResponse, StoredResponses, new_document
from tests.fakes.byte_counts import document_quota
from tests.fakes.jobs import make_job
from tests.fakes.project_documents import DictDocumentStore, DictResponseRuns
from tests.fakes.stored_objects import stored_objects
from tests.gateway.answers.responses.client import ID
from tests.gateway.conftest import MODEL

OWNER = ProjectOwner("org-1", "project-1")
CALLER = ProjectOwner("tenant-1", "project-1")
"""Project of the clients of test gateways."""
RUNNER = "gateway-1"
ADDRESS = "http://gateway/{}".format


def stored_events(stored: StoredResponse) -> ResponseEvents:
    """The events of a stored response without images."""
    return events_of(stored, ADDRESS, stored_objects())


async def abandon(
    gateway: Gateway, *log: Sequence[Delta], model: str = MODEL, deadline: float = 60.0, **run: Any
) -> Job:
    """Store the run of a process that has died with these groups in its log; return its first job."""
    body = ResponseRequest.parse({"model": model, "input": "hi", "background": True, "max_output_tokens": 4})
    response = ResponseObject.of(ID, body, model=model, service_class=ServiceClass.DEFAULT).in_state("queued")
    content = await new_document(StoredResponse(response, []))
    (document,) = gateway.documents.responses.created(CALLER, content)
    now = time.time()
    prompt = ChatPrompt(messages=[{"role": "user", "content": "hi"}])
    job = make_job(ID, model=model, tenant=CALLER.organisation, created=now, deadline=now + deadline, prompt=prompt)
    store = gateway.background.runs
    for number, group in enumerate(log):
        await store.append([LogGroup(ID, CALLER, number, encoded(group), document.created, document.expires)])
    await store.begin(document, ResponseRun("dead", 1.0, encode(job), "key-1", "", **run))
    return job


class StoredRun:
    """A queued background response of `OWNER` in a store, whose run `RUNNER` holds."""

    def __init__(self) -> None:
        self.store = DictDocumentStore()
        self.runs = DictResponseRuns(self.store)
        self.quota = document_quota()
        self.documents = ProjectDocuments(self.store, Retention(30), self.quota)
        self.responses = StoredResponses(self.documents)
        self.log = LogWriter(self.runs)
        self.document: ProjectDocument
        self.stored: StoredResponse

    async def begin(self, **fields: Any) -> StoredRun:
        body = ResponseRequest.parse({"model": "m", "input": "hi", "background": True, **fields})
        response = ResponseObject.of(ID, body, model="m", service_class=ServiceClass.DEFAULT)
        self.stored = StoredResponse(response.in_state("queued"), [{"id": f"msg_{7:032x}0000", "type": "message"}])
        (self.document,) = self.documents.created(OWNER, await new_document(self.stored))
        await self.runs.begin(self.document, ResponseRun(RUNNER, 2e9, b"job", "key-1", ""))
        return self

    def run(self) -> BackgroundRun:
        """The run in a process."""
        run = BackgroundRun(self.document, self.stored, stored_events(self.stored), self.log)
        run.begin()
        return run

    def hold(self, runner: str) -> None:
        """Give the lease to another process."""
        self.runs.runs[ID] = replace(self.runs.runs[ID], runner=runner)

    async def response(self) -> dict[str, Any]:
        """The stored response object."""
        return (await self.responses.find(OWNER, ID)).response
