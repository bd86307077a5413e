"""The status of an invitation, and which fields stay out of logs.

Also covers `organisation_records.py` and `session_records.py`: records and ports without logic of their own.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.access.roles import Role
from auth_billing.people.people_records import Invitation, InvitationStatus, User
from auth_billing.people.session_records import SessionRecord

INVITATION = Invitation("invite-1", b"digest", "org-1", Role.MEMBER, "", 1.0, 100.0, "user-1")


@pytest.mark.parametrize(
    ("change", "now", "status"),
    [
        ({}, 99.9, InvitationStatus.PENDING),
        ({}, 100.0, InvitationStatus.EXPIRED),
        ({"revoked": 5.0}, 50.0, InvitationStatus.REVOKED),
        ({"revoked": 5.0}, 200.0, InvitationStatus.REVOKED),
        ({"accepted": 5.0}, 200.0, InvitationStatus.ACCEPTED),
    ],
)
def test_the_status_of_an_invitation(change: dict[str, float], now: float, status: InvitationStatus) -> None:
    assert replace(INVITATION, **change).status(now) is status  # type: ignore[arg-type]


def test_secrets_are_not_in_the_text_of_records() -> None:
    assert "sesame" not in repr(User("user-1", "a@example.org", "A", 1.0, "sesame"))
    assert "digest" not in repr(INVITATION)
    assert "sesame" not in repr(SessionRecord("s", "u", "o", 0, 1.0, 2.0, 1.0, b"sesame", b"sesame", b"sesame"))
