"""Keeps the images of answers' steps as long as their conversation (`stored_objects`); others expire after an hour."""

from __future__ import annotations

from typing import Any

import structlog

from auth_billing.errors import StoreUnavailable
from chat_ui.history.records import ConversationStore, Owner
from chat_ui.history.steps import Step, StepState
from stored_objects.errors import BlobNotFound
from stored_objects.objects import StoredObjects
from stored_objects.records import ObjectOwner

_log = structlog.get_logger(__name__)


class ConversationImages:
    """Keeps images for conversations of their owner, and releases them."""

    def __init__(self, objects: StoredObjects, conversations: ConversationStore) -> None:
        self._objects = objects
        self._conversations = conversations

    async def keep(self, owner: Owner, conversation: str, step: Step) -> None:
        """Keep the images of a step that is done, if they are the owner's; one that can't be kept expires.

        Deletions of conversations may run at the same time: if this one is gone, nothing stays kept for it.
        """
        blobs = image_ids(step)
        try:
            for blob in blobs:
                await self._keep(owner, conversation, blob)
            if blobs and await self._conversations.find(owner, conversation) is None:
                await self._objects.release(_object_owner(owner), conversation)
        except StoreUnavailable as error:
            _log.warning("images of a conversation may expire", conversation=conversation, reason=str(error))

    async def release(self, owner: Owner, conversation: str) -> None:
        """Keep no images for a conversation any more; they expire unless another one keeps them."""
        await self._objects.release(_object_owner(owner), conversation)

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


def _object_owner(owner: Owner) -> ObjectOwner:
    return ObjectOwner(owner.organisation, owner.user)
