"""Stores the body of a request to the chat API as a file."""

from __future__ import annotations

import asyncio

from fastapi import Request

from chat_ui.errors import FilesUnavailable, InvalidField, StorageFull
from chat_ui.http.request_bodies import body_timeout
from runtime.strict_json import BodyTimeout
from stored_objects.errors import BlobsUnavailable, BlobTooLarge, StorageQuotaExceeded
from stored_objects.files.files import ProjectFiles, Purpose
from stored_objects.objects.records import ObjectOwner, StoredObject

MIB = 2**20


async def stored_upload(
    request: Request, files: ProjectFiles, owner: ObjectOwner, max_bytes: int, *, name: str, purpose: Purpose
) -> StoredObject:
    """Store the body of a request as a file of `owner`, and return it.

    Raises:
        InvalidField: the body is empty or too large.
        StorageFull: the owner would store too much.
        FilesUnavailable: the folder or bucket of files can't be reached.
        BodyTimeout: the body did not arrive in time.
    """
    size = min(max_bytes, files.objects.file_limits.max_bytes)
    declared = request.headers.get("content-length", "")
    size = min(size, int(declared)) if declared.isdecimal() else size
    try:
        async with asyncio.timeout(body_timeout(size)), files.pending(owner, size) as pending:
            written = await files.objects.write(pending, request.stream())
            if not written.size:
                raise InvalidField(None, "The file is empty.")
            return await files.finish(written, pending, name=name, purpose=purpose, lifetime=None)
    except BlobTooLarge as error:
        raise InvalidField(None, f"A file has {error.limit // MIB} MiB at most.") from error
    except StorageQuotaExceeded as error:
        whose = "project" if owner.is_project else "person"
        raise StorageFull(f"A {whose} may store {error.limit // MIB} MiB of files.") from error
    except BlobsUnavailable as error:
        raise FilesUnavailable(str(error)) from error
    except TimeoutError as error:
        raise BodyTimeout("the upload took too long") from error
