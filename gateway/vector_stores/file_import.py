"""Imports one file into a vector store: reads, parses, cuts and embeds it, and stores the passages.

It may be cut off at any moment: the next gateway that claims the file goes on after the last stored block, and repeats
the request of a block that had begun with the same idempotency key.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO

import structlog
from starlette.types import ASGIApp

from auth_billing.access.principal import Principal
from auth_billing.errors import InvalidApiKey, NoSuchRecord, StoreUnavailable
from documents.chunking import ChunkingOptions, divide
from documents.content import NO_TEXT, Document, Passage
from documents.errors import FileRefused, ParserUnavailable, UnsupportedFormat
from documents.parsing.parser import MAX_FILE_BYTES, DocumentParser
from documents.search.vectors import pack_vectors
from gateway.errors import GatewayError
from gateway.http.gateway import Gateway
from gateway.openai.token_estimate import estimated_tokens
from gateway.vector_stores.answer_erasures import AnswerErasures
from gateway.vector_stores.passage_embedding import EmbeddingBusy, EmbeddingRefused, embed, keyed_requests
from stored_objects.errors import BlobCorrupt, BlobNotFound, BlobsUnavailable, StorageQuotaExceeded
from stored_objects.vector_stores.imports import ImportLost, PassagesBusy
from stored_objects.vector_stores.passages import (
    BLOCK_PASSAGES,
    PassageBlock,
    PassageSet,
    counted_size,
    passage_set_id,
)
from stored_objects.vector_stores.records import ImportFailure, VectorStoreFile

RENEWAL_INTERVAL = 5.0
"""Seconds between two renewals of a lease."""
RETRY_DELAY = 10.0
"""Seconds until a file whose import an outage has interrupted is imported again."""
BUSY_DELAY = 60.0
"""Seconds until a file is imported again whose passages a busy service does not embed."""
AHEAD = 2
"""Blocks of one file that are embedded at the same time."""

TEXT_VERSION = "2"
"""Version of parsing, cutting and embedded texts: passages of another version are not used for newly added files."""
_log = structlog.get_logger(__name__)


class _Failed(Exception):
    """The import ends without passages, for a reason that the client sees."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = ImportFailure(code, message)


@dataclass(frozen=True)
class ImportContext:
    """Services that all imports of one gateway share."""

    gateway: Gateway
    app: ASGIApp
    """The gateway's application, to which embeddings are requested."""
    parser: DocumentParser
    erasures: AnswerErasures
    runner: str
    """Id of this process in the leases of files."""
    renewal_interval: float = RENEWAL_INTERVAL


class FileImport:
    """One file whose lease this gateway holds."""

    def __init__(self, context: ImportContext, file: VectorStoreFile) -> None:
        self._context = context
        self._gateway = context.gateway
        self._imports = context.gateway.imports
        self._file = file
        self._set: PassageSet | None = None
        self._erasures: list[asyncio.Task[None]] = []
        """Erasures of the vectors of stored blocks from answers, which run while the import goes on."""

    async def run(self) -> None:
        """Import the file to its end, or give it back, so that a gateway goes on later."""
        renewing = asyncio.create_task(self._renew())
        working = asyncio.create_task(self._import())
        try:
            await asyncio.wait([renewing, working], return_when=asyncio.FIRST_COMPLETED)
            for task in (renewing, working):
                if task.done():
                    task.result()
        except (ImportLost, PassagesBusy) as error:
            _log.info("an import ends here", file=self._file.id, reason=str(error))
        except (StoreUnavailable, BlobsUnavailable) as error:
            _log.warning("an import is interrupted", file=self._file.id, reason=str(error))
            await self._put_back(RETRY_DELAY)
        except EmbeddingBusy as error:
            await _cancel(renewing)  # a renewal would claim the file again
            _log.info("an import waits", file=self._file.id, reason=str(error))
            await self._put_back(BUSY_DELAY)
        except asyncio.CancelledError:
            await _cancel(renewing, working)
            await self._put_back(0.0)
            raise
        finally:
            await _cancel(renewing, working, *self._erasures)

    async def _import(self) -> None:
        try:
            await self._steps()
        except _Failed as error:
            await self._fail(error.failure)
        except (StoreUnavailable, BlobsUnavailable, ImportLost, PassagesBusy, EmbeddingBusy):
            raise
        except Exception:  # noqa: BLE001 - one broken file must not end the gateway
            _log.exception("an import failed by an error", file=self._file.id)
            await self._fail(ImportFailure("server_error", "The import failed by an error of the service."))

    async def _steps(self) -> None:
        found = await self._gateway.vector_stores.records.find_any([self._file.vector_store])
        if not found:
            raise ImportLost("the vector store was deleted")
        (store,) = found
        principal = await self._principal()
        passages, digest, document = await self._passages()
        dimension = self._dimension(store.embedder)
        parsed_as = _text_version(document) + PurePosixPath(self._file.name).suffix.lower()
        id = passage_set_id(self._file.organisation, digest, store.embedder, self._file.chunking, parsed_as)
        try:
            self._set = await self._imports.begin(self._file, id, counted_size(passages, dimension))
        except StorageQuotaExceeded as error:
            message = "Your project or organization stores as much as is allowed. Please delete something."
            raise _Failed("server_error", message) from error
        if not self._set.is_ready:
            await self._build(self._set, passages, principal, store.embedder)
        await self._imports.complete(self._file, " ".join(document.warnings))
        self._gateway.metrics.imported_files.labels("completed").inc()
        await asyncio.gather(*self._erasures)

    async def _principal(self) -> Principal:
        """Return the rights of the API key or person that added the file, for requests that no client waits for."""
        file, accounts = self._file, self._gateway.authenticator
        try:
            if file.person:
                found = await accounts.principal_of_member(file.organisation, file.project, file.person)
            else:
                found = await accounts.principal_of_key(file.key_id)
        except InvalidApiKey as error:
            raise _Failed("server_error", "The API key that has attached the file was revoked.") from error
        except NoSuchRecord as error:
            raise _Failed("server_error", "The person who uploaded the file is no member any more.") from error
        return replace(found, in_background=True)

    def _dimension(self, embedder: str) -> int:
        try:
            found = self._gateway.models.find(embedder)
        except GatewayError:
            return 0
        return 0 if found is None else found.dimensions

    async def _passages(self) -> tuple[list[Passage], str, Document]:
        """Read and cut the file; return its passages, the SHA-256 of its content, and its document."""
        with tempfile.TemporaryFile() as file:
            try:
                stored = await self._gateway.files.find(self._file.content_owner, self._file.file)
                if stored.size > MAX_FILE_BYTES:
                    raise _Failed("invalid_file", f"The file is larger than {MAX_FILE_BYTES // 2**20} MiB.")
                digest = hashlib.sha256()
                async for chunk in self._gateway.objects.stream(stored):
                    digest.update(chunk)
                    await asyncio.to_thread(file.write, chunk)
                document = await self._parsed(file)
            except BlobNotFound as error:
                raise _Failed("invalid_file", "The file was deleted before its import.") from error
            except BlobCorrupt as error:
                raise _Failed("server_error", "The stored file is damaged.") from error
        passages = await asyncio.to_thread(self._cut, document)
        if not passages:
            raise _Failed("invalid_file", " ".join(dict.fromkeys((NO_TEXT, *document.warnings))))
        return passages, digest.hexdigest(), document

    async def _parsed(self, file: BinaryIO) -> Document:
        file.flush()
        try:
            return await self._context.parser.parse(file, self._file.name)
        except UnsupportedFormat as error:
            raise _Failed("unsupported_file", str(error)) from error
        except FileRefused as error:
            raise _Failed("invalid_file", str(error)) from error
        except ParserUnavailable as error:
            _log.error("this machine reads no files", reason=str(error))
            raise _Failed("server_error", "The service can't read files at the moment.") from error

    def _cut(self, document: Document) -> list[Passage]:
        sizes = self._file.chunking
        options = ChunkingOptions(sizes.max_tokens, sizes.overlap_tokens)
        return divide(document, estimated_tokens, options)

    async def _build(self, built: PassageSet, passages: Sequence[Passage], principal: Principal, embedder: str) -> None:
        """Embed the blocks of a set that are not stored yet, a few at a time, and store them in order."""
        blocks = [passages[start : start + BLOCK_PASSAGES] for start in range(0, len(passages), BLOCK_PASSAGES)]
        first = await self._imports.written(built)
        if first:  # a killed gateway may have stored the last block only
            self._drop_answers(built, first - 1, principal)
        running: list[asyncio.Task[bytes]] = []
        try:
            for number in range(first, len(blocks)):
                for ahead in range(number + len(running), min(number + AHEAD, len(blocks))):
                    work = self._vectors(_key(built, ahead), blocks[ahead], principal, embedder)
                    running.append(asyncio.create_task(work))
                vectors = await running.pop(0)
                await self._imports.add(built, PassageBlock(built.id, number, blocks[number], vectors))
                self._drop_answers(built, number, principal)
        except EmbeddingRefused as error:
            raise _Failed("server_error", str(error)) from error
        finally:
            await _cancel(*running)
        await self._imports.finish(self._file, built, len(blocks))

    async def _vectors(self, key: str, passages: Sequence[Passage], principal: Principal, embedder: str) -> bytes:
        texts = [_embedded_text(each, self._file.chunking.max_tokens) for each in passages]
        vectors = await embed(self._context.app, principal, embedder, texts, key)
        return pack_vectors([array("f", each) for each in vectors])

    def _drop_answers(self, built: PassageSet, number: int, principal: Principal) -> None:
        """Erase the vectors of a stored block from the answer to its request, which would be kept for a day."""
        erasing = self._context.erasures.erase(keyed_requests(principal, _key(built, number)))
        self._erasures.append(asyncio.create_task(erasing))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._context.renewal_interval)
            building = None if self._set is None or self._set.is_ready else self._set
            with suppress(StoreUnavailable):
                await self._imports.renew(self._file, building)

    async def _fail(self, failure: ImportFailure) -> None:
        await self._imports.fail(self._file, failure)
        self._gateway.metrics.imported_files.labels("failed").inc()

    async def _put_back(self, seconds: float) -> None:
        with suppress(StoreUnavailable):
            await self._imports.put_back(self._file, seconds)


def _text_version(document: Document) -> str:
    """Return the version of a document's text: of recognised text its digest, too.

    Which pages are recognised, and how, depends on what is installed and on the time that recognition took.
    """
    if not document.recognised_pages:
        return TEXT_VERSION
    return f"{TEXT_VERSION}:{hashlib.sha256(document.text.encode()).hexdigest()}"


def _key(built: PassageSet, number: int) -> str:
    """Return the idempotency key of a block: another one if the same passages are built again after their erasure."""
    return f"passages:{built.id}:{built.build}:{number}"


def _embedded_text(passage: Passage, max_tokens: int) -> str:
    """Return the text that is embedded for a passage: with the headings above it where there is room for them."""
    above = [each for each in passage.heading_path if each not in passage.text]
    if not above:
        return passage.text
    headed = "\n".join((" > ".join(above), passage.text))
    return headed if estimated_tokens(headed) <= max_tokens else passage.text


async def _cancel(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
