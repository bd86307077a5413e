"""Reserves storage quota for content that is still being made, such as the images that a job draws."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from auth_billing.errors import StoreUnavailable
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectOwner

BYTES_PER_PIXEL = 4
"""Most bytes of a pixel in a PNG file, whose compression is not counted on."""

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def reserved(objects: StoredObjects, owner: ObjectOwner, size: int) -> AsyncIterator[None]:
    """Reserve `size` bytes of the owner's storage quota while the block runs, which makes the content; then free them.

    Raises:
        StorageQuotaExceeded: the owner or organisation would store more than allowed.
        StoreUnavailable: the quota is not known.
    """
    await objects.quotas.reserve(owner, size)
    try:
        yield
    finally:
        try:
            await objects.quotas.release(owner, size)
        except StoreUnavailable as error:
            _log.warning("reserved space not released, its count is corrected later", bytes=size, reason=str(error))
