"""Images of answers are stored within the quota, and returned themselves if that fails."""

from __future__ import annotations

import pytest

from gateway.answers.image_answer import DrawnImage
from gateway.answers.stored_images import max_bytes, reserved_space, store_images
from router.messages import ImagePrompt, Job
from stored_objects.errors import StorageQuotaExceeded
from stored_objects.objects.quota import CountSubject
from stored_objects.objects.records import ObjectOwner
from tests.contract.examples import JOB, msgspec_replace
from tests.fakes.byte_counts import MIB
from tests.fakes.stored_objects import stored_objects

OWNER = ObjectOwner("org", "user-1")


def image_job(n: int, size: str = "512x256") -> Job:
    return msgspec_replace(JOB, prompt=ImagePrompt(prompt="a", size=size), n=n)


def test_the_space_of_images_is_that_of_their_pixels() -> None:
    assert max_bytes(image_job(3)) == 3 * 512 * 256 * 4
    assert max_bytes(JOB) == 0


async def test_space_is_reserved_while_images_are_drawn_and_released_after_it() -> None:
    objects = stored_objects(per_owner=MIB)
    async with reserved_space(objects, OWNER, image_job(1)):
        assert await objects.quotas.used(CountSubject("org", "user-1")) > 512 * 256 * 4
    with pytest.raises(StorageQuotaExceeded):
        async with reserved_space(objects, OWNER, image_job(3)):
            pytest.fail("nothing is drawn")
    assert await objects.quotas.used(CountSubject("org", "user-1")) == 0


async def test_images_get_addresses_in_order_and_keep_their_prompts() -> None:
    objects = stored_objects()
    images = [DrawnImage(b"one", "other"), DrawnImage(b"x" * 2 * MIB), DrawnImage(b"two")]
    first, large, last = await store_images(objects, OWNER, images, lambda blob: f"https://example.com/{blob}")
    assert large == images[1], "it is larger than the largest blob"
    assert (first.png, first.revised_prompt) == (b"one", "other")
    assert await objects.get(OWNER, last.url.rpartition("/")[2]) == b"two"
