"""Images that an assistant has drawn for a response: their blobs, read as base64 for the response's output items."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable

import structlog

from auth_billing.errors import StoreUnavailable
from gateway.openai.responses.tools import IMAGE_TOOL
from router.messages import Delta, Step, StepState
from stored_objects.errors import StoredObjectError
from stored_objects.objects.objects import StoredObjects

_log = structlog.get_logger(__name__)


def is_drawing(step: Step) -> bool:
    """Return whether a step is a call of the assistant's image tool."""
    return step.kind == "tool" and step.name == IMAGE_TOOL


def drawn_blobs(step: Step) -> list[str]:
    """Return the blob ids of the images that a step has drawn, in order; of other steps none. Its data is untrusted."""
    result = step.data.get("result") if is_drawing(step) and step.state is StepState.DONE else None
    images = result.get("images") if isinstance(result, dict) else None
    blobs = [each.get("blob") for each in images if isinstance(each, dict)] if isinstance(images, list) else []
    return [blob for blob in blobs if isinstance(blob, str)]


class DrawnImages:
    """Images of one response as base64. They are read from the deltas of its steps before the output takes these."""

    def __init__(self, objects: StoredObjects) -> None:
        self._objects = objects
        self._encoded: dict[str, str] = {}

    async def read(self, deltas: Iterable[Delta]) -> None:
        """Read the images that the steps of `deltas` have drawn. One that can't be read is logged, and left out."""
        for delta in deltas:
            for blob in [] if delta.step is None else drawn_blobs(delta.step):
                try:
                    await self._read(blob)
                except (StoredObjectError, StoreUnavailable) as error:
                    _log.warning("an image of a response can't be read", blob=blob, reason=str(error))

    def get(self, blob: str) -> str | None:
        """Return an image that was read as base64; `None` if it could not be read."""
        return self._encoded.get(blob)

    async def _read(self, blob: str) -> None:
        if blob not in self._encoded:
            stored = await self._objects.find_signed(blob)
            content = b"".join([chunk async for chunk in self._objects.stream(stored)])
            self._encoded[blob] = (await asyncio.to_thread(base64.b64encode, content)).decode("ascii")
