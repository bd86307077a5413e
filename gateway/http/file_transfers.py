"""Reads forms with one file from HTTP requests, within the limits of the gateway, and serves files as downloads."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import Request
from fastapi.responses import StreamingResponse

from auth_billing.access.principal import Principal
from gateway.errors import InvalidRequest
from gateway.http import rate_limits
from gateway.http.gateway import gateway_of
from gateway.http.multipart_form import MAX_OVERHEAD, MultipartBody, declared_bytes
from stored_objects.errors import BlobTooLarge
from stored_objects.files.files import UPLOAD_TIME
from stored_objects.objects.objects import DOWNLOAD, StoredObjects
from stored_objects.objects.records import ObjectOwner, StoredObject


def project_of(caller: Principal) -> ObjectOwner:
    """Return the caller's project as the owner of its files."""
    return ObjectOwner.of_project(caller.tenant, caller.project)


async def file_form(request: Request, caller: Principal, max_bytes: int) -> tuple[MultipartBody, int]:
    """Count a request against rate limits, and return its form, and the most bytes that a file in it can have.

    Raises:
        BrokerDown, Overloaded, RateLimitExceeded, StoreUnavailable: the request may not run now.
        MalformedRequest: the request declares no form.
        BlobTooLarge: the declared length exceeds that of a form with a file of `max_bytes`.
    """
    gateway = gateway_of(request)
    gateway.protection.check()
    await rate_limits.enter(request, caller)
    declared = declared_bytes(request.headers)
    if declared is not None and declared > max_bytes + MAX_OVERHEAD:
        raise BlobTooLarge(declared, max_bytes)
    form = MultipartBody(
        request.headers,
        request.stream(),
        max_bytes=max_bytes + MAX_OVERHEAD,
        idle_timeout=gateway.settings.body_timeout,
        timeout=UPLOAD_TIME,
    )
    return form, max_bytes if declared is None else min(declared, max_bytes)


def missing_file(field: str) -> InvalidRequest:
    """Return the error of a form without a file in `field`, or with an empty one."""
    return InvalidRequest(
        f"Invalid '{field}': the form must have one file that is not empty.",
        param=field,
        code="missing_required_parameter",
    )


async def download(objects: StoredObjects, stored: StoredObject, name: str) -> StreamingResponse:
    """Return a response with the content of a stored object, which browsers save under `name`, a public id.

    Raises:
        BlobNotFound, BlobsUnavailable, BlobCorrupt: the content can't be read.
    """
    headers = {
        "content-length": str(stored.size),
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, no-store",
        "accept-ranges": "none",
    }
    return StreamingResponse(await begun(objects.stream(stored)), media_type=DOWNLOAD, headers=headers)


async def begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Read the first of `chunks`, whose errors are answered by a status, and return an iterator over all of them."""
    return _joined(await anext(chunks), chunks)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk
