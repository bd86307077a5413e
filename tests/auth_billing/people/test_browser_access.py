"""The facade of the web chat's accounts: its services share one set of stores, and CSRF tokens belong to sessions."""

from __future__ import annotations

from auth_billing.access.roles import Role
from tests.fakes.sessions import PASSWORD, PeopleFixture


async def test_a_user_who_signed_up_in_one_process_signs_in_at_another(people: PeopleFixture) -> None:
    signed_up = await people.sign_up_member(people.process(), Role.ADMIN)
    other = people.process()
    signed_in = await other.sign_in.sign_in("admin@example.org", PASSWORD, "10.0.0.1")
    assert signed_in.session.user == signed_up.session.user
    member = await other.members.find(signed_in.session.organisation, signed_in.session.user.id)
    assert member.role is Role.ADMIN


def test_a_csrf_token_belongs_to_a_session_and_is_the_same_in_every_process(people: PeopleFixture) -> None:
    first, second = people.process(), people.process()
    assert first.csrf_token("sess-1") == second.csrf_token("sess-1")
    assert first.csrf_token("sess-1") != first.csrf_token("sess-2")
