"""Stores and releases the images of conversations: those that people attach to questions, and those of answers' steps.

They are kept as long as their conversation; others expire after an hour. Images of questions are checked by the headers
of their files, within the limits of prompts; only a worker's confined process decodes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from auth_billing.errors import StoreUnavailable
from chat_ui.errors import FilesUnavailable, InvalidField, StorageFull
from chat_ui.history.records import AttachedImage, ConversationStore, Owner
from chat_ui.history.steps import Step, StepState
from stored_objects.errors import BlobCorrupt, BlobNotFound, BlobsUnavailable, StorageQuotaExceeded
from stored_objects.images.header import ImageHeader, read_image_header
from stored_objects.images.prompt_limits import MAX_IMAGES, MAX_PIXELS, MAX_TOTAL_BYTES, MAX_TOTAL_PIXELS
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectKind, ObjectOwner, StoredObject

MIB = 2**20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ImageReference:
    """An uploaded image that a question shall have: the id of its stored object, and its file name."""

    blob: str
    name: str


class ConversationImages:
    """Stores images of questions, keeps images for conversations of their owner, and releases them."""

    def __init__(self, objects: StoredObjects, conversations: ConversationStore) -> None:
        self._objects = objects
        self._conversations = conversations

    async def store(self, owner: Owner, file: bytes) -> StoredObject:
        """Store a person's uploaded image, for an hour unless a question has it by then; return the stored object.

        Raises:
            InvalidField: it is no image of an accepted type, or too large.
            StorageFull: the person or the organisation would store too much.
            FilesUnavailable, StoreUnavailable: it can't be stored now.
        """
        if len(file) > MAX_TOTAL_BYTES:
            raise InvalidField("data", f"An image has {MAX_TOTAL_BYTES // MIB} MiB at most.")
        header, who = _header("data", file), _object_owner(owner)
        try:
            return await self._objects.put(who, file, kind=ObjectKind.IMAGE, media_type=header.media_type)
        except StorageQuotaExceeded as error:
            whose = "Your organisation" if error.shared else "You"
            raise StorageFull(
                f"{whose} may store {error.limit // MIB} MiB of images and files. Please delete conversations with "
                "images that you don't need."
            ) from error
        except BlobsUnavailable as error:
            raise FilesUnavailable(str(error)) from error

    async def attach(self, owner: Owner, conversation: str, wanted: Sequence[ImageReference]) -> list[AttachedImage]:
        """Check the uploaded images of a new question, keep them for its conversation, and return them as attachments.

        Raises:
            InvalidField: one is not the owner's, has expired or is no image, or together they are too many or too large
                for a prompt.
            FilesUnavailable, StoreUnavailable: they can't be read now.
        """
        if len(wanted) > MAX_IMAGES:
            raise InvalidField("images", f"A message has {MAX_IMAGES} images at most.")
        attached: list[AttachedImage] = []
        for each in wanted:
            file = await self._read(owner, each, MAX_TOTAL_BYTES - sum(earlier.size for earlier in attached))
            attached.append(AttachedImage(each.blob, each.name, len(file), _header("images", file).pixels))
        if sum(each.pixels for each in attached) > MAX_TOTAL_PIXELS:
            raise InvalidField("images", f"Images have {MAX_TOTAL_PIXELS // MIB} megapixels together at most.")
        for image in attached:
            try:
                await self._objects.keep(image.blob, _object_owner(owner), conversation)
            except BlobNotFound as error:
                raise _gone(image.name) from error
        return attached

    async def release_if_deleted(self, owner: Owner, conversation: str) -> None:
        """Release the images that were kept for a conversation, if the conversation was deleted meanwhile."""
        if await self._conversations.find(owner, conversation) is None:
            await self.release(owner, conversation)

    async def present(self, owner: Owner, blobs: Collection[str]) -> set[str]:
        """Return those of these blob ids that are stored images or files of the owner."""
        found = set()
        for blob in blobs:
            try:
                found.add((await self._objects.find(_object_owner(owner), blob)).id)
            except BlobNotFound:
                continue
        return found

    async def keep(self, owner: Owner, conversation: str, step: Step) -> None:
        """Keep the images in a finished step of an answer for its conversation, so that they do not expire.

        An image that is not the owner's, or can't be kept, is left to expire. Deletions of conversations may run at the
        same time: if this one is gone, nothing stays kept for it.
        """
        blobs = image_ids(step)
        try:
            for blob in blobs:
                await self._keep(owner, conversation, blob)
            if blobs:
                await self.release_if_deleted(owner, conversation)
        except StoreUnavailable as error:
            _log.warning("images of a conversation may expire", conversation=conversation, reason=str(error))

    async def release(self, owner: Owner, conversation: str) -> None:
        """Stop keeping images for a deleted conversation; they expire unless another conversation keeps them."""
        await self._objects.release(_object_owner(owner), conversation)

    async def _read(self, owner: Owner, wanted: ImageReference, room: int) -> bytes:
        try:
            stored = await self._objects.find(_object_owner(owner), wanted.blob)
            if stored.kind is not ObjectKind.IMAGE:
                raise _gone(wanted.name)
            if stored.size > room:
                raise InvalidField("images", f"Images have {MAX_TOTAL_BYTES // MIB} MiB together at most.")
            return b"".join([chunk async for chunk in self._objects.stream(stored)])
        except (BlobNotFound, BlobCorrupt) as error:
            raise _gone(wanted.name) from error
        except BlobsUnavailable as error:
            raise FilesUnavailable(str(error)) from error

    async def _keep(self, owner: Owner, conversation: str, blob: str) -> None:
        try:
            await self._objects.keep(blob, _object_owner(owner), conversation)
        except BlobNotFound:
            _log.warning("an image of a step is not the owner's, or has expired", conversation=conversation)


def image_ids(step: Step) -> list[str]:
    """Return the blob ids of the images in a finished step's result; the data of steps is untrusted."""
    result: Any = step.data.get("result")
    if step.state is not StepState.DONE or not isinstance(result, dict) or result.get("type") != "image":
        return []
    images = result.get("images")
    found = [each.get("blob") for each in images if isinstance(each, dict)] if isinstance(images, list) else []
    return [each for each in found if isinstance(each, str)]


def _header(param: str, file: bytes) -> ImageHeader:
    header = read_image_header(file)
    if header is None:
        raise InvalidField(param, "An image must be a PNG, JPEG, WebP or GIF file.")
    if header.pixels > MAX_PIXELS:
        raise InvalidField(
            param, f"The image has {header.width} x {header.height} pixels; {MAX_PIXELS // MIB} megapixels are allowed."
        )
    return header


def _gone(name: str) -> InvalidField:
    return InvalidField("images", f"The image {name} is not stored any more. Please attach it again.")


def _object_owner(owner: Owner) -> ObjectOwner:
    return ObjectOwner(owner.organisation, owner.user)
