"""Request models of users and invitations."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.organization.users import Invite, InviteCreate, UserQuery, UserUpdate


def test_roles_are_headraces_or_openais() -> None:
    for role in ("owner", "admin", "member", "viewer", "reader"):
        assert UserUpdate.parse({"role": role}).role == role
    with pytest.raises(InvalidRequest):
        UserUpdate.parse({"role": "root"})


def test_users_are_selected_by_email() -> None:
    assert UserQuery.parse_query([("emails[]", "a@x"), ("emails[]", "b@x")]).emails == ["a@x", "b@x"]


def test_an_invitation_is_not_limited_to_projects() -> None:
    fields = {"email": "a@example.org", "role": "reader"}
    assert InviteCreate.parse({**fields, "projects": []}).role == "reader"
    with pytest.raises(UnsupportedParameter):
        InviteCreate.parse({**fields, "projects": [{"id": "p", "role": "member"}]})


def test_the_token_is_left_out_unless_set() -> None:
    invite = Invite(
        id="1", email="a@x", role="reader", organization_role="member", status="pending", created_at=1, expires_at=2
    )
    assert "token" not in invite.model_dump()
    assert invite.model_copy(update={"token": "secret"}).model_dump()["token"] == "secret"
