"""Who sets the moderation of projects, and which policy applies to a request while the store is away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from auth_billing.access.roles import Actor, Role
from auth_billing.confirmed_cache import CONFIRMED_TTL, STALE_TTL
from auth_billing.errors import NoSuchRecord, NotPermitted, StoreUnavailable, UnacceptableValue
from auth_billing.people.moderation_policies import ModerationPolicies, ModerationPolicy
from auth_billing.people.organisation_records import Project
from tests.fakes.accounts import DictOrganisationStore
from tests.fakes.moderation_policies import DictModerationPolicyStore

ADMIN, MEMBER = (Actor("org-0", f"user-{role.value}", role) for role in (Role.ADMIN, Role.MEMBER))
POLICY = ModerationPolicy("classifier", frozenset({"hate"}))
OTHER = ModerationPolicy("classifier", answers=False)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> DictModerationPolicyStore:
    return DictModerationPolicyStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def policies(store: DictModerationPolicyStore, clock: Callable[[], float]) -> ModerationPolicies:
    accounts = DictOrganisationStore()
    await accounts.ensure_project(Project("proj_0", "org-0", "Ours", 1.0))
    await accounts.ensure_project(Project("proj_1", "org-1", "Theirs", 1.0))
    await accounts.ensure_project(Project("proj_2", "org-0", "Old", 1.0, archived=2.0))
    return ModerationPolicies(store, accounts, clock=clock)


async def test_a_policy_is_set_found_and_removed(policies: ModerationPolicies) -> None:
    assert await policies.find("org-0", "proj_0") is None
    assert await policies.of_request("org-0", "proj_0") is None
    await policies.set(ADMIN, "proj_0", POLICY)
    assert await policies.find("org-0", "proj_0") == await policies.of_request("org-0", "proj_0") == POLICY
    assert await policies.of_request("org-1", "proj_0") is None
    assert await policies.of_request("org-0", "") is None
    await policies.set(ADMIN, "proj_0", None)
    assert await policies.find("org-0", "proj_0") is None
    assert await policies.of_request("org-0", "proj_0") is None


@pytest.mark.parametrize(
    ("actor", "project", "policy", "error"),
    [
        (MEMBER, "proj_0", POLICY, NotPermitted),
        (MEMBER, "proj_0", None, NotPermitted),
        (ADMIN, "proj_1", POLICY, NoSuchRecord),
        (ADMIN, "proj_2", POLICY, NoSuchRecord),
        (ADMIN, "proj_0", ModerationPolicy(" "), UnacceptableValue),
        (ADMIN, "proj_0", ModerationPolicy("m" * 201), UnacceptableValue),
        (ADMIN, "proj_0", ModerationPolicy("m", frozenset()), UnacceptableValue),
        (ADMIN, "proj_0", ModerationPolicy("m", frozenset({"a\nb"})), UnacceptableValue),
        (ADMIN, "proj_0", ModerationPolicy("m", frozenset(map(str, range(101)))), UnacceptableValue),
        (ADMIN, "proj_0", ModerationPolicy("m", prompts=False, answers=False), UnacceptableValue),
    ],
)
async def test_policies_that_are_refused(
    policies: ModerationPolicies,
    store: DictModerationPolicyStore,
    actor: Actor,
    project: str,
    policy: ModerationPolicy | None,
    error: type[Exception],
) -> None:
    with pytest.raises(error):
        await policies.set(actor, project, policy)
    assert not store.policies


async def test_a_change_of_another_process_applies_within_seconds(
    policies: ModerationPolicies, store: DictModerationPolicyStore, clock: Clock
) -> None:
    await policies.set(ADMIN, "proj_0", POLICY)
    assert await policies.of_request("org-0", "proj_0") == POLICY
    store.policies["org-0", "proj_0"] = OTHER
    assert await policies.of_request("org-0", "proj_0") == POLICY
    clock.now += CONFIRMED_TTL
    assert await policies.of_request("org-0", "proj_0") == OTHER


async def test_while_the_store_is_away_only_known_policies_apply(
    policies: ModerationPolicies, store: DictModerationPolicyStore, clock: Clock
) -> None:
    await policies.set(ADMIN, "proj_0", POLICY)
    assert await policies.of_request("org-0", "proj_0") == POLICY
    store.absence.away = True
    with pytest.raises(StoreUnavailable):
        await policies.of_request("org-1", "proj_1")
    for _ in range(3):
        clock.now += CONFIRMED_TTL
        assert await policies.of_request("org-0", "proj_0") == POLICY
    clock.now += STALE_TTL
    with pytest.raises(StoreUnavailable):
        await policies.of_request("org-0", "proj_0")
