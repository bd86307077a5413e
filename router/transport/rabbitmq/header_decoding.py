"""Patches pika so that a message with undecodable headers gets empty ones instead of closing the connection.

pika decodes a message's headers while it reads the connection. A timestamp of the year 292 billion, an invalid decimal
or deeply nested tables raise there, the connection is lost, and the broker redelivers the message. The broker has
checked the table's length, so skipping it is safe.
"""

from __future__ import annotations

import struct
from typing import Any

import structlog
from pika import data

_decode_table = data.decode_table

_log = structlog.get_logger(__name__)


def patch_pika() -> None:
    """Patch pika's decoder of header tables in this process: undecodable headers are read as empty. Idempotent."""
    data.decode_table = _decode_or_skip


def _decode_or_skip(encoded: bytes, offset: int) -> tuple[dict[str, Any], int]:
    try:
        values, end = _decode_table(encoded, offset)
    except (ValueError, OverflowError, OSError, RecursionError) as error:
        _log.warning("undecodable message headers dropped", reason=type(error).__name__)
        (size,) = struct.unpack_from(">I", encoded, offset)
        return {}, offset + 4 + size
    return values, end
