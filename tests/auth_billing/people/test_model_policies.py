"""Who may restrict whose models, and which requests a restriction concerns."""

from __future__ import annotations

import pytest

from auth_billing.access.model_access import ALL_MODELS, UNRESTRICTED, ModelAccess, ModelPolicy, PolicyMode
from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord, NotPermitted, UnacceptableValue
from auth_billing.people.model_policies import ModelPolicies, PolicySubject
from auth_billing.people.organisation_records import Project
from auth_billing.people.people_records import User
from router.messages import KeySet
from tests.fakes.administration import DictOrganisation

ORGANISATION = "org-0"
OWNER, ADMIN, MEMBER, _ = (Actor(ORGANISATION, f"user-{role.value}", role) for role in Role)
PROJECT = PolicySubject("project", "proj_0")
ONLY_A = ModelPolicy(PolicyMode.ALLOW, frozenset({"a"}))
ONLY_B = ModelPolicy(PolicyMode.ALLOW, frozenset({"b"}))
NOT_C = ModelPolicy(PolicyMode.DENY, frozenset({"c"}))


def of_role(role: Role) -> PolicySubject:
    return PolicySubject("role", role.value)


def of_user(role: Role) -> PolicySubject:
    return PolicySubject("user", f"user-{role.value}")


@pytest.fixture
async def organisation() -> DictOrganisation:
    organisation = DictOrganisation()
    await organisation.accounts.ensure_project(Project("proj_0", ORGANISATION, "Ours", 1.0))
    await organisation.accounts.ensure_project(Project("proj_1", "org-1", "Theirs", 1.0))
    await organisation.accounts.ensure_project(Project("proj_2", ORGANISATION, "Old", 1.0, archived=2.0))
    for role in Role:
        user = User(f"user-{role.value}", f"{role.value}@example.org", role.value, 1.0, "hash")
        await organisation.users.add(user)
        await organisation.administration.members.join(ORGANISATION, f"user-{role.value}", role, 1.0)
    await organisation.administration.members.join("org-1", "user-other", Role.MEMBER, 1.0)
    return organisation


@pytest.fixture
def policies(organisation: DictOrganisation) -> ModelPolicies:
    return organisation.administration.model_policies


async def test_access_is_the_intersection_of_project_role_and_person(policies: ModelPolicies) -> None:
    await policies.set(ADMIN, PROJECT, NOT_C)
    await policies.set(ADMIN, of_role(Role.MEMBER), ONLY_A)
    await policies.set(ADMIN, of_user(Role.MEMBER), ONLY_B)
    for known in (None, Role.MEMBER):
        access = await policies.access(ORGANISATION, "proj_0", "user-member", known)
        assert access == ModelAccess((NOT_C, ONLY_A, ONLY_B))
    assert await policies.access(ORGANISATION, "proj_2", "user-member") == ModelAccess((ONLY_A, ONLY_B))
    assert await policies.access(ORGANISATION, "proj_0", "user-viewer") == ModelAccess((NOT_C,))
    assert await policies.access(ORGANISATION, "proj_0", "svc_acct_1") == ModelAccess((NOT_C,))
    assert await policies.access(ORGANISATION, "proj_0", "") == ModelAccess((NOT_C,))
    assert await policies.access("org-1", "proj_1", "user-member") == ALL_MODELS


async def test_a_role_applies_while_the_user_has_it(policies: ModelPolicies, organisation: DictOrganisation) -> None:
    await policies.set(OWNER, of_role(Role.ADMIN), ONLY_A)
    await policies.set(OWNER, of_role(Role.MEMBER), ONLY_B)
    assert await policies.access(ORGANISATION, "proj_0", "user-admin") == ModelAccess((ONLY_A,))
    await organisation.administration.members.change_role(OWNER, "user-admin", Role.MEMBER)
    assert await policies.access(ORGANISATION, "proj_0", "user-admin") == ModelAccess((ONLY_B,))


async def test_a_removed_members_restriction_holds_until_the_keys_are_revoked(
    policies: ModelPolicies, organisation: DictOrganisation
) -> None:
    await policies.set(OWNER, of_user(Role.MEMBER), ONLY_A)
    await organisation.memberships.remove(ORGANISATION, "user-member")
    assert await policies.access(ORGANISATION, "proj_0", "user-member") == ModelAccess((ONLY_A,))


async def test_owners_are_never_restricted_as_owners_or_persons(
    policies: ModelPolicies, organisation: DictOrganisation
) -> None:
    for subject in (of_role(Role.OWNER), of_user(Role.OWNER)):
        for actor in (ADMIN, OWNER):
            with pytest.raises(UnacceptableValue):
                await policies.set(actor, subject, ONLY_A)
    await policies.set(OWNER, of_user(Role.ADMIN), ONLY_A)
    await organisation.administration.members.change_role(OWNER, "user-admin", Role.OWNER)
    assert await policies.access(ORGANISATION, "proj_0", "user-admin") == ALL_MODELS
    await policies.set(OWNER, of_user(Role.ADMIN), UNRESTRICTED)
    assert not await policies.all(ORGANISATION)
    await policies.set(ADMIN, PROJECT, NOT_C)
    await policies.set(ADMIN, of_role(Role.MEMBER), ONLY_A)
    assert await policies.access(ORGANISATION, "proj_0", "user-owner") == ModelAccess((NOT_C,))


@pytest.mark.parametrize("policy", [ONLY_A, UNRESTRICTED])
async def test_no_one_changes_their_own_access(policies: ModelPolicies, policy: ModelPolicy) -> None:
    for subject in (of_role(Role.ADMIN), of_user(Role.ADMIN)):
        with pytest.raises(NotPermitted):
            await policies.set(ADMIN, subject, policy)
        await policies.set(OWNER, subject, policy)
    for subject in (PROJECT, of_role(Role.MEMBER), of_user(Role.MEMBER), of_role(Role.VIEWER)):
        with pytest.raises(NotPermitted):
            await policies.set(MEMBER, subject, policy)


@pytest.mark.parametrize(
    "subject",
    [
        PolicySubject("project", "proj_1"),
        PolicySubject("project", "proj_2"),
        PolicySubject("user", "user-other"),
        PolicySubject("user", ""),
        PolicySubject("role", "reader"),
    ],
)
async def test_other_organisations_archived_projects_and_unknown_roles_are_not_found(
    policies: ModelPolicies, subject: PolicySubject
) -> None:
    with pytest.raises(NoSuchRecord):
        await policies.set(OWNER, subject, ONLY_A)
    with pytest.raises(NoSuchRecord):
        await policies.find(ORGANISATION, subject)


async def test_a_change_is_published_for_the_keys_that_it_concerns(
    policies: ModelPolicies, organisation: DictOrganisation
) -> None:
    await policies.set(ADMIN, PROJECT, ONLY_A)
    await policies.set(ADMIN, of_role(Role.MEMBER), ONLY_A)
    await policies.set(ADMIN, of_user(Role.MEMBER), UNRESTRICTED)
    assert organisation.news == [
        KeySet(organisation=ORGANISATION, project="proj_0"),
        KeySet(organisation=ORGANISATION),
        KeySet(organisation=ORGANISATION, user="user-member"),
    ]


async def test_invalid_names_are_refused(policies: ModelPolicies) -> None:
    with pytest.raises(UnacceptableValue):
        await policies.set(OWNER, PROJECT, ModelPolicy(PolicyMode.DENY, frozenset({" "})))
