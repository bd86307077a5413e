"""Imports the documents of a data set into vector stores and searches them, by OpenAI's client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import openai

from benchmarks.retrieval.data_set import CorpusDocument, Query
from benchmarks.retrieval.scoring import Accepted, RetrievedPassage, Searched

FILES_OF_BATCH = 2000
"""Most files that one request attaches."""
UPLOADS, SEARCHES = 8, 4
"""Requests at once."""
LIMIT = 50
"""Passages that are searched for: the most that a search returns."""
DOCUMENT = "document"
"""Attribute of files: the id of their document."""
POLL_SECONDS = 0.5

Options = Mapping[str, Any]
"""Fields of a request body."""


class ImportFailed(Exception):
    """Raised when a document was not imported; the message names the first reason."""


@dataclass(frozen=True)
class Corpus:
    """The documents of a data set as files of the API."""

    api: openai.AsyncOpenAI
    files: Mapping[str, str]
    """Ids of documents by the ids of their files."""

    @classmethod
    async def upload(cls, api: openai.AsyncOpenAI, documents: Sequence[CorpusDocument]) -> Corpus:
        """Upload each document as a Markdown file."""
        places = asyncio.Semaphore(UPLOADS)

        async def upload(number: int, document: CorpusDocument) -> tuple[str, str]:
            async with places:
                content = (f"{number}.md", document.markdown.encode())
                return (await api.files.create(file=content, purpose="assistants")).id, document.id

        return cls(api, dict(await asyncio.gather(*(upload(*each) for each in enumerate(documents)))))

    async def attach(self, chunking: Options) -> str:
        """Create a vector store that imports all files with a chunking strategy, and return its id."""
        store = await self.api.vector_stores.create(name="benchmark")
        files = list(self.files)
        for start in range(0, len(files), FILES_OF_BATCH):
            await self.api.vector_stores.file_batches.create(
                store.id,
                extra_body={
                    "files": [
                        {"file_id": each, "attributes": {DOCUMENT: self.files[each]}, "chunking_strategy": chunking}
                        for each in files[start : start + FILES_OF_BATCH]
                    ]
                },
            )
        return store.id

    async def index(self, chunking: Options) -> str:
        """Create a vector store of all files with a chunking strategy; return its id when all are imported.

        Raises:
            ImportFailed: a file could not be imported.
        """
        id = await self.attach(chunking)
        while (store := await self.api.vector_stores.retrieve(id)).file_counts.in_progress:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
        if store.file_counts.completed != len(self.files):
            failed = await self.api.vector_stores.files.list(id, filter="failed", limit=1)
            raise ImportFailed(str(failed.data[0].last_error if failed.data else store.file_counts))
        return id

    async def passages(self, store: str) -> dict[str, list[str]]:
        """Return the passages of each document of a vector store, by the documents' ids."""
        return {
            document: [
                part.text or "" async for part in self.api.vector_stores.files.content(file, vector_store_id=store)
            ]
            for file, document in self.files.items()
        }

    async def search(self, store: str, queries: Sequence[Query], ranking: Options) -> Searched:
        """Search a vector store for each query, with these ranking options."""
        return await self._search(store, queries, {"max_num_results": LIMIT, "ranking_options": ranking})

    async def accepted(self, store: str, queries: Sequence[Query], ranking: Options) -> Accepted:
        """Search a vector store for each query, and return those to which the product says passages are relevant."""
        options = {"max_num_results": 1, "ranking_options": {**ranking, "only_if_relevant": True}}
        complete = await self._search(store, queries, options)
        answerable = [each for each in queries if each.can_lose_documents]
        reduced = await self._search(store, answerable, options, reduced=True)
        return Accepted({id for id, found in complete.items() if found}, {id for id, found in reduced.items() if found})

    async def _search(
        self, store: str, queries: Sequence[Query], options: Options, *, reduced: bool = False
    ) -> Searched:
        """Search for each query with the fields `options`; `reduced`: in the documents that do not answer it."""
        places = asyncio.Semaphore(SEARCHES)

        async def search(query: Query) -> tuple[str, list[RetrievedPassage]]:
            others = {"filters": {"type": "nin", "key": DOCUMENT, "value": list(query.grades)}} if reduced else {}
            async with places:
                page = await self.api.vector_stores.search(store, query=query.text, extra_body={**options, **others})
            return query.id, [
                RetrievedPassage(self.files[each.file_id], "\n".join(part.text for part in each.content), each.score)
                for each in page.data
            ]

        return dict(await asyncio.gather(*(search(each) for each in queries)))
