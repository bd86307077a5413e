"""Headers that Python has no values for do not take a connection down.

pika decodes the headers of a message while it reads the connection: a timestamp of the year 292 billion, a number that
is none, or tables within tables without end raise there, the connection is lost, and the broker delivers the message
again. Such a table is read as an empty one instead; the broker has checked that it ends where it says.
"""

from __future__ import annotations

import struct
from typing import Any

import structlog
from pika import data

_decode_table = data.decode_table

_log = structlog.get_logger(__name__)


def tolerate() -> None:
    """Have pika decode tables so, in the whole process. Idempotent."""
    data.decode_table = _tolerant


def _tolerant(encoded: bytes, offset: int) -> tuple[dict[str, Any], int]:
    try:
        values, end = _decode_table(encoded, offset)
    except (ValueError, OverflowError, OSError, RecursionError) as error:
        _log.warning("headers that can't be read are left out", reason=type(error).__name__)
        (size,) = struct.unpack_from(">I", encoded, offset)
        return {}, offset + 4 + size
    return values, end
