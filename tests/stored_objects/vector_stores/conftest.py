"""Vector stores in memory, with their quota, and a runner of imports."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from documents.content import Passage
from stored_objects.files.files import ProjectFiles
from stored_objects.objects.quota import CountSubject
from stored_objects.project_documents.quota import DocumentQuota
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.imports import VectorStoreImports
from stored_objects.vector_stores.passages import PassageBlock, counted_size, passage_set_id
from stored_objects.vector_stores.records import Chunking, VectorStore, VectorStoreFile
from stored_objects.vector_stores.vector_stores import NewFile, VectorStores
from tests.fakes.byte_counts import document_quota
from tests.fakes.stored_objects import stored_objects
from tests.fakes.vector_stores import DictPassages, DictVectorStores
from tests.stored_objects.conftest import Clock

ADA, BOB, EVE = ProjectOwner("org-1", "proj-1"), ProjectOwner("org-1", "proj-2"), ProjectOwner("org-2", "proj-1")
CHUNKING = Chunking(800, 400)
RUNNER = "gateway-1"
PASSAGES = [Passage("Umowa najmu lokalu", 1, ("Umowa",), 0, 18, 4), Passage("Kaucja", 2, (), 20, 26, 2)]
DIMENSION = 4
SIZE = counted_size(PASSAGES, DIMENSION)


@dataclass
class Platform:
    """Vector stores in memory, and an organisation's project that imports into them."""

    clock: Clock
    records: DictVectorStores = field(default_factory=DictVectorStores)
    passages: DictPassages = field(default_factory=DictPassages)

    def __post_init__(self) -> None:
        self.quota: DocumentQuota = document_quota([self.records], clock=self.clock)
        self.files = ProjectFiles(stored_objects(clock=self.clock), clock=self.clock)
        self.stores = VectorStores(self.records, self.passages, self.quota, self.files, clock=self.clock)
        self.imports = VectorStoreImports(self.stores, clock=self.clock)

    async def used(self, owner: ProjectOwner = ADA) -> int:
        """Return the bytes that are counted for a project's passages."""
        return await self.counted(owner) - await self.records_size(owner)

    async def counted(self, owner: ProjectOwner = ADA) -> int:
        """Return all bytes that are counted for a project."""
        await self.quota.close()
        who = owner.quota_owner
        return await self.quota.quotas.used(CountSubject(who.organisation, who.requester))

    async def records_size(self, owner: ProjectOwner = ADA) -> int:
        """Return the bytes that a project's records take besides passages."""
        stored = await self.records.stored_bytes(owner.organisation, owner.quota_owner.requester)
        return stored - sum(each.size for each in self.records.files.values() if each.owner == owner)

    async def create(self, owner: ProjectOwner = ADA, *files: str) -> VectorStore:
        """Create a vector store with files in progress."""
        store = await self.stores.create(owner, embedder="minilm")
        if files:
            await self.stores.add(store, [new_file(each) for each in files])
        return store

    async def delete_file(self, store: VectorStore, file: str) -> None:
        """Delete a file of a vector store."""
        await self.stores.erase(await self.stores.find_file(store, file))

    async def claim(self, runner: str = RUNNER) -> VectorStoreFile:
        """Claim the oldest file in progress."""
        (waiting,) = await self.imports.waiting(1)
        file = await self.imports.claim(waiting, runner)
        assert file is not None
        return file

    async def import_next(self, content: str = "content", runner: str = RUNNER) -> VectorStoreFile:
        """Import the oldest file in progress."""
        file = await self.claim(runner)
        id = set_id(file, content)
        passages = await self.imports.begin(file, id, SIZE)
        if not passages.is_ready:
            for number in range(await self.imports.written(passages), 2):
                await self.imports.add(passages, block(id, number))
            await self.imports.finish(file, passages, 2)
        await self.imports.complete(file)
        return file


def new_file(id: str) -> NewFile:
    return NewFile(id, f"{id}.pdf", CHUNKING, {"year": 2026.0})


def set_id(file: VectorStoreFile, content: str = "content") -> str:
    return passage_set_id(file.organisation, content, "minilm", file.chunking, "parsers-1")


def block(set: str, number: int) -> PassageBlock:
    return PassageBlock(set, number, [PASSAGES[number]], b"\x00\x3c" * DIMENSION)


@pytest.fixture
def platform(clock: Clock) -> Platform:
    return Platform(clock)
