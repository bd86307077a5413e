"""A stored background response and the store of its run, for tests of its writer and its readers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.answers.responses.background_run import BackgroundRun, LogWriter
from gateway.answers.responses.response_object import ResponseObject
from gateway.openai.responses.request import ResponseRequest
from router.messages import ServiceClass
from stored_objects.documents.project_documents import ProjectDocuments, Retention
from stored_objects.documents.records import ProjectDocument, ProjectOwner
from stored_objects.documents.runs import ResponseRun
from stored_objects.responses.responses import StoredResponse, StoredResponses, new_document
from tests.fakes.byte_counts import document_quota
from tests.fakes.project_documents import DictDocumentStore, DictResponseRuns
from tests.gateway.answers.responses.client import ID

OWNER = ProjectOwner("org-1", "project-1")
RUNNER = "gateway-1"
ADDRESS = "http://gateway/{}".format


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
        return BackgroundRun(self.document, self.stored, ADDRESS, self.log)

    def hold(self, runner: str) -> None:
        """Give the lease to another process."""
        self.runs.runs[ID] = replace(self.runs.runs[ID], runner=runner)

    async def response(self) -> dict[str, Any]:
        """The stored response object."""
        return (await self.responses.find(OWNER, ID)).response
