"""Authenticates API keys, with a cache, and describes callers of gateway and chat (keys or users) as principals."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from contextlib import suppress

from auth_billing.access.model_access import ALL_MODELS, ModelAccess
from auth_billing.access.principal import Principal
from auth_billing.access.roles import Role
from auth_billing.access.scopes import scopes_of
from auth_billing.early_reads import EarlyReads
from auth_billing.errors import InvalidApiKey, NoSuchRecord, StoreUnavailable
from auth_billing.keys import key_format
from auth_billing.keys.key_cache import CachedKey, Identity, KeyCache
from auth_billing.keys.key_format import ApiKey
from auth_billing.keys.key_issuance import KeySpec, issue
from auth_billing.keys.key_records import ApiKeyRecord, ApiKeyStore
from auth_billing.keys.last_used import LastUsedTimes
from auth_billing.people.model_policies import ModelPolicies
from auth_billing.people.sessions import BrowserSession
from router.messages import KeySet


class Authenticator:
    """Authenticates API keys, and describes callers as principals.

    Args:
        api_keys: store of API keys.
        pepper: the installation's secret; the same in every process.
        policies: model policies that restrict the principals; `None`: not read, in a process that serves no model.
        cache: caches valid and invalid keys.
        clock: Unix seconds, for expiry.
    """

    def __init__(
        self,
        api_keys: ApiKeyStore,
        pepper: bytes,
        policies: ModelPolicies | None = None,
        *,
        cache: KeyCache | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api_keys = api_keys
        self._pepper = pepper
        self._policies = policies
        self._cache = cache or KeyCache()
        self._early: EarlyReads[Identity] = EarlyReads()
        self.last_used_times = LastUsedTimes(api_keys)
        self._clock = clock
        self._no_digest = bytes(hashlib.sha256().digest_size)

    async def authenticate(self, token: str) -> Principal:
        """Verify the text of an API key, note the key's use, and return its principal.

        Called for each request to the API. While the store is unavailable, keys that were valid within the last
        `key_cache.VALID_TTL` seconds stay valid.

        Raises:
            InvalidApiKey: malformed (without a store lookup), unknown, wrong, revoked or expired.
            StoreUnavailable: the key is not cached and the store does not answer.
        """
        key = key_format.parse(token)
        if key is None:
            raise InvalidApiKey("malformed key")
        verified, now = await self._verify(key), self._clock()
        record = verified.record
        if not record.is_live(now):  # checked each time: a key may expire while it is cached
            raise InvalidApiKey(f"key {key.key_id} is revoked or expired")
        self.last_used_times.record(record.key_id, now)
        return self._principal(record, verified.models)

    def _principal(self, record: ApiKeyRecord, models: ModelAccess) -> Principal:
        return Principal(
            key_id=record.key_id,
            tenant=record.organisation,
            cache_salt=self._cache_salt(record.organisation),
            project=record.project,
            user=record.user,
            scopes=record.rights,
            models=models,
        )

    async def principal_of(self, session: BrowserSession) -> Principal:
        """Return the principal of a browser session: its user, in the default project of its organisation.

        Raises:
            StoreUnavailable: the model policies can't be read.
        """
        return Principal(
            key_id="",
            tenant=session.organisation,
            cache_salt=self._cache_salt(session.organisation),
            project=session.project,
            user=session.user.id,
            scopes=scopes_of(session.role),
            models=await self._models(session.organisation, session.project, session.user.id, session.role),
        )

    async def principal_of_member(self, organisation: str, project: str, user: str) -> Principal:
        """Return the principal of a person who made an earlier request in the chat, with their rights as they are now.

        Only for work that the person has asked for, such as a batch.

        Raises:
            NoSuchRecord: the person is no member of the organisation any more.
            StoreUnavailable: the membership, or the model policies, can't be read.
        """
        role = None if self._policies is None else await self._policies.role(organisation, user)
        if role is None:
            raise NoSuchRecord(f"user {user} is no member of {organisation}")
        return Principal(
            key_id="",
            tenant=organisation,
            cache_salt=self._cache_salt(organisation),
            project=project,
            user=user,
            scopes=scopes_of(role),
            models=await self._models(organisation, project, user, role),
        )

    async def principal_of_key(self, key_id: str) -> Principal:
        """Return the principal of an API key that made an earlier request, by its id, with its rights as they are now.

        Only for work that the key has asked for, such as a batch.

        Raises:
            InvalidApiKey: the key is unknown, revoked or expired.
            StoreUnavailable: the key, or the model policies, can't be read.
        """
        record = await self._api_keys.find(key_id)
        if record is None or not record.is_live(self._clock()):
            raise InvalidApiKey(f"key {key_id} is unknown, revoked or expired")
        models = await self._models(record.organisation, record.project, record.user)
        return self._principal(record, models.restricted_to(record.models))

    async def create_api_key(
        self, organisation: str, project: str, *, name: str, expires: float | None = None
    ) -> ApiKey:
        """Create an API key of a project with the default scopes, store its digest, and return the key with its secret.

        `expires`: Unix seconds, `None`: never.

        Raises:
            StoreUnavailable: the key may or may not have been stored; its text is lost.
        """
        issued = await issue(
            self._api_keys,
            self._pepper,
            organisation=organisation,
            project=project,
            spec=KeySpec(name, expires=expires),
            user="",
            now=self._clock(),
        )
        return issued.key

    def invalidate(self, keys: KeySet) -> None:
        """Remove the API keys that `keys` selects from this process's cache, so that their next use reads the store."""
        self._cache.invalidate(keys)

    async def _verify(self, key: ApiKey) -> CachedKey:
        """Return the record of `key` and its model access if its secret is right."""
        digest = key_format.digest(self._pepper, key.secret)
        identity = (key.key_id, digest)
        cached = self._cache.valid(identity)
        if cached is not None and self._cache.is_confirmed(cached):
            if self._cache.is_due(cached):
                self._early.start(identity, lambda: self._confirm(identity))
            return cached
        if self._cache.is_invalid(identity):
            raise InvalidApiKey(f"key {key.key_id} is unknown or wrong")
        self._early.cancel(identity)  # it may end after this look-up, with an older record
        try:
            return await self._look_up(identity)
        except StoreUnavailable:
            self._cache.postpone_confirmation(identity)
            cached = self._cache.valid(identity)  # none if invalidated meanwhile
            if cached is None:
                raise
            return cached

    async def _confirm(self, identity: Identity) -> None:
        """Confirm a cached key in the background; one that has become invalid is forgotten."""
        with suppress(InvalidApiKey):
            await self._look_up(identity)

    async def _look_up(self, identity: Identity) -> CachedKey:
        key_id, digest = identity
        generation = self._cache.generation
        record = await self._api_keys.find(key_id)
        # An unknown id is compared too, so that it takes as long as a wrong secret.
        right = hmac.compare_digest(record.digest if record is not None else self._no_digest, digest)
        if record is None or not right or not record.is_live(self._clock()):
            self._cache.put_invalid(identity)
            raise InvalidApiKey(f"key {key_id} is unknown, wrong, revoked or expired")
        # An admin key requests no model; its list restricts the keys that it creates.
        policies = (
            ALL_MODELS if record.is_admin else await self._models(record.organisation, record.project, record.user)
        )
        return self._cache.put_valid(identity, record, policies.restricted_to(record.models), generation)

    async def _models(self, organisation: str, project: str, user: str, role: Role | None = None) -> ModelAccess:
        """Return the models that the policies on project, role and user permit."""
        if self._policies is None:
            return ALL_MODELS
        return await self._policies.access(organisation, project, user, role)

    def _cache_salt(self, tenant: str) -> str:
        # The colon is in no key's secret, so this is never what `key_format.digest` computes.
        return hmac.digest(self._pepper, f"cache-salt:{tenant}".encode(), hashlib.sha256).hex()[:32]
