"""Opens browser sessions at sign-in, extends them by refresh tokens, and ends them at every gateway within seconds.

A session is active while its record is not revoked, the user's version is unchanged and the user is still a member of
the organisation. This is looked up again for each request with side effects, and every `CACHE_TTL` for others;
while the store is away, only sessions in the cache are accepted.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace

import structlog

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import InvalidSession, NoSuchRecord, ProviderSignInRequired
from auth_billing.ids import new_id
from auth_billing.people import refresh_tokens
from auth_billing.people.access_tokens import AccessClaims, AccessTokens
from auth_billing.people.people_records import Membership, MembershipStore, User, UserStore
from auth_billing.people.projects import Projects
from auth_billing.people.refresh_tokens import RefreshToken
from auth_billing.people.session_records import SessionRecord, SessionStore
from auth_billing.ttl_cache import TtlCache

MAX_SESSION_AGE = 30 * 86_400.0
"""Seconds after the sign-in at which a session ends, however much it is used."""
IDLE_TIMEOUT = 7 * 86_400.0
"""Seconds without use after which a session ends."""
GRACE_PERIOD = 10.0
"""Seconds in which a used refresh token still yields its successor: for two tabs, or a lost response."""
CACHE_TTL = 5.0
"""Seconds that an authenticated session stays cached; it may be used for so long after its end."""
CAPACITY = 10_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class BrowserSession:
    """An active session: a signed-in user in one organisation."""

    id: str
    user: User
    organisation: str
    project: str
    """Id of the organisation's default project; empty: it has none in use."""
    role: Role
    by_provider: bool = False
    """Whether the user signed in at the identity provider."""

    @property
    def actor(self) -> Actor:
        """The session's user as the actor of permission checks, with the role in the session's organisation."""
        return Actor(self.organisation, self.user.id, self.role)


@dataclass(frozen=True)
class SignedIn:
    """A browser session with a new access token and refresh token."""

    session: BrowserSession
    access: str
    refresh: str


@dataclass(frozen=True)
class ProviderLogin:
    """A sign-in at the identity provider, as its browser session records it."""

    identity: str
    """Id of the identity that signed in."""
    max_age: float
    """Seconds after which the session ends."""
    token: str = field(default="", repr=False)
    """The provider's refresh token, encrypted; empty: none."""


@dataclass(eq=False, repr=False)
class Sessions:
    """Opens, authenticates, refreshes and ends browser sessions.

    Args:
        store: keeps the session records.
        tokens: issues and validates access tokens.
        users, memberships, projects: looked up to validate a session.
        clock: Unix seconds.
        password_sign_in: whether members other than owners may sign in with a password.
    """

    store: SessionStore
    tokens: AccessTokens
    _: KW_ONLY
    users: UserStore
    memberships: MembershipStore
    projects: Projects
    clock: Callable[[], float] = time.time
    password_sign_in: bool = True

    def __post_init__(self) -> None:
        self._cache: TtlCache[str, BrowserSession] = TtlCache(CACHE_TTL, CAPACITY, self.clock)

    async def begin(self, user: User, organisation: str, login: ProviderLogin | None = None) -> SignedIn:
        """Open a session of a user who was just authenticated, in an organisation; return it with its tokens.

        Args:
            login: the sign-in at the identity provider; `None`: the user was authenticated here.

        Raises:
            InvalidSession: the user is not a member of the organisation (any more).
            ProviderSignInRequired: the membership needs a sign-in at the identity provider.
        """
        now = self.clock()
        token = refresh_tokens.new_token(new_id("sess-"))
        record = SessionRecord(
            id=token.session,
            user=user.id,
            organisation=organisation,
            version=user.version,
            created=now,
            expires=now + (MAX_SESSION_AGE if login is None else login.max_age),
            used=now,
            current=token.digest,
            identity="" if login is None else login.identity,
            provider_token="" if login is None else login.token,
            checked=now,
        )
        await self.store.add(record)
        return await self._signed_in(record, token)

    async def authenticate(self, access_token: str, *, cached: bool = True) -> BrowserSession:
        """Validate an access token and return the active session that it belongs to.

        Args:
            cached: whether the session may have been looked up some seconds ago; not for a request with side effects.

        Raises:
            InvalidSession: the token is invalid, or its session has ended.
            StoreUnavailable: the session is not cached and the store does not answer.
        """
        claims = self.tokens.read(access_token)
        session = self._cache.get(claims.session) if cached else None
        if session is None:
            session = await self._require_active(await self._record(claims.session))
            self._cache.put(claims.session, session)
        if session.user.id != claims.user or session.user.version != claims.version:
            raise InvalidSession(
                f"session {claims.session} belongs to another user, or was ended with all of the user's sessions"
            )
        return session

    def issued(self, access_token: str) -> bool:
        """Return whether an access token is signed by this installation and unexpired; its session may have ended.

        The store is not read.
        """
        try:
            self.tokens.read(access_token)
        except InvalidSession:
            return False
        return True

    async def refresh(self, token: RefreshToken) -> SignedIn:
        """Exchange a refresh token for new access and refresh tokens.

        A repetition within `GRACE_PERIOD` seconds gets the same refresh token. A token that was used longer ago ends
        the session, since it may be stolen.

        Raises:
            InvalidSession: the session has ended, or is ended by this call.
        """
        record = await self._record(token.session)
        await self._require_active(record)
        if hmac.compare_digest(token.digest, record.current):
            successor = refresh_tokens.new_token(token.session)
            sealed = token.seal(successor)
            if await self.store.rotate(record.id, token.digest, successor.digest, sealed, self.clock()):
                return await self._signed_in(record, successor)
            record = await self._record(token.session)  # another tab was quicker
        return await self._signed_in(record, await self._successor_of(record, token))

    async def require_active(self, session_id: str) -> None:
        """Check in the store, past the cache, that the browser session with this id is active.

        Raises:
            InvalidSession: the session has ended.
        """
        self._cache.forget(session_id)
        await self._require_active(await self._record(session_id))

    def accepts_password(self, membership: Membership) -> bool:
        """Return whether a sign-in with a password may open a session for this membership."""
        return not membership.issuer and (self.password_sign_in or membership.role is Role.OWNER)

    async def end(self, session: BrowserSession) -> None:
        """End one browser session; gateways reject its tokens within `CACHE_TTL` seconds."""
        await self.store.revoke(session.id, self.clock())
        self._cache.forget(session.id)

    async def end_all(self, session: BrowserSession) -> None:
        """End all sessions of a session's user, in every organisation; gateways notice within `CACHE_TTL` seconds."""
        await self.users.end_sessions(session.user.id)
        self._cache.forget(session.id)

    async def end_others(self, session: BrowserSession) -> SignedIn:
        """End all browser sessions of this session's user, and return a new one in place of this session.

        Raises:
            InvalidSession: this session has ended, maybe concurrently.
        """
        record = await self._record(session.id)
        await self._require_active(record)
        await self.end_all(session)
        token, version = refresh_tokens.new_token(new_id("sess-")), record.version + 1  # another, if ended concurrently
        renewed = replace(record, id=token.session, version=version, used=self.clock(), current=token.digest)
        await self.store.add(replace(renewed, previous=b"", sealed=b""))
        return await self._signed_in(renewed, token)

    async def _successor_of(self, record: SessionRecord, used: RefreshToken) -> RefreshToken:
        """Return the successor of a used token, if that was used within `GRACE_PERIOD` and the successor was not."""
        in_time = self.clock() - record.used <= GRACE_PERIOD
        if in_time and hmac.compare_digest(used.digest, record.previous):
            return used.unseal(record.sealed)
        await self.store.revoke(record.id, self.clock())
        self._cache.forget(record.id)
        _log.warning("refresh token reused: session ended", session=record.id, user=record.user)
        raise InvalidSession(f"a refresh token of {record.id} was used again")

    async def _record(self, session_id: str) -> SessionRecord:
        record = await self.store.find(session_id)
        if record is None:
            raise InvalidSession(f"no session {session_id}")
        return record

    async def _require_active(self, record: SessionRecord) -> BrowserSession:
        """Read the session's user, membership and project.

        Raises:
            InvalidSession: the session has ended.
        """
        now = self.clock()
        if record.revoked is not None or now >= record.expires or now - record.used >= IDLE_TIMEOUT:
            raise InvalidSession(f"session {record.id} was revoked or has expired")
        user = await self.users.find(record.user)
        membership = await self.memberships.find(record.organisation, record.user)
        if user is None or membership is None or user.version != record.version:
            raise InvalidSession(
                f"session {record.id}: ended with all of the user's sessions, or the membership has ended"
            )
        if not record.identity and not self.accepts_password(membership):
            raise ProviderSignInRequired(f"session {record.id}: not signed in at the identity provider")
        project = await self._default_project(record.organisation)
        return BrowserSession(record.id, user, record.organisation, project, membership.role, bool(record.identity))

    async def _default_project(self, organisation: str) -> str:
        try:
            return (await self.projects.default(organisation)).id
        except NoSuchRecord:
            return ""

    async def _signed_in(self, record: SessionRecord, token: RefreshToken) -> SignedIn:
        session = await self._require_active(record)
        access = self.tokens.issue(AccessClaims(record.id, record.user, record.version))
        return SignedIn(session, access, token.text)
