"""API key records: which sets a key is in, and until when it is live; its rights are in `access/test_scopes.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.keys.key_records import ApiKeyRecord
from router.messages import KeySet

KEY = ApiKeyRecord("k0", b"secret digest", "abcd", "org-1", "proj_1", "name", created=1.0, user="user-1")


@pytest.mark.parametrize(
    ("keys", "included"),
    [
        (KeySet(key="k0"), True),
        (KeySet(key="k1"), False),
        (KeySet(organisation="org-1", project="proj_1", user="user-1"), True),
        (KeySet(organisation="org-1", project="proj_2"), False),
        (KeySet(organisation="org-1", admin_only=True), False),
    ],
)
def test_a_key_is_in_a_set_if_every_criterion_matches(keys: KeySet, included: bool) -> None:
    assert KEY.is_in(keys) is included


def test_an_admin_key_has_no_project() -> None:
    admin = replace(KEY, project="")
    assert admin.is_admin
    assert admin.is_in(KeySet(organisation="org-1", admin_only=True))


def test_a_key_is_live_until_it_expires_or_is_revoked() -> None:
    assert KEY.is_live(1e12)
    expiring = replace(KEY, expires=5.0)
    assert (expiring.is_live(4.9), expiring.is_live(5.0)) == (True, False)
    assert not replace(KEY, revoked=9.0).is_live(1.0)


def test_the_digest_is_not_in_the_text_of_a_record() -> None:
    assert "digest" not in repr(KEY)
