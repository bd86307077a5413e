"""Route of `GET /v1/blobs/{blob_id}`: images and files at signed URLs that need no API key; makes such URLs.

The route is an extension. The content came from models or other servers and is not trusted: browsers show images only,
as what they are declared to be, and run nothing of it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from gateway.http.api_documentation import document_file_route
from gateway.http.authentication import public
from gateway.http.dependencies import CurrentGateway
from gateway.http.file_transfers import begun
from gateway.http.gateway import gateway_of
from gateway.http.pagination import query_of
from gateway.openai.blobs import AddressQuery
from stored_objects.objects.objects import DOWNLOAD
from stored_objects.objects.records import StoredObject

INLINE = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}
"""File name extensions of the media types that browsers show; everything else is downloaded. SVG can run scripts."""

router = APIRouter()


def address_of(request: Request, blob_id: str) -> str:
    """Return the signed URL of a stored object, valid for an hour, at the origin to which `request` was sent."""
    return gateway_of(request).addresses.address(blob_id, str(request.base_url).rstrip("/"))


@router.get("/v1/blobs/{blob_id}", **document_file_route([*INLINE, DOWNLOAD], query=AddressQuery))
@public
async def retrieve_blob(
    blob_id: str, gateway: CurrentGateway, query: Annotated[AddressQuery, Depends(query_of(AddressQuery))]
) -> Response:
    """Return an image or file, if the address has a valid signature that has not expired; needs no API key.

    Answers `GET /v1/blobs/{blob_id}`.
    """
    gateway.addresses.verify(blob_id, query.expires, query.signature)
    stored = await gateway.objects.find_signed(blob_id)
    chunks = await begun(gateway.objects.stream(stored))
    media_type = stored.media_type if stored.media_type in INLINE else DOWNLOAD
    return StreamingResponse(chunks, media_type=media_type, headers=_headers(stored))


def _headers(stored: StoredObject) -> dict[str, str]:
    extension = INLINE.get(stored.media_type)
    disposition = "attachment" if extension is None else "inline"
    return {
        "content-length": str(stored.size),
        "content-disposition": f'{disposition}; filename="{stored.id}.{extension or "bin"}"',
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, max-age=3600, immutable",
        "referrer-policy": "no-referrer",
        "accept-ranges": "none",
    }
