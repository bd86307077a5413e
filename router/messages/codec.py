"""Encodes messages as JSON for the broker, and decodes and checks received ones."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from router.errors import UndecodableMessage
from router.messages.base import WIRE_VERSION
from router.messages.control import Control, WorkerStatus
from router.messages.job import Job
from router.messages.replies import Window
from router.messages.usage import Settlement

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Encode one message (a struct of `router.messages`) as JSON in UTF-8, the body that is published."""
    return _encoder.encode(message)


class Codec(Generic[T]):
    """Decoder of JSON bodies to one message type; other bodies raise `UndecodableMessage`."""

    def __init__(self, expected: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(expected)

    def decode(self, body: bytes) -> T:
        """Decode `body`, a received message's JSON in UTF-8, to an instance of the codec's message type.

        Raises:
            UndecodableMessage: `body` is not JSON, not of the expected shape, or of another wire version.
        """
        try:
            message = self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UndecodableMessage(str(error)) from error
        version = getattr(message, "version", None)
        if version != WIRE_VERSION:
            raise UndecodableMessage(f"wire version {version!r}, expected {WIRE_VERSION}")
        return message


JOBS: Codec[Job] = Codec(Job)
WINDOWS: Codec[Window] = Codec(Window)
SETTLEMENTS: Codec[Settlement] = Codec(Settlement)
CONTROLS: Codec[Control] = Codec(Control)
STATUSES: Codec[WorkerStatus] = Codec(WorkerStatus)
