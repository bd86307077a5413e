"""Metrics of stored objects: what is stored is counted by kind and bytes."""

from __future__ import annotations

from stored_objects.objects.records import ObjectKind
from tests.fakes.stored_objects import stored_objects as in_memory
from tests.stored_objects.conftest import ADA


async def test_stored_objects_and_their_bytes_are_counted() -> None:
    objects = in_memory()
    await objects.put(ADA, b"12345", kind=ObjectKind.IMAGE, media_type="image/png")
    await objects.put(ADA, b"123", kind=ObjectKind.FILE, media_type="text/plain")
    counts = [objects.metrics.stored.labels(kind)._value.get() for kind in ObjectKind]
    assert counts == [1, 1, 0]
    assert objects.metrics.stored_bytes._value.get() == 8
