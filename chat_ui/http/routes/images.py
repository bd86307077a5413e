"""HTTP route of images that people attach to questions: `POST /api/images`."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from auth_billing.access.roles import Role
from chat_ui.errors import InvalidField
from chat_ui.http.access_control import Caller, max_body
from chat_ui.http.request_bodies import Body, body_of
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.base import Schema
from chat_ui.services import owner_of, services_of
from stored_objects.images.prompt_limits import MAX_TOTAL_BYTES

router = APIRouter()

_BASE64_CHARS = 4 * -(-MAX_TOTAL_BYTES // 3)
IMAGE_BYTES = _BASE64_CHARS + 1024
"""Largest body of an upload."""


class ImageBody(Body):
    """An image file."""

    data: Annotated[str, Field(max_length=_BASE64_CHARS)]
    """The file in base64."""


class UploadedImage(Schema):
    """An image that was stored, and expires after an hour unless a question has it."""

    blob: str
    """Id by which a question attaches the image."""
    url: str
    """Signed address, valid for an hour."""


ImageJson = Annotated[ImageBody, Depends(body_of(ImageBody))]


@router.post("/images", response_model=UploadedImage, status_code=201)
@max_body(IMAGE_BYTES)
async def upload_image(request: Request, caller: Caller, body: ImageJson) -> Response:
    """Store an image of the caller, to be attached to a question (`POST /api/images`).

    The image is a PNG, JPEG, WebP or GIF file within the limits of prompts.
    """
    caller.actor.require(Role.MEMBER)
    services = services_of(request)
    file = await asyncio.to_thread(_decoded, body.data)
    stored = await services.images.store(owner_of(caller), file)
    return schema_response(UploadedImage(blob=stored.id, url=services.blob_address(stored.id)), 201)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidField("data", "The image is no valid base64.") from error
