"""Exceptions of stored objects: not found, too large, over quota, forged address, ...; the gateway maps them to HTTP.

StoredObjectError
├── BlobTooLarge, StorageQuotaExceeded, UnacceptableMediaType, UnacceptableUpload
├── BlobNotFound, BlobCorrupt, BlobsUnavailable
├── DocumentNotFound, ContextTooLarge, BatchEnded
└── AddressForged, AddressExpired
"""


class StoredObjectError(Exception):
    """Base class of all errors of `stored_objects`."""


class BlobTooLarge(StoredObjectError):
    """The content exceeds the maximum size of a blob; both in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes, at most {limit} are allowed")
        self.size = size
        self.limit = limit


class StorageQuotaExceeded(StoredObjectError):
    """The owner, or with `shared` its organisation, would store more bytes than `limit`; nothing was stored."""

    def __init__(self, used: int, more: int, limit: int, *, shared: bool) -> None:
        super().__init__(f"{used} bytes are stored, {more} more exceed the quota of {limit}")
        self.used = used
        self.more = more
        self.limit = limit
        self.shared = shared


class UnacceptableMediaType(StoredObjectError):
    """The media type of the content is malformed."""


class UnacceptableUpload(StoredObjectError):
    """A field of a request about an upload in parts has an unacceptable value; `param` names the field."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


class BlobNotFound(StoredObjectError):
    """There is no blob with this id: it never existed, has expired or was deleted, or is another owner's."""


class BlobCorrupt(StoredObjectError):
    """The stored bytes differ from those that were written: their size or SHA-256 is wrong."""


class BlobsUnavailable(StoredObjectError):
    """The folder or S3 bucket of blobs can't be read or written; the outcome of a write is unknown."""


class DocumentNotFound(StoredObjectError):
    """The project has no document with this id: it never existed, has expired or was deleted, or is another's."""

    def __init__(self, id: str) -> None:
        super().__init__(f"No object with the id '{id[:128]}' was found.")


class BatchEnded(StoredObjectError):
    """The batch can't be cancelled, because it is being finished or has ended; the message says its state."""


class ContextTooLarge(StoredObjectError):
    """The stored context that a response would continue has too many responses or bytes."""


class AddressForged(StoredObjectError):
    """The signature of an object's address is missing or wrong."""


class AddressExpired(StoredObjectError):
    """The address of an object was valid, and has expired."""
