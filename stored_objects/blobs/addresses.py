"""Signs and verifies URLs of stored objects: `/v1/blobs/ID?expires=UNIX&signature=HEX`, valid without an API key.

HMAC-SHA256 over id and expiry, under a key derived from the installation's pepper, so that every gateway can verify the
addresses that another one has signed. An address lets every client read the object until it
expires.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable
from urllib.parse import urlencode

from stored_objects.errors import AddressExpired, AddressForged

PATH = "/v1/blobs"
LIFETIME = 3600
"""Seconds for which an address is valid."""
_EXPIRES = re.compile(r"[0-9]{1,12}")


def address_key(pepper: bytes) -> bytes:
    """Derive the HMAC key that signs stored objects' URLs from the secret pepper, which the key does not reveal."""
    return hmac.digest(pepper, b"blob:addresses", hashlib.sha256)  # the colon is in no API key's secret


class AddressSigner:
    """Signs and verifies addresses of stored objects.

    Args:
        key: of `address_key`.
        clock: returns Unix seconds.
    """

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock

    def address(self, blob: str, origin: str = "") -> str:
        """Return a stored object's signed URL, valid for an hour: absolute below `origin`, or path and query."""
        expires = str(int(self._clock()) + LIFETIME)
        query = urlencode({"expires": expires, "signature": self._signature(blob, expires)})
        return f"{origin}{PATH}/{blob}?{query}"

    def verify(self, blob: str, expires: str, signature: str) -> None:
        """Verify `expires` and `signature` of a stored object's URL: this installation signed it, and it is valid.

        Raises:
            AddressForged: signature or expiry is missing, malformed or wrong.
            AddressExpired: the address was valid.
        """
        expected = self._signature(blob, expires)
        genuine = hmac.compare_digest(expected.encode(), signature.encode(errors="surrogatepass"))
        if not genuine or not _EXPIRES.fullmatch(expires):
            raise AddressForged
        if int(expires) <= self._clock():
            raise AddressExpired

    def _signature(self, blob: str, expires: str) -> str:
        message = f"{blob}\n{expires}".encode(errors="surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()
