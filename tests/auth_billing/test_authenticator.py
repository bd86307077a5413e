"""Authentication of API keys: caching, expiry, revocation, and an unavailable store."""

import asyncio
import hmac
from dataclasses import replace

import pytest

from auth_billing.access.model_access import ALL_MODELS, ModelAccess, ModelPolicy, PolicyMode
from auth_billing.access.roles import Role
from auth_billing.access.scopes import scopes_of
from auth_billing.authenticator import Authenticator
from auth_billing.early_reads import EARLY_SHARE
from auth_billing.errors import InvalidApiKey, NoSuchRecord, StoreUnavailable
from auth_billing.keys import key_format
from auth_billing.keys.key_cache import CONFIRMED_TTL, INVALID_TTL, RETRY_DELAY, VALID_TTL, KeyCache
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.people.model_policies import PolicySubject
from router.messages import KeySet
from tests.fakes.accounts import DictApiKeyStore, FakeClock
from tests.fakes.administration import DictOrganisation

PEPPER = b"p" * 32


@pytest.fixture
def store() -> DictApiKeyStore:
    return DictApiKeyStore()


@pytest.fixture
def service(store: DictApiKeyStore, clock: FakeClock) -> Authenticator:
    return Authenticator(store, PEPPER, cache=KeyCache(clock), clock=clock)


@pytest.fixture
async def key(service: Authenticator) -> str:
    """The text of a key that was just authenticated."""
    text = (await service.create_api_key("acme", "acme-web", name="first")).text
    await service.authenticate(text)
    return text


async def test_a_new_key_is_valid_at_once_and_names_its_tenant(service: Authenticator) -> None:
    key = await service.create_api_key("acme", "acme-web", name="first")
    principal = await service.authenticate(key.text)
    assert (principal.key_id, principal.tenant) == (key.key_id, "acme")


async def test_the_store_never_sees_the_secret(service: Authenticator, store: DictApiKeyStore) -> None:
    key = await service.create_api_key("acme", "acme-web", name="first")
    (record,) = store.records.values()
    assert key.secret not in repr(vars(record))
    assert record.digest == key_format.digest(PEPPER, key.secret)
    assert record.last4 == key.text[-4:]


@pytest.mark.parametrize(
    "token", ["", "Bearer", "' OR '1'='1", '{"$gt":""}', "é" * 90, "\0", "x" * 1_000_000, "sk-abc"]
)
async def test_garbage_never_reaches_the_store(service: Authenticator, store: DictApiKeyStore, token: str) -> None:
    with pytest.raises(InvalidApiKey):
        await service.authenticate(token)
    assert store.absence.asked == 0


async def test_unknown_id_and_wrong_secret_are_refused_alike(service: Authenticator, store: DictApiKeyStore) -> None:
    key = await service.create_api_key("acme", "acme-web", name="first")
    other = key_format.generate()
    for wrong in (other, key_format.ApiKey(key.key_id, other.secret)):
        with pytest.raises(InvalidApiKey):
            await service.authenticate(wrong.text)


async def test_known_and_unknown_ids_are_compared_in_constant_time(
    service: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    real = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    key = await service.create_api_key("acme", "acme-web", name="first")
    for wrong in (key_format.generate(), key_format.ApiKey(key.key_id, key_format.generate().secret)):
        with pytest.raises(InvalidApiKey):
            await service.authenticate(wrong.text)
    assert compared == [(32, 32), (32, 32)]


async def test_a_digest_of_zeros_matches_no_key(
    service: Authenticator, store: DictApiKeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dummy digest that unknown ids are compared with must not authenticate."""
    monkeypatch.setattr(key_format, "digest", lambda pepper, secret: bytes(32))
    with pytest.raises(InvalidApiKey):
        await service.authenticate(key_format.generate().text)


async def test_while_the_store_is_away_a_valid_key_stays_valid_for_thirty_seconds(
    service: Authenticator, key: str, store: DictApiKeyStore, clock: FakeClock
) -> None:
    store.absence.away = True
    clock.now += VALID_TTL - 0.01
    assert (await service.authenticate(key)).tenant == "acme"
    clock.now += 0.01
    with pytest.raises(StoreUnavailable):
        await service.authenticate(key)


async def test_a_valid_key_is_confirmed_every_few_seconds(
    service: Authenticator, key: str, store: DictApiKeyStore, clock: FakeClock
) -> None:
    asked = store.absence.asked
    for _ in range(10):
        await service.authenticate(key)
    assert store.absence.asked == asked
    clock.now += CONFIRMED_TTL
    for _ in range(10):
        await service.authenticate(key)
    assert store.absence.asked == asked + 1


async def test_a_valid_key_in_use_is_confirmed_before_it_has_to_be(
    service: Authenticator, key: str, store: DictApiKeyStore, clock: FakeClock
) -> None:
    clock.now += (1 - EARLY_SHARE) * CONFIRMED_TTL
    asked = store.absence.asked
    await service.authenticate(key)
    await asyncio.sleep(0)
    assert store.absence.asked == asked + 1
    clock.now += CONFIRMED_TTL / 2
    await service.authenticate(key)
    assert store.absence.asked == asked + 1


async def test_a_key_that_is_found_revoked_before_it_has_to_be_confirmed_is_refused(
    service: Authenticator, key: str, store: DictApiKeyStore, clock: FakeClock
) -> None:
    await store.revoke(KeySet(project="acme-web"), clock.now)
    clock.now += (1 - EARLY_SHARE) * CONFIRMED_TTL
    await service.authenticate(key)
    await asyncio.sleep(0)
    with pytest.raises(InvalidApiKey):
        await service.authenticate(key)


async def test_an_unavailable_store_is_not_read_by_each_request(
    service: Authenticator, key: str, store: DictApiKeyStore, clock: FakeClock
) -> None:
    store.absence.away = True
    clock.now += CONFIRMED_TTL
    asked = store.absence.asked
    for _ in range(10):
        await service.authenticate(key)
    assert store.absence.asked == asked + 1
    store.absence.away = False
    await store.revoke(KeySet(project="acme-web"), clock.now)
    clock.now += RETRY_DELAY
    with pytest.raises(InvalidApiKey):
        await service.authenticate(key)


async def test_an_invalidated_key_is_refused_while_the_store_is_away(
    service: Authenticator, key: str, store: DictApiKeyStore, clock: FakeClock
) -> None:
    store.absence.away = True
    service.invalidate(KeySet(organisation="acme"))
    with pytest.raises(StoreUnavailable):
        await service.authenticate(key)


@pytest.mark.parametrize(
    ("keys", "forgotten"),
    [
        (KeySet(project="acme-web"), True),
        (KeySet(organisation="acme", user="user-1"), False),
        (KeySet(organisation="other"), False),
        (KeySet(organisation="acme", admin_only=True), False),
        (KeySet(), True),
    ],
)
async def test_only_the_published_keys_are_invalidated(
    service: Authenticator, key: str, store: DictApiKeyStore, keys: KeySet, forgotten: bool
) -> None:
    asked = store.absence.asked
    service.invalidate(keys)
    await service.authenticate(key)
    assert (store.absence.asked > asked) is forgotten


async def test_a_record_read_before_an_invalidation_is_not_cached(
    service: Authenticator, store: DictApiKeyStore, clock: FakeClock
) -> None:
    """A revocation races with a request that has just read the key."""
    key = (await service.create_api_key("acme", "acme-web", name="first")).text
    read, revoked = asyncio.Event(), asyncio.Event()
    find = store.find

    async def slow_find(key_id: str) -> ApiKeyRecord | None:
        record = await find(key_id)
        read.set()
        await revoked.wait()
        return record

    store.find = slow_find  # type: ignore[method-assign]
    request = asyncio.create_task(service.authenticate(key))
    await read.wait()
    await store.revoke(KeySet(project="acme-web"), clock.now)
    service.invalidate(KeySet(project="acme-web"))
    revoked.set()
    await request  # it was good when it was read
    with pytest.raises(InvalidApiKey):
        await service.authenticate(key)


async def test_an_invalid_key_is_cached_for_five_seconds(
    service: Authenticator, store: DictApiKeyStore, clock: FakeClock
) -> None:
    key = key_format.generate()
    for _ in range(3):
        with pytest.raises(InvalidApiKey):
            await service.authenticate(key.text)
    assert store.absence.asked == 1
    clock.now += INVALID_TTL
    with pytest.raises(InvalidApiKey):
        await service.authenticate(key.text)
    assert store.absence.asked == 2


async def test_a_wrong_secret_neither_uses_nor_replaces_the_right_ones_entry(service: Authenticator) -> None:
    key = await service.create_api_key("acme", "acme-web", name="first")
    wrong = key_format.ApiKey(key.key_id, key_format.generate().secret)
    await service.authenticate(key.text)
    with pytest.raises(InvalidApiKey):
        await service.authenticate(wrong.text)
    await service.authenticate(key.text)


async def test_a_failed_lookup_is_not_cached(service: Authenticator, store: DictApiKeyStore) -> None:
    key = (await service.create_api_key("acme", "acme-web", name="first")).text
    store.absence.failures = 1
    with pytest.raises(StoreUnavailable):
        await service.authenticate(key)
    await service.authenticate(key)


async def test_a_cached_key_expires_on_time(service: Authenticator, clock: FakeClock) -> None:
    key = (await service.create_api_key("acme", "acme-web", name="first", expires=clock.now + 10)).text
    await service.authenticate(key)
    clock.now += 10
    with pytest.raises(InvalidApiKey):
        await service.authenticate(key)


async def test_a_revoked_key_is_refused_within_seconds_without_invalidation(
    service: Authenticator, store: DictApiKeyStore, clock: FakeClock
) -> None:
    key = await service.create_api_key("acme", "acme-web", name="first")
    await service.authenticate(key.text)
    store.records[key.key_id] = replace(store.records[key.key_id], revoked=clock.now)
    clock.now += CONFIRMED_TTL
    with pytest.raises(InvalidApiKey):
        await service.authenticate(key.text)


async def test_a_flood_of_invalid_keys_evicts_no_valid_one(store: DictApiKeyStore, clock: FakeClock) -> None:
    service = Authenticator(store, PEPPER, cache=KeyCache(clock, capacity=3), clock=clock)
    key = (await service.create_api_key("acme", "acme-web", name="first")).text
    await service.authenticate(key)
    for _ in range(10):
        with pytest.raises(InvalidApiKey):
            await service.authenticate(key_format.generate().text)
    store.absence.away = True
    await service.authenticate(key)


async def test_the_cache_is_bounded(store: DictApiKeyStore, clock: FakeClock) -> None:
    service = Authenticator(store, PEPPER, cache=KeyCache(clock, capacity=2), clock=clock)
    keys = [(await service.create_api_key("acme", "acme-web", name="k")).text for _ in range(3)]
    for key in keys:
        await service.authenticate(key)
    store.absence.away = True
    with pytest.raises(StoreUnavailable):
        await service.authenticate(keys[0])
    await service.authenticate(keys[2])


async def test_tenants_have_different_stable_cache_salts(
    service: Authenticator, store: DictApiKeyStore, clock: FakeClock
) -> None:
    salts = set()
    for tenant in ("acme", "acme", "other"):
        key = await service.create_api_key(tenant, tenant, name="k")
        salts.add((await service.authenticate(key.text)).cache_salt)
    assert len(salts) == 2
    elsewhere = Authenticator(store, b"q" * 32, clock=clock)
    key = await elsewhere.create_api_key("acme", "acme", name="k")
    assert (await elsewhere.authenticate(key.text)).cache_salt not in salts


async def test_no_error_contains_the_secret(service: Authenticator) -> None:
    key = key_format.generate()
    with pytest.raises(InvalidApiKey) as caught:
        await service.authenticate(key.text)
    assert key.secret not in str(caught.value)


ONLY_A = ModelPolicy(PolicyMode.ALLOW, frozenset({"a"}))


async def test_a_cached_keys_models_follow_a_policy_within_seconds_or_at_once_when_it_is_published(
    store: DictApiKeyStore, clock: FakeClock
) -> None:
    organisation = DictOrganisation(api_keys=store)
    service = Authenticator(
        store, PEPPER, organisation.administration.model_policies, cache=KeyCache(clock), clock=clock
    )
    key = (await service.create_api_key("acme", "acme-web", name="k")).text
    assert (await service.authenticate(key)).models == ALL_MODELS
    subject = PolicySubject("project", "acme-web")
    await organisation.model_policies.put("acme", subject, ONLY_A)
    assert (await service.authenticate(key)).models == ALL_MODELS
    clock.now += CONFIRMED_TTL
    assert (await service.authenticate(key)).models == ModelAccess((ONLY_A,))
    await organisation.model_policies.remove("acme", subject)
    service.invalidate(KeySet(organisation="acme", project="acme-web"))
    assert (await service.authenticate(key)).models == ALL_MODELS


async def test_a_key_whose_policies_cannot_be_read_is_not_let_through(store: DictApiKeyStore, clock: FakeClock) -> None:
    organisation = DictOrganisation(api_keys=store)
    policies = organisation.administration.model_policies
    service = Authenticator(store, PEPPER, policies, cache=KeyCache(clock), clock=clock)
    key = (await service.create_api_key("acme", "acme-web", name="k")).text
    organisation.model_policies.absence.away = True
    with pytest.raises(StoreUnavailable):
        await service.authenticate(key)
    organisation.model_policies.absence.away = False
    await service.authenticate(key)
    organisation.model_policies.absence.away = True
    clock.now += CONFIRMED_TTL
    await service.authenticate(key)


async def test_an_admin_keys_list_restricts_the_keys_that_it_creates_and_policies_do_not(
    store: DictApiKeyStore, clock: FakeClock
) -> None:
    organisation = DictOrganisation(api_keys=store)
    policies = organisation.administration.model_policies
    await organisation.administration.members.join("acme", "user-1", Role.ADMIN, 1.0)
    await organisation.model_policies.put("acme", PolicySubject("user", "user-1"), ONLY_A)
    service = Authenticator(store, PEPPER, policies, cache=KeyCache(clock), clock=clock)
    models = {}
    for project in ("", "acme-web"):
        key = await service.create_api_key("acme", project, name="k")
        store.records[key.key_id] = replace(store.records[key.key_id], user="user-1", models=frozenset({"b"}))
        models[project] = (await service.authenticate(key.text)).models
    assert models[""] == ALL_MODELS.restricted_to(frozenset({"b"}))
    assert models["acme-web"] == ModelAccess((ONLY_A,)).restricted_to(frozenset({"b"}))


async def test_the_principal_of_a_key_by_its_id_has_the_rights_of_now(
    service: Authenticator, store: DictApiKeyStore
) -> None:
    key = await service.create_api_key("acme", "acme-web", name="first")
    assert await service.principal_of_key(key.key_id) == await service.authenticate(key.text)
    store.records[key.key_id] = replace(store.records[key.key_id], revoked=1.0)
    for wrong in (key.key_id, "unknown"):
        with pytest.raises(InvalidApiKey):
            await service.principal_of_key(wrong)


async def test_the_principal_of_a_member_has_the_rights_of_now(store: DictApiKeyStore, clock: FakeClock) -> None:
    organisation = DictOrganisation(api_keys=store)
    members = organisation.administration.members
    service = Authenticator(store, PEPPER, organisation.administration.model_policies, clock=clock)
    await members.join("acme", "user-1", Role.MEMBER, 1.0)
    await organisation.model_policies.put("acme", PolicySubject("user", "user-1"), ONLY_A)
    principal = await service.principal_of_member("acme", "acme-web", "user-1")
    assert (principal.user, principal.project, principal.key_id) == ("user-1", "acme-web", "")
    assert (principal.scopes, principal.models) == (scopes_of(Role.MEMBER), ModelAccess((ONLY_A,)))
    for other, person in (("acme", "user-2"), ("another", "user-1")):
        with pytest.raises(NoSuchRecord):
            await service.principal_of_member(other, "acme-web", person)
