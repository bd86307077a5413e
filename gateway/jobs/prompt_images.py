"""Reads the images of a chat completion: data URLs, signed URLs of stored objects, and files of the caller's project.

Nothing is fetched from other addresses. Sizes are checked by the files' headers; only a worker's confined process
decodes them. The job carries the files, so their total size is limited.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from auth_billing.access.principal import Principal
from gateway.errors import InvalidRequest
from gateway.jobs.prompt_files import files_owner
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.messages import image_urls
from stored_objects.blobs.addresses import PATH, AddressSigner
from stored_objects.errors import AddressExpired, AddressForged, BlobNotFound
from stored_objects.files.files import FILE_PREFIX, ProjectFiles
from stored_objects.images.header import read_image_header
from stored_objects.images.prompt_limits import MAX_PIXELS, MAX_TOTAL_BYTES, MAX_TOTAL_PIXELS
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import StoredObject

INLINE_CHARACTERS = 64 * 1024
"""Longer data URLs are decoded in a thread, so that they do not block the event loop."""
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]{1,32};base64,", re.IGNORECASE)


class PromptImages:
    """Reads the images of requests that a client sent to one origin."""

    def __init__(self, objects: StoredObjects, addresses: AddressSigner, origin: str = "") -> None:
        """`origin`: scheme and host of the request's URL, which addresses of this platform may begin with."""
        self._objects = objects
        self._addresses = addresses
        self._origin = origin.rstrip("/")

    async def read(self, caller: Principal, body: ChatCompletionRequest) -> list[bytes]:
        """Return the image files (bytes) of a chat completion, in order of the conversation.

        Raises:
            InvalidRequest: an image is malformed, too large or not the caller's; `param` names its field.
            ScopeMissing: an image is a file of the project, and the caller may not read the project's files.
            BlobsUnavailable, StoreUnavailable: a stored image can't be read now.
        """
        files: list[bytes] = []
        pixels = 0
        for path, url in image_urls(body.messages):
            file = await self._file(caller, f"{path}.url", url)
            files.append(file)
            pixels += _pixels(f"{path}.url", file)
            if sum(map(len, files)) > MAX_TOTAL_BYTES:
                raise _invalid(f"{path}.url", f"the images of a request have {MAX_TOTAL_BYTES} bytes at most")
            if pixels > MAX_TOTAL_PIXELS:
                raise _invalid(f"{path}.url", f"the images of a request have {MAX_TOTAL_PIXELS} pixels at most")
        return files

    async def _file(self, caller: Principal, path: str, url: str) -> bytes:
        if (start := _DATA_URL.match(url[:64])) is not None:
            encoded = url[start.end() :]
            if len(encoded) <= INLINE_CHARACTERS:
                return _decoded(path, encoded)
            return await asyncio.to_thread(_decoded, path, encoded)
        if url.startswith(FILE_PREFIX):
            return await self._project_file(caller, path, url)
        query = self._query(url)
        if query is None:
            raise _invalid(
                path,
                "it must be a data URL with an image in base64, an image's address of this platform or a file's id",
            )
        return await self._stored(caller, path, urlsplit(url).path.removeprefix(f"{PATH}/"), query)

    def _query(self, url: str) -> Mapping[str, str] | None:
        """Return the query of an address of this platform; `None` if `url` is another one."""
        try:
            parts = urlsplit(url[:1024])
            origin = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
        except ValueError:
            return None
        if not parts.path.startswith(f"{PATH}/") or origin not in ("", self._origin):
            return None
        return dict(parse_qsl(parts.query, max_num_fields=8))

    async def _stored(self, caller: Principal, path: str, blob: str, query: Mapping[str, str]) -> bytes:
        try:
            self._addresses.verify(blob, query.get("expires", ""), query.get("signature", ""))
            stored = await self._objects.find_signed(blob)
            if stored.organisation != caller.tenant:
                raise BlobNotFound
            return await self._content(path, stored)
        except (AddressForged, BlobNotFound) as error:
            raise _invalid(path, "there is no such image") from error
        except AddressExpired as error:
            raise _invalid(path, "the image's address has expired") from error

    async def _project_file(self, caller: Principal, path: str, file_id: str) -> bytes:
        owner = files_owner(caller)
        try:
            return await self._content(path, await ProjectFiles(self._objects).find(owner, file_id))
        except BlobNotFound as error:
            raise _invalid(path, "there is no such file") from error

    async def _content(self, path: str, stored: StoredObject) -> bytes:
        if stored.size > MAX_TOTAL_BYTES:
            raise _invalid(path, f"the image is larger than {MAX_TOTAL_BYTES} bytes")
        return b"".join([chunk async for chunk in self._objects.stream(stored)])


def _decoded(path: str, encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid(path, "the data URL is no valid base64") from error


def _pixels(path: str, file: bytes) -> int:
    header = read_image_header(file)
    if header is None:
        raise _invalid(path, "the image must be a PNG, JPEG, WebP or GIF file")
    if header.pixels > MAX_PIXELS:
        raise _invalid(path, f"the image has {header.width} x {header.height} pixels, at most {MAX_PIXELS} are read")
    return header.pixels


def _invalid(path: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid '{path}': {reason}.", param=path, code="invalid_value")
