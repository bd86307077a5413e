"""Password reset links in MongoDB and in memory: one per user."""

from __future__ import annotations

from dataclasses import replace

from auth_billing.people.password_reset import PasswordResetRecord
from tests.auth_billing.store.conftest import PeopleStores

RESET = PasswordResetRecord("user-ada", b"0" * 32, 3, 4e9, "org-1", "user-bob")


async def test_a_newer_link_replaces_the_older(people: PeopleStores) -> None:
    newer = replace(RESET, digest=b"1" * 32, version=4, organisation="", made_by="")
    await people.resets.put(RESET)
    assert await people.resets.find_by_digest(RESET.digest) == RESET
    await people.resets.put(newer)
    assert await people.resets.find_by_digest(RESET.digest) is None
    assert await people.resets.find_by_digest(newer.digest) == newer
    await people.resets.delete("user-ada", RESET.digest)
    assert await people.resets.find_by_digest(newer.digest) == newer
    await people.resets.delete("user-ada", newer.digest)
    assert await people.resets.find_by_digest(newer.digest) is None
