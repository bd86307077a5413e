"""Documents that people upload, without models: a test imports them, and says what searches find."""

from __future__ import annotations

from dataclasses import dataclass, field

from auth_billing.access.principal import Principal
from chat_ui.document_search import PassageHit
from documents.content import Passage
from stored_objects.files.files import FILE_PREFIX, public_id
from stored_objects.objects.records import StoredObject
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import StoreScope
from stored_objects.vector_stores.imports import VectorStoreImports
from stored_objects.vector_stores.passages import BLOCK_PASSAGES, PassageBlock, counted_size, passage_set_id
from stored_objects.vector_stores.records import Chunking, ImportFailure, VectorStore
from stored_objects.vector_stores.vector_stores import NewFile, VectorStores

VECTOR = b"\x00\x3c"
"""Vector of each passage: a float16."""


@dataclass
class ScriptedDocumentSearch:
    """`DocumentSearch` over vector stores in memory."""

    stores: VectorStores
    found: list[PassageHit] = field(default_factory=list)
    """What each search finds."""
    error: Exception | None = None
    """What is raised instead."""
    by_name: dict[str, list[Passage] | ImportFailure] = field(default_factory=dict)
    """Results of imports by the names of the files."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Vector store and question of each search."""
    addresses: list[str] = field(default_factory=list)
    """Network address of each search's client."""

    async def create(self, principal: Principal, name: str, scope: StoreScope) -> VectorStore:
        self._fail()
        owner, person = ProjectOwner.of(principal), principal.user
        return await self.stores.create(owner, embedder="minilm", name=name, scope=scope, person=person)

    async def add(self, principal: Principal, store: VectorStore, file: StoredObject) -> None:
        self._fail()
        id = public_id(FILE_PREFIX, file.id)
        await self.stores.add(store, [NewFile(id, file.name, Chunking(400, 50), {}, person=principal.user)])

    async def search(
        self, principal: Principal, store: VectorStore, query: str, limit: int, *, address: str
    ) -> list[PassageHit]:
        self._fail()
        self.asked.append((store.id, query))
        self.addresses.append(address)
        return self.found[:limit]

    async def import_next(self, result: list[Passage] | ImportFailure | None = None) -> str:
        """Import the oldest file in progress, with this result or that of its name, and return its id."""
        imports = VectorStoreImports(self.stores)
        (waiting,) = await imports.waiting(1)
        file = await imports.claim(waiting, "gateway-1")
        assert file is not None
        result = result or self.by_name[file.name]
        if isinstance(result, ImportFailure):
            await imports.fail(file, result)
            return file.file
        id = passage_set_id(file.organisation, file.file, "minilm", file.chunking, "parsers-1")
        built = await imports.begin(file, id, counted_size(result, 1))
        for start in range(0, len(result), BLOCK_PASSAGES):
            passages = result[start : start + BLOCK_PASSAGES]
            block = PassageBlock(id, start // BLOCK_PASSAGES, passages, VECTOR * len(passages))
            await imports.add(built, block)
        await imports.finish(file, built, -(-len(result) // BLOCK_PASSAGES))
        await imports.complete(file)
        return file.file

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error
