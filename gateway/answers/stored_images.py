"""Stores the images of an answer within their owner's storage quota, so that the answer can have their URLs.

Space is reserved while the images are drawn: an exceeded quota cancels their job, which costs nothing. An image that
can't be stored afterwards is paid for, so the client gets its content.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog

from auth_billing.errors import StoreUnavailable
from gateway.answers.image_answer import DrawnImage
from router.messages import ImagePrompt, Job
from stored_objects.errors import StoredObjectError
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectKind, ObjectOwner
from stored_objects.objects.reservation import BYTES_PER_PIXEL, reserved

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def reserved_space(objects: StoredObjects, owner: ObjectOwner, job: Job) -> AsyncIterator[None]:
    """Reserve the owner's storage quota for the largest size of a job's images while the block runs, which draws them.

    Raises:
        StorageQuotaExceeded: the owner or organisation would store more than allowed.
        StoreUnavailable: the quota is not known.
    """
    async with reserved(objects, owner, max_bytes(job)):
        yield


def max_bytes(job: Job) -> int:
    """Return the largest number of bytes that the images of an image job can have together; 0 for another job."""
    if not isinstance(job.prompt, ImagePrompt):
        return 0
    width, _, height = job.prompt.size.partition("x")
    return job.n * int(width) * int(height) * BYTES_PER_PIXEL


async def store_images(
    objects: StoredObjects, owner: ObjectOwner, images: Sequence[DrawnImage], address: Callable[[str], str]
) -> list[DrawnImage]:
    """Store an answer's images for an hour, and return them with URLs; one that can't be stored is returned without.

    Args:
        address: returns the URL of a stored object.
    """
    return await asyncio.gather(*(_store(objects, owner, image, address) for image in images))


async def _store(
    objects: StoredObjects, owner: ObjectOwner, image: DrawnImage, address: Callable[[str], str]
) -> DrawnImage:
    try:
        stored = await objects.put(owner, image.png, kind=ObjectKind.IMAGE, media_type="image/png")
    except (StoredObjectError, StoreUnavailable) as error:
        _log.warning("image not stored, its content is returned", bytes=len(image.png), reason=str(error))
        return image
    return image._replace(url=address(stored.id))
