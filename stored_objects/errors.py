"""Errors of `stored_objects`; `gateway/http/http_errors.py` translates them to HTTP responses.

StoredObjectError
├── BlobTooLarge, BlobsUnavailable, BlobCorrupt
└── BlobNotFound
"""


class StoredObjectError(Exception):
    """Base class of all errors of `stored_objects`."""


class BlobTooLarge(StoredObjectError):
    """The content exceeds the maximum size of a blob; both in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes, at most {limit} are allowed")
        self.size = size
        self.limit = limit


class BlobsUnavailable(StoredObjectError):
    """The folder or S3 bucket of blobs can't be read or written; the outcome of a write is unknown."""


class BlobNotFound(StoredObjectError):
    """There is no blob with this id: it never existed, has expired or was deleted."""


class BlobCorrupt(StoredObjectError):
    """The stored bytes differ from those that were written: their size or SHA-256 is wrong."""
