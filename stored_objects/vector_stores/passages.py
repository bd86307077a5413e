"""Sets of passages: what an organisation has computed of one content, shared by all its files with that content.

The id of a set is derived from the organisation, the content, the embedder, and how the text was parsed and cut
(`passage_set_id`), so the same content is embedded once. Rights stay those of the files: a set is only read by way of
a file, and it refers to the files of vector stores that it is kept for; without any it is erased.

One process, which holds the set's lease, adds the blocks; a block is one request to the embedder, and what another
process adds after a crash continues after the last one. Each method of the port raises `StoreUnavailable` when the
store does not answer in time, and may be repeated then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from documents.content import Passage
from stored_objects.vector_stores.records import Chunking

VECTOR_ITEM_BYTES = 2
"""Bytes of a number in a stored vector, which is a float16."""
BLOCK_PASSAGES = 64
"""Most passages of a block."""


class SetState(StrEnum):
    """State of a set of passages: its blocks are being added, are complete, or are being erased."""

    BUILDING = "building"
    READY = "ready"
    ERASING = "erasing"


@dataclass(frozen=True)
class PassageSet:
    """The passages of one content in an organisation, by one embedder and one way to cut it."""

    id: str
    organisation: str
    created: float
    state: SetState = SetState.BUILDING
    references: list[str] = field(default_factory=list)
    """Files that the set is kept for, each by its `VectorStoreFile.reference`."""
    kept: int = 0
    """Number of `references`."""
    blocks: int = 0
    """Number of blocks of a set that is ready."""
    runner: str = ""
    """Name of the import that adds the blocks."""
    lease: float = 0.0
    """Time until which only `runner` may add blocks."""
    build: str = ""
    """Id of this build of the set: after its erasure a set may be built again, with the same `id`.

    Blocks belong to a build, so that a late erasure, or a late import, of an earlier build changes none of a later one.
    Empty for sets of earlier versions.
    """

    @property
    def is_ready(self) -> bool:
        """Whether all blocks are stored."""
        return self.state is SetState.READY


@dataclass(frozen=True)
class PassageBlock:
    """Consecutive passages of a set, with their vectors; `number` counts the blocks of the set from 0."""

    set: str
    number: int
    passages: Sequence[Passage]
    vectors: bytes
    """Vectors of the passages in order, each of the same number of little-endian float16."""


def passage_set_id(organisation: str, content_sha256: str, embedder: str, chunking: Chunking, parser: str) -> str:
    """Return the id of the set of passages of a content in an organisation.

    `parser`: the version of the parsers, and the suffix of the file's name, by which they choose a format.
    """
    cut = f"{chunking.max_tokens}/{chunking.overlap_tokens}"
    named = "\n".join((organisation, content_sha256, embedder, cut, parser))
    return hashlib.sha256(named.encode()).hexdigest()


def counted_size(passages: Sequence[Passage], dimension: int) -> int:
    """Return the bytes that count towards quotas for a file with these passages, in any set: texts and vectors."""
    texts = sum(len(each.text.encode()) + sum(len(name.encode()) for name in each.heading_path) for each in passages)
    return texts + len(passages) * dimension * VECTOR_ITEM_BYTES


class PassageStore(Protocol):
    """Interface of the store of sets of passages."""

    async def keep(self, new: PassageSet, reference: str) -> PassageSet | None:
        """Add a reference to a set, and the set `new` if it is not stored; return the stored set.

        `None`: it is being erased; try again later.
        """
        ...

    async def claim(self, id: str, runner: str, now: float, lease: float) -> bool:
        """Give the set `id` to `runner` until the time `lease`, also to the one that has it.

        Return false if another process holds it, or the set is not being built.
        """
        ...

    async def written(self, passages: PassageSet) -> int:
        """Return the number of blocks of a set's build, which are added in order, that are stored."""
        ...

    async def add(self, passages: PassageSet, block: PassageBlock) -> bool:
        """Store the block that follows the last one of a set; repeatable, a stored block is not changed.

        Return false, and change nothing of the set, if this build of it has ended.
        """
        ...

    async def finish(self, id: str, runner: str, blocks: int) -> bool:
        """Make a set ready with its number of blocks; return false if `runner` does not hold it."""
        ...

    async def read(self, organisation: str, id: str, start: int, limit: int) -> list[PassageBlock]:
        """Return up to `limit` blocks of a set of an organisation from number `start` on, in order."""
        ...

    async def release(self, references: Mapping[str, str]) -> None:
        """Remove references, each from the set whose id it has here, and erase sets that have none left; repeatable."""
        ...

    async def erase_unkept(self, limit: int) -> int:
        """Erase up to `limit` sets that have no references or whose erasure was interrupted; return their number."""
        ...
