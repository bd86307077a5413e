"""Who may create and revoke keys, which rights a new key has, and that each revocation is published."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from auth_billing.access.model_access import ALL_MODELS, MAX_MODELS
from auth_billing.access.principal import Principal
from auth_billing.access.roles import Actor, Role
from auth_billing.access.scopes import ADMIN_SCOPES, PROJECT_SCOPES, Scope
from auth_billing.authenticator import Authenticator
from auth_billing.errors import InvalidApiKey, NoSuchRecord, NotPermitted, StoreUnavailable, UnacceptableValue
from auth_billing.keys.key_issuance import KeySpec
from auth_billing.keys.key_management import ADMIN_KEYS, ApiKeys
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.money.billing_records import Balance
from auth_billing.money.budgets import Budgets
from auth_billing.money.holds import key_budget, month_of
from auth_billing.people.organisation_records import Organisation, Project
from auth_billing.people.people_records import Membership
from auth_billing.rate_limits.limits import Limits, key_subject
from router.messages import KeySet
from tests.fakes.accounts import Absence, DictApiKeyStore, DictOrganisationStore, FakeClock
from tests.fakes.billing_stores import DictBalanceStore
from tests.fakes.budgets import DictBudgetStore
from tests.fakes.people import DictMembershipStore
from tests.fakes.rate_buckets import DictLimitStore

PEPPER = b"p" * 32
ADMIN, MEMBER, OTHER = (
    Actor("acme", user, role)
    for user, role in (("user-a", Role.ADMIN), ("user-m", Role.MEMBER), ("user-o", Role.MEMBER))
)
PROGRAM = Actor("acme", "", Role.ADMIN)
VIEWER = Actor("acme", "user-v", Role.VIEWER)
RIVAL = Actor("rival", "r", Role.OWNER)
WISH = KeySpec("first")


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = DictApiKeyStore()
        self.accounts = DictOrganisationStore()
        self.announced: list[KeySet] = []
        self.balances = DictBalanceStore(Absence())
        budgets = Budgets(DictBudgetStore(self.balances), self.balances, clock=self.clock)
        self.memberships = DictMembershipStore()
        self.limits = DictLimitStore()
        self.keys = ApiKeys(
            self.store,
            self.accounts,
            self.memberships,
            budgets,
            self.limits,
            PEPPER,
            self.announced.append,
            clock=self.clock,
        )
        self.service = Authenticator(self.store, PEPPER, clock=self.clock)


@pytest.fixture
async def stage() -> Stage:
    stage = Stage()
    for organisation in ("acme", "rival"):
        await stage.accounts.ensure_organisation(Organisation(organisation, organisation, 1.0))
        await stage.accounts.ensure_project(Project(f"{organisation}-web", organisation, "Web", 1.0))
    for actor in (ADMIN, MEMBER, OTHER, VIEWER, RIVAL):
        await stage.memberships.add(Membership(actor.organisation, actor.user, actor.role, 1.0))
    return stage


async def test_a_key_has_the_requested_scopes_and_models(stage: Stage) -> None:
    spec = KeySpec("mine", frozenset({Scope.EMBEDDINGS}), frozenset({"m"}), stage.clock.now + 10)
    issued = await stage.keys.create(MEMBER, "acme-web", spec)
    caller = await stage.service.authenticate(issued.key.text)
    assert (caller.tenant, caller.project, caller.user) == ("acme", "acme-web", "user-m")
    assert caller.scopes == {Scope.EMBEDDINGS}
    assert caller.models == ALL_MODELS.restricted_to(frozenset({"m"}))
    stage.clock.now += 10
    with pytest.raises(InvalidApiKey):
        await stage.service.authenticate(issued.key.text)


async def test_a_key_has_all_scopes_of_its_kind_by_default(stage: Stage) -> None:
    project = await stage.keys.create(MEMBER, "acme-web", WISH)
    admin = await stage.keys.create(ADMIN, ADMIN_KEYS, WISH)
    assert [key.record.rights for key in (project, admin)] == [PROJECT_SCOPES, ADMIN_SCOPES]


@pytest.mark.parametrize(
    ("actor", "project", "spec", "by"),
    [
        (VIEWER, "acme-web", WISH, None),
        (MEMBER, ADMIN_KEYS, WISH, None),
        (ADMIN, "acme-web", KeySpec("k", frozenset({Scope.ORGANIZATION_READ})), None),
        (ADMIN, ADMIN_KEYS, KeySpec("k", frozenset({Scope.CHAT_COMPLETIONS})), None),
        (PROGRAM, ADMIN_KEYS, WISH, Principal("k", "acme", "s", scopes=frozenset({Scope.ORGANIZATION_ADMIN}))),
        (
            PROGRAM,
            "acme-web",
            WISH,
            Principal("k", "acme", "s", scopes=ADMIN_SCOPES, models=ALL_MODELS.restricted_to(frozenset({"m"}))),
        ),
        (
            PROGRAM,
            "acme-web",
            KeySpec("k", models=frozenset({"m", "n"})),
            Principal("k", "acme", "s", scopes=ADMIN_SCOPES, models=ALL_MODELS.restricted_to(frozenset({"m"}))),
        ),
    ],
)
async def test_a_member_cannot_create_a_key_with_more_rights(
    stage: Stage, actor: Actor, project: str, spec: KeySpec, by: Principal | None
) -> None:
    with pytest.raises(NotPermitted):
        await stage.keys.create(actor, project, spec, by=by)
    assert not stage.store.records


async def test_a_key_passes_on_no_more_than_its_own_rights(stage: Stage) -> None:
    by = Principal("k", "acme", "s", scopes=ADMIN_SCOPES, models=ALL_MODELS.restricted_to(frozenset({"m", "n"})))
    spec = KeySpec("k", models=frozenset({"m"}))
    issued = await stage.keys.create(PROGRAM, "acme-web", spec, by=by)
    assert issued.record.rights == PROJECT_SCOPES
    reader = Principal("k", "acme", "s", scopes=frozenset({Scope.ORGANIZATION_READ, Scope.ORGANIZATION_ADMIN}))
    await stage.keys.create(PROGRAM, ADMIN_KEYS, KeySpec("k", frozenset({Scope.ORGANIZATION_READ})), by=reader)


@pytest.mark.parametrize("project", ["rival-web", "nowhere"])
async def test_another_organisations_project_is_not_found(stage: Stage, project: str) -> None:
    with pytest.raises(NoSuchRecord):
        await stage.keys.create(ADMIN, project, WISH)
    with pytest.raises(NoSuchRecord):
        await stage.keys.all(ADMIN, project)


@pytest.mark.parametrize(
    "spec",
    [
        KeySpec(""),
        KeySpec("x" * 101),
        KeySpec("a\nb"),
        KeySpec("k", expires=999.0),
        KeySpec("k", models=frozenset({""})),
        KeySpec("k", models=frozenset({"m\n"})),
        KeySpec("k", models=frozenset({"m" * 201})),
        KeySpec("k", models=frozenset(f"m{number}" for number in range(MAX_MODELS + 1))),
    ],
)
async def test_invalid_properties_are_refused(stage: Stage, spec: KeySpec) -> None:
    with pytest.raises(UnacceptableValue):
        await stage.keys.create(ADMIN, "acme-web", spec)


async def test_members_manage_their_own_keys_and_administrators_all(stage: Stage) -> None:
    mine = (await stage.keys.create(MEMBER, "acme-web", WISH)).record
    stage.clock.now += 1
    programs = (await stage.keys.create(PROGRAM, "acme-web", WISH)).record
    assert await stage.keys.all(MEMBER, "acme-web") == [mine]
    assert await stage.keys.all(ADMIN, "acme-web") == [programs, mine]
    assert await stage.keys.all(OTHER, "acme-web") == []
    for actor, key in ((OTHER, mine), (MEMBER, programs), (Actor("rival", "x", Role.OWNER), mine)):
        for attempt in (
            stage.keys.find(actor, "acme-web", key.key_id),
            stage.keys.rename(actor, "acme-web", key.key_id, "theirs"),
            stage.keys.revoke(actor, "acme-web", key.key_id),
            stage.keys.rotate(actor, "acme-web", key.key_id, overlap=0),
        ):
            with pytest.raises(NoSuchRecord):
                await attempt
    with pytest.raises(NoSuchRecord):
        await stage.keys.find(ADMIN, ADMIN_KEYS, mine.key_id)
    assert (await stage.keys.rename(MEMBER, "acme-web", mine.key_id, "new")).name == "new"
    assert stage.announced == []
    await stage.keys.revoke(ADMIN, "acme-web", mine.key_id)
    assert stage.announced == [KeySet(key=mine.key_id)]
    assert await stage.keys.all(MEMBER, "acme-web") == []
    with pytest.raises(NoSuchRecord):
        await stage.keys.find(MEMBER, "acme-web", mine.key_id)


async def test_a_rotated_key_overlaps_with_its_successor(stage: Stage) -> None:
    spec = KeySpec("k", frozenset({Scope.EMBEDDINGS}), frozenset({"m"}), stage.clock.now + 100)
    old = await stage.keys.create(MEMBER, "acme-web", spec)
    stage.clock.now += 40
    new = await stage.keys.rotate(MEMBER, "acme-web", old.record.key_id, overlap=20)
    assert stage.announced == [KeySet(key=old.record.key_id)]
    assert new.record.expires == stage.clock.now + 100
    same = [(key.name, key.scopes, key.models, key.user, key.project) for key in (old.record, new.record)]
    assert same[0] == same[1]
    for key in (old, new):
        await stage.service.authenticate(key.key.text)
    stage.clock.now += 20
    with pytest.raises(InvalidApiKey):
        await stage.service.authenticate(old.key.text)
    await stage.service.authenticate(new.key.text)
    with pytest.raises(NoSuchRecord):
        await stage.keys.rotate(MEMBER, "acme-web", old.record.key_id, overlap=20)


async def test_a_rotated_keys_budget_is_inherited(stage: Stage) -> None:
    old = await stage.keys.create(MEMBER, "acme-web", KeySpec("k"))
    budget, month = key_budget(old.record.key_id), month_of(stage.clock.now)
    before = Balance("acme", 100, 0, budgets={budget: 50}, used={month: {budget: 30}})
    stage.balances.balances["acme"] = before
    new = await stage.keys.rotate(MEMBER, "acme-web", old.record.key_id, overlap=20)
    heir, after = key_budget(new.record.key_id), stage.balances.balances["acme"]
    assert after == replace(before, budgets={budget: 50, heir: 50}, used={month: {budget: 30, heir: 30}})


async def test_an_overlap_never_extends_a_keys_lifetime(stage: Stage) -> None:
    old = await stage.keys.create(MEMBER, "acme-web", KeySpec("k", expires=stage.clock.now + 5))
    await stage.keys.rotate(MEMBER, "acme-web", old.record.key_id, overlap=20)
    assert stage.store.records[old.record.key_id].expires == stage.clock.now + 5


@pytest.mark.parametrize("overlap", [-1, 1e9, float("nan"), float("inf")])
async def test_invalid_overlaps_are_refused(stage: Stage, overlap: float) -> None:
    old = await stage.keys.create(MEMBER, "acme-web", WISH)
    with pytest.raises(UnacceptableValue):
        await stage.keys.rotate(MEMBER, "acme-web", old.record.key_id, overlap=overlap)


async def test_another_users_key_cannot_be_rotated(stage: Stage) -> None:
    old = await stage.keys.create(MEMBER, "acme-web", WISH)
    with pytest.raises(NotPermitted):
        await stage.keys.rotate(ADMIN, "acme-web", old.record.key_id, overlap=0)


async def test_only_the_operator_rotates_a_key_without_an_owner(stage: Stage) -> None:
    old = await stage.keys.create(PROGRAM, "acme-web", WISH)
    with pytest.raises(NotPermitted):  # the successor would outlive the membership of the user who knows it
        await stage.keys.rotate(ADMIN, "acme-web", old.record.key_id, overlap=0)
    assert (await stage.keys.rotate(PROGRAM, "acme-web", old.record.key_id, overlap=0)).record.user == ""


@pytest.mark.parametrize(
    ("ended", "left"),
    [
        (KeySet(project="acme-web"), {"admin", "rivals"}),
        (KeySet(organisation="acme"), {"rivals"}),
        (KeySet(organisation="acme", user="user-a", admin_only=True), {"members", "programs", "rivals"}),
        (KeySet(user="user-m"), {"admin", "programs", "rivals"}),
        (KeySet(), {"admin", "members", "programs", "rivals"}),
    ],
)
async def test_revoking_by_project_user_or_organisation(stage: Stage, ended: KeySet, left: set[str]) -> None:
    made = {
        "admin": await stage.keys.create(ADMIN, ADMIN_KEYS, WISH),
        "members": await stage.keys.create(MEMBER, "acme-web", WISH),
        "programs": await stage.keys.create(PROGRAM, "acme-web", WISH),
        "rivals": await stage.keys.create(RIVAL, "rival-web", WISH),
    }
    assert await stage.keys.revoke_all(ended) == len(made) - len(left)
    assert stage.announced == [ended]
    assert {name for name, key in made.items() if stage.store.records[key.record.key_id].revoked is None} == left


async def test_a_revocation_with_unknown_outcome_is_published(stage: Stage) -> None:
    key = (await stage.keys.create(MEMBER, "acme-web", WISH)).record
    stage.store.absence.away = True
    with pytest.raises(StoreUnavailable):
        await stage.keys.revoke_all(KeySet(key=key.key_id))
    assert stage.announced == [KeySet(key=key.key_id)]


async def test_a_key_created_while_its_project_is_archived_is_revoked(stage: Stage) -> None:
    add = stage.store.add

    async def archived_meanwhile(record: ApiKeyRecord) -> None:
        await stage.accounts.archive_project("acme", "acme-web", stage.clock.now)
        await stage.keys.revoke_all(KeySet(project="acme-web"))
        await add(record)

    stage.store.add = archived_meanwhile  # type: ignore[method-assign]
    with pytest.raises(NoSuchRecord):
        await stage.keys.create(MEMBER, "acme-web", WISH)
    assert all(record.revoked is not None for record in stage.store.records.values())


async def left(stage: Stage, actor: Actor) -> None:
    await stage.memberships.remove("acme", actor.user)
    await stage.keys.revoke_all(KeySet(organisation="acme", user=actor.user))


async def demoted(stage: Stage, actor: Actor) -> None:
    await stage.memberships.set_role("acme", actor.user, Role.VIEWER)
    await stage.keys.revoke_all(KeySet(organisation="acme", user=actor.user))


@pytest.mark.parametrize("ended", [left, demoted])
@pytest.mark.parametrize("way", ["project", "admin", "service account", "rotation"])
async def test_a_key_created_while_its_maker_is_removed_is_revoked(
    stage: Stage, way: str, ended: Callable[[Stage, Actor], Awaitable[None]]
) -> None:
    old = await stage.keys.create(ADMIN, "acme-web", WISH)
    add = stage.store.add

    async def removed_meanwhile(record: ApiKeyRecord) -> None:
        await ended(stage, ADMIN)
        await add(record)

    owner, project = "svc_acct_1" if way == "service account" else None, ADMIN_KEYS if way == "admin" else "acme-web"
    made = (
        stage.keys.rotate(ADMIN, project, old.record.key_id, overlap=0)
        if way == "rotation"
        else stage.keys.create(ADMIN, project, WISH, owner=owner)
    )
    stage.store.add = removed_meanwhile  # type: ignore[method-assign]
    with pytest.raises(NotPermitted):
        await made
    assert len(stage.store.records) == 2
    assert stage.store.records.pop(old.record.key_id).revoked is not None
    assert [record.revoked is not None for record in stage.store.records.values()] == [True]


async def test_a_rotated_keys_rate_limits_are_inherited(stage: Stage) -> None:
    old = await stage.keys.create(MEMBER, "acme-web", WISH)
    await stage.limits.change(key_subject(old.record.key_id, "").id, Limits(requests_per_minute=5))
    new = await stage.keys.rotate(MEMBER, "acme-web", old.record.key_id, overlap=0)
    assert stage.limits.limits[key_subject(new.record.key_id, "").id] == Limits(requests_per_minute=5)
