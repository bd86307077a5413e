"""Writers of one blob in a folder or another fsspec file system: bytes in pieces, which become visible together.

Their methods block; `Blobs` calls them in its threads.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Protocol

from fsspec.implementations.memory import MemoryFileSystem

DRAFT = ".part"
"""Suffix of a file in a folder while it is written."""
UPLOAD_BYTES = 8 * 1024 * 1024
"""Bytes of one part of an upload to S3, which keeps at most 10,000 parts."""


class BlobWriter(Protocol):
    """Interface of a writer of one blob, of which nothing can be read before `commit`."""

    def add(self, content: bytes) -> None:
        """Append `content` to the unfinished blob; does nothing after `discard`."""

    def commit(self) -> None:
        """Make the blob readable, durably and with everything that was added."""

    def discard(self) -> None:
        """Delete what was added; the blob does not exist."""


class FolderWriter:
    """Writes a draft and renames it: the file has all of its content or does not exist, also after a power failure."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = os.path.dirname(path)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        descriptor = os.open(path + DRAFT, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._lock = threading.Lock()

    def add(self, content: bytes) -> None:
        """Append `content` to the draft."""
        with self._lock:
            rest = memoryview(content)
            while rest and not self._file.closed:
                rest = rest[self._file.write(rest) :]

    def commit(self) -> None:
        """Sync the draft to the disk, then rename it and sync its folder."""
        with self._file:
            os.fsync(self._file.fileno())
        os.rename(self._path + DRAFT, self._path)
        _sync_folder(self._folder)
        _sync_folder(os.path.dirname(self._folder))

    def discard(self) -> None:
        """Close and delete the draft."""
        with self._lock:
            self._file.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path + DRAFT)


class FileSystemWriter:
    """Writes a file of any other fsspec file system.

    S3 shows an object when its upload is complete; the parts of an upload whose writer was killed stay until a
    lifecycle rule of the bucket deletes them.
    """

    def __init__(self, files: Any, path: str) -> None:
        self._files = files
        self._path = path
        self._file = files.open(path, "wb", block_size=UPLOAD_BYTES)
        self._lock = threading.Lock()
        self._discarded = False

    def add(self, content: bytes) -> None:
        """Append `content` to the upload, which sends a part whenever it has enough."""
        with self._lock:
            if not self._discarded:
                self._file.write(content)

    def commit(self) -> None:
        """Send the rest, and complete the upload."""
        self._file.close()

    def discard(self) -> None:
        """Abort the upload."""
        with self._lock:
            self._discarded = True
            if isinstance(self._files, MemoryFileSystem):
                self._files.rm_file(self._path)
            else:
                self._file.discard()
                self._file.closed = True  # its finaliser would complete the upload


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
