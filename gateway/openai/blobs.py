"""Query parameters of `GET /v1/blobs/{blob_id}`, the signed addresses of stored objects (an extension)."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from gateway.openai.query_parameters import QueryParameters

SignedText = Annotated[str, StringConstraints(max_length=256)]


class AddressQuery(QueryParameters):
    """Query parameters of `GET /v1/blobs/{blob_id}`, which the address of an object has."""

    expires: SignedText = ""
    """When the address expires, in Unix seconds."""
    signature: SignedText = ""
    """HMAC-SHA256 of id and expiry, as 64 hexadecimal digits."""
