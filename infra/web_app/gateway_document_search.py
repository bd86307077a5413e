"""Has the chat's documents embedded and searched by the gateway of the same process, with errors translated."""

from __future__ import annotations

import json
from typing import Any

from starlette.types import ASGIApp

from auth_billing.access.principal import Principal
from auth_billing.errors import NoSuchRecord
from auth_billing.ids import new_id
from chat_ui.document_search import PassageHit
from chat_ui.errors import Busy, NoEmbedder, SearchRefused
from gateway.errors import GatewayError
from gateway.http.gateway import Gateway
from gateway.http.internal_requests import InternalAnswer, request_internally
from gateway.vector_stores.embedder import chunking_for, embedder_of, served_embedder
from router.producer.errors import GenerationError
from stored_objects.files.files import FILE_PREFIX, public_id
from stored_objects.objects.records import StoredObject
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import StoreScope
from stored_objects.vector_stores.records import VectorStore
from stored_objects.vector_stores.vector_stores import NewFile


class GatewayDocumentSearch:
    """Creates, fills and searches vector stores for the chat (implements `DocumentSearch`)."""

    def __init__(self, gateway: Gateway, app: ASGIApp) -> None:
        """`app`: the gateway's application, to which searches are requested."""
        self._gateway = gateway
        self._app = app

    async def create(self, principal: Principal, name: str, scope: StoreScope) -> VectorStore:
        """Create an empty vector store with the installation's embedding model."""
        try:
            embedder = embedder_of(self._gateway, principal)
        except (GatewayError, GenerationError) as error:
            raise NoEmbedder(str(error)) from error
        return await self._gateway.vector_stores.create(
            ProjectOwner.of(principal), embedder=embedder.name, name=name, scope=scope, person=principal.user
        )

    async def add(self, principal: Principal, store: VectorStore, file: StoredObject) -> None:
        """Add an uploaded file to a vector store, and wake the importer of this gateway."""
        try:
            embedder = served_embedder(self._gateway, principal, store.embedder)
        except (GatewayError, GenerationError) as error:
            raise NoEmbedder(str(error)) from error
        id, chunking = public_id(FILE_PREFIX, file.id), chunking_for(embedder, None)
        await self._gateway.vector_stores.add(store, [NewFile(id, file.name, chunking, {}, person=principal.user)])
        self._gateway.files_attached.set()

    async def search(
        self, principal: Principal, store: VectorStore, query: str, limit: int, *, address: str
    ) -> list[PassageHit]:
        """Search a vector store by a request of `principal` to the gateway's own application."""
        body = json.dumps({"query": query, "max_num_results": limit}).encode()
        path = f"/v1/vector_stores/{store.id}/search"
        answer = await request_internally(self._app, principal, path, new_id("search-"), body, address=address)
        if answer.status != 200:
            raise _refusal(answer)
        return [_passage(each) for each in json.loads(answer.body)["data"]]


def _passage(result: dict[str, Any]) -> PassageHit:
    (content,) = result["content"]
    return PassageHit(
        file=result["file_id"],
        name=result["filename"],
        number=result["passage"],
        text=content["text"],
        page=content["page"],
        heading_path=content["heading_path"],
        score=result["score"],
    )


def _refusal(answer: InternalAnswer) -> Exception:
    message = json.loads(answer.body)["error"]["message"]
    if answer.status == 404:
        return NoSuchRecord(message)
    return Busy(message) if answer.is_busy else SearchRefused(message)
