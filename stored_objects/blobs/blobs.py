"""Writes, reads, lists and deletes blobs: the immutable bytes of stored objects, in a folder or S3 bucket (by fsspec).

A blob is either stored completely or not at all, whenever its writer dies. Its reader checks size and SHA-256.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from auth_billing.ids import ALPHABET, LENGTH, new_id
from runtime.lifecycle import StartupError
from stored_objects.blobs.writers import DRAFT, BlobWriter, FileSystemWriter, FolderWriter
from stored_objects.errors import BlobCorrupt, BlobNotFound, BlobsUnavailable, BlobTooLarge

PREFIX = "blob_"
CHUNK = 1024 * 1024
"""Bytes that a stream reads or writes at once."""
THREADS = 8
"""Reads and writes that run at the same time in one process."""
_ID = re.compile(rf"{PREFIX}[A-Za-z0-9]{{{LENGTH}}}")
_FOLDER_LETTERS = 2
"""Letters of an id that name the blob's folder, so that no folder has too many files."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class BlobInfo:
    """Size in bytes and SHA-256 (64 hexadecimal digits) of a blob's content, which its reader checks."""

    size: int
    sha256: str

    @staticmethod
    def of(content: bytes) -> BlobInfo:
        """Return the size in bytes and the SHA-256 of `content`, the bytes of one blob."""
        return BlobInfo(len(content), hashlib.sha256(content).hexdigest())


def new_blob_id() -> str:
    """Create a random blob id: `blob_` and 24 letters and digits."""
    return new_id(PREFIX)


def derived_blob_id(name: str) -> str:
    """Return the blob id derived from `name`: a writer that repeats its work after a crash finds what it stored."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest())
    letters = []
    for _ in range(LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[digit])
    return PREFIX + "".join(letters)


def is_blob_id(text: str) -> bool:
    """Return whether `text` has the form of a blob id.

    Callers refuse other texts before any access to the file system.
    """
    return _ID.fullmatch(text) is not None


class Blobs:
    """Blobs below a URL of fsspec: `file:///folder`, `s3://bucket/prefix`, or `memory://name` in tests.

    Calls block threads of their own, not the event loop. A URL belongs to one installation: the sweeper deletes all
    blobs there that the installation has no document of.

    Args:
        options: options of the fsspec file system, such as the credentials of S3.
        max_bytes: the largest blob that `put` writes.

    Raises:
        StartupError: the URL is malformed, or its file system is not installed.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None, *, max_bytes: int) -> None:
        try:
            self._files, root = fsspec.core.url_to_fs(url, skip_instance_cache=True, **(options or {}))
        except (ValueError, ImportError) as error:
            raise StartupError(f"HEADRACE_BLOBS_URL={url}: {error}") from error
        self._root = str(root).rstrip("/")
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blobs")
        self.max_bytes = max_bytes

    async def check(self) -> None:
        """Check at start-up that blobs can be written: write and delete a small one, which creates a missing folder.

        Raises:
            StartupError: the folder is not writable, or the bucket does not answer.
        """
        probe = new_blob_id()
        try:
            await self.put(probe, b"")
            await self.delete(probe)
        except BlobsUnavailable as error:
            raise StartupError(f"can't use HEADRACE_BLOBS_URL: {error}") from error

    async def put(self, blob: str, content: bytes) -> BlobInfo:
        """Write `content` as the new blob with id `blob`, whole or (after an error or crash) not at all.

        Return size and SHA-256.

        Raises:
            BlobTooLarge: the content exceeds `max_bytes`; nothing is written.
            BlobsUnavailable: the write failed.
        """
        if len(content) > self.max_bytes:
            raise BlobTooLarge(len(content), self.max_bytes)
        return await self.write(blob, _pieces(content), max_bytes=self.max_bytes)

    async def write(self, blob: str, chunks: AsyncIterable[bytes], *, max_bytes: int) -> BlobInfo:
        """Write the content that `chunks` yields as the new blob with id `blob`, whole or not at all.

        At most a few `CHUNK` of it are in memory. Return size and SHA-256.

        Raises:
            BlobTooLarge: the content exceeds `max_bytes`; nothing is written.
            BlobsUnavailable: the write failed.
            Exception: what `chunks` raises; nothing is written.
        """
        size, digest = 0, hashlib.sha256()
        writer = await self._run(_in_place, self._writer, self._path(blob))

        def add(content: bytes) -> None:
            digest.update(content)
            writer.add(content)

        try:
            async for content in _gathered(chunks):
                size += len(content)
                if size > max_bytes:
                    raise BlobTooLarge(size, max_bytes)
                await self._run(_in_place, add, content)
            await self._run(_in_place, writer.commit)
        except BaseException:
            await asyncio.shield(self._run(writer.discard))
            raise
        return BlobInfo(size, digest.hexdigest())

    async def get(self, blob: str, info: BlobInfo) -> bytes:
        """Return the whole content of one blob, checked against `info`, its expected size and SHA-256.

        Raises:
            BlobNotFound, BlobsUnavailable: the blob can't be read.
            BlobCorrupt: the content differs from `info`.
        """
        return b"".join([chunk async for chunk in self.stream(blob, info)])

    async def stream(self, blob: str, info: BlobInfo) -> AsyncIterator[bytes]:
        """Yield the content of one blob in chunks; the last only if size and SHA-256 of the whole agree with `info`.

        Raises:
            BlobNotFound, BlobsUnavailable: the blob can't be read.
            BlobCorrupt: the content differs from `info`.
        """
        path, digest, position, held = self._path(blob), hashlib.sha256(), 0, b""
        if (size := await self._run(self._files.size, path)) != info.size:
            raise BlobCorrupt(f"{blob} has {size} bytes instead of {info.size}")
        while position < size:
            chunk = await self._run(self._read, path, position, min(position + CHUNK, size))
            if not chunk:
                raise BlobCorrupt(f"{blob} ends after {position} of {size} bytes")
            if held:
                yield held
            await self._run(digest.update, chunk)
            position, held = position + len(chunk), chunk
        if digest.hexdigest() != info.sha256:
            raise BlobCorrupt(f"{blob} has another SHA-256 than what was written")
        yield held

    async def delete(self, blob: str) -> None:
        """Delete one blob, and the remains of an interrupted write of that blob; does nothing if there is none.

        Raises:
            BlobsUnavailable: the blob may still be there.
        """
        await self._run(self._remove, self._path(blob))

    async def folders(self) -> list[str]:
        """Return the names of the folders that hold blobs; each is an argument for `list_folder`."""
        return await self._run(self._folders)

    async def list_folder(self, folder: str) -> list[str]:
        """Return the ids of the blobs in one folder, unfinished writes included.

        The sweeper looks for orphans among them.
        """
        return await self._run(self._list, f"{self._root}/{folder}")

    async def modified(self, blob: str) -> float:
        """Return when one blob was written, in Unix seconds.

        Raises:
            BlobNotFound, BlobsUnavailable: the blob can't be read.
        """
        return await self._run(self._modified, self._path(blob))

    def close(self) -> None:
        """Wait for running reads and writes of blobs, then end the threads that do them."""
        self._threads.shutdown()

    async def _run(self, call: Callable[..., ResultT], *arguments: Any) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(_translated, call, *arguments))

    def _path(self, blob: str) -> str:
        if not is_blob_id(blob):
            raise BlobNotFound(f"{blob[:64]!r} is no blob id")
        random = blob.removeprefix(PREFIX)
        return f"{self._root}/{random[:_FOLDER_LETTERS]}/{blob}"

    def _writer(self, path: str) -> BlobWriter:
        if isinstance(self._files, LocalFileSystem):
            return FolderWriter(path)
        return FileSystemWriter(self._files, path)

    def _read(self, path: str, start: int, end: int) -> bytes:
        return bytes(self._files.cat_file(path, start=start, end=end))

    def _remove(self, path: str) -> None:
        drafts = [path + DRAFT] if isinstance(self._files, LocalFileSystem) else []
        for each in [path, *drafts]:
            try:
                self._files.rm_file(each)
            except FileNotFoundError:
                continue

    def _folders(self) -> list[str]:
        return [name for name in self._names(self._root) if len(name) == _FOLDER_LETTERS]

    def _list(self, folder: str) -> list[str]:
        names = {name.removesuffix(DRAFT) for name in self._names(folder)}
        return sorted(name for name in names if is_blob_id(name))

    def _names(self, folder: str) -> list[str]:
        try:
            listed = self._files.ls(folder, detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return [str(each).rstrip("/").rpartition("/")[2] for each in listed]

    def _modified(self, path: str) -> float:
        try:
            return float(self._files.modified(path).timestamp())
        except FileNotFoundError:
            if not isinstance(self._files, LocalFileSystem):
                raise
            return float(self._files.modified(path + DRAFT).timestamp())


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), CHUNK):
        yield content[start : start + CHUNK]


async def _gathered(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Join chunks to pieces of `CHUNK` bytes or a little more, since each is written by a call in a thread."""
    gathered = bytearray()
    async for chunk in chunks:
        gathered += chunk
        if len(gathered) >= CHUNK:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _in_place(call: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """Return the result of a call that writes a blob: a file that it does not find is the folder or the bucket."""
    try:
        return call(*arguments)
    except FileNotFoundError as error:
        raise BlobsUnavailable(f"the folder or bucket is missing: {error}") from error


def _translated(call: Callable[..., ResultT], *arguments: Any) -> ResultT:
    failures: tuple[type[Exception], ...] = (OSError, *_s3_errors())
    try:
        return call(*arguments)
    except FileNotFoundError as error:
        raise BlobNotFound("there is no such blob") from error
    except failures as error:
        raise BlobsUnavailable(str(error) or type(error).__name__) from error


def _s3_errors() -> tuple[type[Exception], ...]:
    """Return the base classes of botocore's errors, which s3fs raises too, once s3fs has imported it."""
    botocore = sys.modules.get("botocore.exceptions")
    return () if botocore is None else (botocore.BotoCoreError, botocore.ClientError)
