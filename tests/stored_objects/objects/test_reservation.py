"""Space that is reserved while content is made."""

from __future__ import annotations

import pytest

from stored_objects.errors import StorageQuotaExceeded
from stored_objects.objects.records import ObjectKind, ObjectOwner
from stored_objects.objects.reservation import reserved
from tests.fakes.stored_objects import stored_objects

OWNER = ObjectOwner("o", "p")


async def test_reserved_space_counts_until_the_block_ends() -> None:
    objects = stored_objects(per_owner=12_000)
    async with reserved(objects, OWNER, 9_000):
        with pytest.raises(StorageQuotaExceeded):
            async with reserved(objects, OWNER, 3_000):
                raise AssertionError
    with pytest.raises(ZeroDivisionError):
        async with reserved(objects, OWNER, 9_000):
            raise ZeroDivisionError
    await objects.put(OWNER, b"x" * 5_000, kind=ObjectKind.IMAGE, media_type="image/png")
