"""The facade: all that gateway and chat may ask of accounts.

Knows no HTTP (no status codes, no FastAPI) and no MongoDB (that is `store/`).
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from auth_billing.errors import InvalidApiKey, StoreUnavailable
from auth_billing.keys import api_keys
from auth_billing.keys.api_keys import ApiKey
from auth_billing.keys.issuing import KeyWish, issue
from auth_billing.keys.key_cache import Identity, KeyCache
from auth_billing.keys.last_use import LastUses
from auth_billing.keys.scopes import PROJECT_SCOPES, Scope, scopes_of
from auth_billing.people.sessions import BrowserSession
from auth_billing.records import ApiKeyRecord, ApiKeyStore
from router.messages import KeySet


@dataclass(frozen=True)
class Principal:
    """Who is asking, and what they may do: the owner of a valid API key, or somebody signed in."""

    key_id: str
    """"": no API key (a browser session)."""
    tenant: str
    """The organisation."""
    cache_salt: str
    """Separates this tenant's prefix cache from every other's."""
    project: str = ""
    """"": none, the organisation itself."""
    user: str = ""
    """"": nobody in particular (a service account)."""
    scopes: frozenset[Scope] = PROJECT_SCOPES
    models: frozenset[str] | None = None
    """The models that may be asked for; `None`: all."""

    def may(self, scope: Scope) -> bool:
        """Whether the caller has this right."""
        return scope in self.scopes


class AuthBilling:
    """Accounts, as the gateway sees them.

    Args:
        api_keys: where keys are stored.
        pepper: the installation's secret; the same in every process.
        cache: which keys were lately good or bad.
        clock: Unix seconds, for expiry.
    """

    def __init__(
        self,
        api_keys: ApiKeyStore,
        pepper: bytes,
        *,
        cache: KeyCache | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api_keys = api_keys
        self._pepper = pepper
        self._cache = cache or KeyCache()
        self.last_uses = LastUses(api_keys)
        self._clock = clock
        self._nobody = bytes(hashlib.sha256().digest_size)

    async def authenticate(self, token: str) -> Principal:
        """Whose key `token` is. While the store is away, keys that were good within the cache's time still are.

        Raises:
            InvalidApiKey: malformed (told without asking the store), unknown, wrong, revoked or expired.
            StoreUnavailable: not known lately, and the store does not answer.
        """
        key = api_keys.parse(token)
        if key is None:
            raise InvalidApiKey("malformed key")
        record, now = await self._verify(key), self._clock()
        if not record.is_live(now):  # looked at each time: a key may expire while it is cached
            raise InvalidApiKey(f"key {key.key_id} is revoked or expired")
        self.last_uses.note(record.key_id, now)
        return Principal(
            key_id=record.key_id,
            tenant=record.organisation,
            cache_salt=self._cache_salt(record.organisation),
            project=record.project,
            user=record.user,
            scopes=record.rights,
            models=record.models,
        )

    def principal_of(self, session: BrowserSession) -> Principal:
        """Who is asking where no key is: somebody signed in, in the default project of the organisation."""
        return Principal(
            key_id="",
            tenant=session.organisation,
            cache_salt=self._cache_salt(session.organisation),
            project=session.project,
            user=session.user.id,
            scopes=scopes_of(session.role),
        )

    async def create_api_key(
        self, organisation: str, project: str, *, name: str, expires: float | None = None
    ) -> ApiKey:
        """Give a project a new key. Its text is known only now; the store keeps a digest.

        Raises:
            StoreUnavailable: it may or may not have been stored; nobody has its text.
        """
        issued = await issue(
            self._api_keys,
            self._pepper,
            organisation=organisation,
            project=project,
            wish=KeyWish(name, expires=expires),
            user="",
            now=self._clock(),
        )
        return issued.key

    def forget(self, keys: KeySet) -> None:
        """These have changed: the store is asked about them again at once."""
        self._cache.forget(keys)

    async def _verify(self, key: ApiKey) -> ApiKeyRecord:
        """The record of `key` if its secret is right."""
        digest = api_keys.digest(self._pepper, key.secret)
        identity = (key.key_id, digest)
        remembered = self._cache.good(identity)
        if remembered is not None and self._cache.is_confirmed(remembered):
            return remembered.record
        if self._cache.is_bad(identity):
            raise InvalidApiKey(f"key {key.key_id} is unknown or wrong")
        try:
            return await self._ask_store(identity)
        except StoreUnavailable:
            self._cache.put_off(identity)
            remembered = self._cache.good(identity)  # not if it was announced to have changed meanwhile
            if remembered is None:
                raise
            return remembered.record

    async def _ask_store(self, identity: Identity) -> ApiKeyRecord:
        key_id, digest = identity
        generation = self._cache.generation
        record = await self._api_keys.find(key_id)
        # An unknown id is compared too, so that it takes as long as a wrong secret.
        right = hmac.compare_digest(record.digest if record is not None else self._nobody, digest)
        if record is None or not right or not record.is_live(self._clock()):
            self._cache.remember_bad(identity)
            raise InvalidApiKey(f"key {key_id} is unknown, wrong, revoked or expired")
        self._cache.remember_good(identity, record, generation)
        return record

    def _cache_salt(self, tenant: str) -> str:
        # The colon is in no key's secret, so this is never what `api_keys.digest` computes.
        return hmac.new(self._pepper, f"cache-salt:{tenant}".encode(), hashlib.sha256).hexdigest()[:32]
