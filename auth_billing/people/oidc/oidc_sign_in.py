"""Sign-in at an OpenID Connect provider: opens sessions, creates users, and keeps roles equal to the user's groups.

A user is identified by issuer and subject. An e-mail address is only ever the label of a new user, and only if the
provider verified it; an account with a password is connected by its signed-in user, who gives the password again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

import structlog
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from cryptography.fernet import Fernet, InvalidToken

from auth_billing.errors import (
    InvalidSession,
    NoSuchRecord,
    NotPermitted,
    ProviderGrantEnded,
    ProviderSignInRefused,
    ProviderUnavailable,
    StoreUnavailable,
    UnacceptableValue,
)
from auth_billing.ids import new_id
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.input_normalisation import RESERVED_DOMAIN, checked_email, checked_name
from auth_billing.people.oidc.configuration import SIGN_IN_PATH, OidcConfiguration
from auth_billing.people.oidc.group_roles import MembershipChange, apply_roles, groups_in, roles_of
from auth_billing.people.oidc.id_tokens import verified_claims
from auth_billing.people.oidc.identity_records import Identity, IdentityStore, identity_id
from auth_billing.people.oidc.provider import OidcProvider, Tokens
from auth_billing.people.oidc.transactions import Transaction, Transactions
from auth_billing.people.people_records import User, UserStore
from auth_billing.people.session_records import SessionRecord
from auth_billing.people.sessions import BrowserSession, ProviderLogin, SignedIn

CHECK_INTERVAL = 300.0
"""Seconds after which a refreshed session is checked with the provider again."""
TIMEOUT = 15.0
"""Seconds for all calls to the provider in one sign-in."""
CHECK_TIMEOUT = 7.0
"""Seconds for those of a check. The refresh of a session waits for it, and must be answered within `GRACE_PERIOD`: the
same token, sent by another tab or a reloaded page after that, counts as stolen."""
CHECK_LEASE = 15.0
"""Seconds in which one gateway does a check, if it does not fail before; then a refresh of the session repeats it."""
MAX_TOKEN = 16 * 1024
"""Characters of a refresh token that is kept."""
CLOCK_MARGIN = 600.0
"""Seconds by which the store's clock may be ahead when it deletes the states of old sign-ins."""

T = TypeVar("T")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Answer:
    """The provider's answer to an authorization request: the query of the redirect. Empty: not sent."""

    state: str
    code: str = ""
    issuer: str = ""
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """A sign-in, a refused sign-in that ended memberships, or an identity that was connected with a user."""

    return_to: str
    user: User
    changes: Sequence[MembershipChange] = ()
    signed_in: SignedIn | None = None
    connected: str = ""
    """Id of the identity that was connected."""
    refused: str = ""
    """Error code of a refused sign-in."""


class OidcSignIn:
    """Signs users in at one OpenID Connect provider.

    Args:
        configuration: the provider, and the roles of its groups.
        provider: its client.
        access: the services of user accounts.
        users, identities: the stores.
        secret: the installation's secret; protects cookies and refresh tokens.
        clock: Unix seconds.
    """

    def __init__(
        self,
        configuration: OidcConfiguration,
        provider: OidcProvider,
        access: BrowserAccess,
        users: UserStore,
        identities: IdentityStore,
        *,
        secret: bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.configuration = configuration
        self.provider = provider
        self._access, self._users, self._identities, self._clock = access, users, identities, clock
        self._transactions = Transactions(secret, clock)
        key = hmac.digest(secret, b"oidc-refresh-token", hashlib.sha256)
        self._cipher = Fernet(base64.urlsafe_b64encode(key))

    async def begin(self, address: str, return_to: str) -> tuple[str, Transaction]:
        """Begin a sign-in at the identity provider; return its URL for the browser, and the transaction for a cookie.

        `address`: the client's network address; `return_to`: the path of this site to visit after the sign-in.

        Raises:
            TooManySignIns: the address has no attempts left.
            ProviderUnavailable: the provider's endpoints are not known.
        """
        await self._access.throttle.attempt_from(address)
        return await self._begin(self._transactions.begin(return_to))

    async def begin_connection(
        self, session: BrowserSession, password: str, code: str, address: str
    ) -> tuple[str, Transaction]:
        """Begin to connect an identity at the provider with the session's user, who gives the password again.

        Return the provider's URL for the browser, and the transaction to keep in a cookie.

        Args:
            code: of the second factor, if the user has one: the identity signs in without it.
            address: the client's network address.

        Raises:
            InvalidCredentials: the password is wrong, or the user has none.
            InvalidCode: the code of the second factor is wrong.
            TooManySignIns: the address or the account has no attempts left.
            ProviderUnavailable: the provider's endpoints are not known.
        """
        await self._confirm(session.user, password, code, address)
        return await self._begin(self._transactions.begin("/account", session.id))

    async def identities(self, user: User) -> list[Identity]:
        """Return the identities (accounts at the provider) that sign in as a user, oldest first."""
        return await self._identities.of_user(user.id)

    async def disconnect(
        self, session: BrowserSession, identity: str, password: str, code: str, address: str
    ) -> SignedIn:
        """Disconnect an identity from the session's user, who gives the password and a second factor's code.

        All other sessions of the user end. Return a new session in place of this one.

        Raises:
            NotPermitted: no membership of the user accepts the password.
            NoSuchRecord: the user has no such identity.
            InvalidSession: the session has ended.
            InvalidCredentials, InvalidCode, TooManySignIns: password or code is wrong, or no attempts are left.
        """
        await self._confirm(session.user, password, code, address)
        sessions, memberships = self._access.sessions, self._access.members.memberships
        if not any(map(sessions.accepts_password, await memberships.of_user(session.user.id))):
            raise NotPermitted("the user signs in at the provider only")
        if not await self._identities.remove(identity, session.user.id):
            raise NoSuchRecord(f"no identity {identity} of {session.user.id}")
        return await sessions.end_others(session)

    async def _confirm(self, user: User, password: str, code: str, address: str) -> None:
        await self._access.sign_in.confirm_password(user, password, address)
        if await self._access.second_factor.required(user.id):
            await self._access.second_factor.verify(user.id, code)

    async def _begin(self, transaction: Transaction) -> tuple[str, Transaction]:
        metadata = await self.provider.metadata()
        url: str = prepare_grant_uri(
            metadata.authorization_endpoint,
            self.configuration.client_id,
            "code",
            redirect_uri=self.configuration.redirect_uri,
            scope=self.configuration.scopes,
            state=transaction.state,
            nonce=transaction.nonce,
            code_challenge=create_s256_code_challenge(transaction.verifier),
            code_challenge_method="S256",
        )
        return url, transaction

    async def finish(self, cookie: str, answer: Answer, session: BrowserSession | None) -> Outcome:
        """Complete, once, the sign-in or connection that `begin` or `begin_connection` began in the same browser.

        Return a new session, an ended membership, or the connected identity.

        Args:
            cookie: the cookie with the transaction.
            answer: the provider's answer, from the redirect's query.
            session: the browser's session; `None`: not signed in.

        Raises:
            ProviderSignInRefused: the answer is not for this browser, was used, or does not allow the user in.
            ProviderUnavailable: the provider does not answer.
        """
        transaction = self._transactions.read(cookie, answer.state)
        if transaction is None or not await self._use(transaction):
            raise ProviderSignInRefused("sign_in_expired", "no such sign-in in this browser, or not any more")
        tokens, claims = await _in_time(self._redeem(answer, transaction), TIMEOUT)
        if transaction.session:
            if session is None or session.id != transaction.session:
                raise ProviderSignInRefused("sign_in_expired", "another session began the connection")
            await self._require_active(session)  # the provider took a while
            return await self._connect(session.user, claims, transaction)
        return await self._sign_in(tokens, claims, transaction)

    async def _use(self, transaction: Transaction) -> bool:
        return await self._identities.use_state(transaction.state, transaction.expires + CLOCK_MARGIN)

    async def _redeem(self, answer: Answer, transaction: Transaction) -> tuple[Tokens, Mapping[str, Any]]:
        """Check the provider's answer and exchange its code; return the tokens and their verified claims."""
        metadata = await self.provider.metadata()
        required = metadata.authorization_response_iss_parameter_supported or answer.issuer
        if required and answer.issuer != self.configuration.issuer:  # RFC 9207
            raise ProviderSignInRefused("sign_in_invalid", "the answer is another issuer's")
        if answer.error or not answer.code:
            raise ProviderSignInRefused("sign_in_denied", f"the provider answered {answer.error[:100]!r}")
        tokens = await self.provider.exchange(answer.code, transaction.verifier)
        return tokens, await self._claims(tokens, transaction.nonce)

    async def _sign_in(self, tokens: Tokens, claims: Mapping[str, Any], transaction: Transaction) -> Outcome:
        roles = roles_of(groups_in(claims, self.configuration.groups_claim), self.configuration.group_roles)
        identity = await self._identities.find(identity_id(self.configuration.issuer, claims["sub"]))
        if identity is None and not roles:
            raise ProviderSignInRefused("no_group", "a new user without a mapped group")
        identity, user = await self._ensure_user(identity, claims)
        changes = await apply_roles(self._access.members, user.id, roles, self.configuration.issuer, self._clock())
        memberships = await self._access.members.memberships.of_user(user.id)
        usable = [each for each in memberships if each.issuer in ("", self.configuration.issuer)]
        if not usable:
            return Outcome(transaction.return_to, user, changes, refused="no_group")
        login = ProviderLogin(identity.id, self.configuration.session_age, self._sealed(tokens.refresh))
        signed_in = await self._access.sessions.begin(user, usable[0].organisation, login)
        return Outcome(transaction.return_to, user, changes, signed_in)

    async def _require_active(self, session: BrowserSession) -> None:
        try:
            await self._access.sessions.require_active(session.id)
        except InvalidSession as error:
            raise ProviderSignInRefused("sign_in_expired", "the session has ended meanwhile") from error

    async def _connect(self, user: User, claims: Mapping[str, Any], transaction: Transaction) -> Outcome:
        identity = self._identity(claims, user.id)
        if not await self._identities.add(identity):
            stored = await self._identities.find(identity.id)
            if stored is None or stored.user != user.id:
                raise ProviderSignInRefused("already_connected", "the identity is another user's")
        return Outcome(transaction.return_to, user, connected=identity.id)

    async def check(self, session: BrowserSession) -> Sequence[MembershipChange]:
        """Ask the provider for the groups of a session's user, and adapt the memberships; return what changed.

        Asks at most every `CHECK_INTERVAL`. A session that can't be checked, because the provider gave no refresh token
        or is away, ends by its age.

        Raises:
            InvalidSession: the provider ended the grant, or no group gives the membership any more.
            StoreUnavailable: the check is not done; the next refresh of the session does it.
        """
        store, now = self._access.sessions.store, self._clock()
        record = await store.find(session.id)
        if record is None or not record.provider_token:
            return []
        due = now - CHECK_INTERVAL
        if not await store.set_checked(record.id, due, due + CHECK_LEASE):
            return []
        try:
            changes = await self._check(session, record, now)
            await store.set_checked(record.id, now, now)
        except StoreUnavailable:
            await store.set_checked(record.id, now, record.checked)
            raise
        return changes

    async def _check(self, session: BrowserSession, record: SessionRecord, now: float) -> Sequence[MembershipChange]:
        try:
            claims = await _in_time(self._refreshed(record), CHECK_TIMEOUT)
            if identity_id(self.configuration.issuer, claims["sub"]) != record.identity:
                raise ProviderGrantEnded("the tokens are another user's")
            groups = groups_in(claims, self.configuration.groups_claim)
        except (ProviderGrantEnded, InvalidToken) as error:
            await self._access.sessions.store.revoke(record.id, now)
            raise InvalidSession(f"session {record.id}: the provider ended the grant") from error
        except (ProviderUnavailable, ProviderSignInRefused) as error:
            _log.warning("session not checked with the identity provider", session=record.id, reason=str(error))
            return []
        roles = roles_of(groups, self.configuration.group_roles)
        return await apply_roles(self._access.members, session.user.id, roles, self.configuration.issuer, now)

    async def _refreshed(self, record: SessionRecord) -> Mapping[str, Any]:
        """Exchange the session's refresh token, keep its successor, and return the verified claims of the user."""
        tokens = await self.provider.refresh(self._cipher.decrypt(record.provider_token).decode())
        if tokens.refresh:
            await self._access.sessions.store.keep_provider_token(record.id, self._sealed(tokens.refresh))
        return await self._claims(tokens)

    async def sign_out_url(self) -> str:
        """Return the provider's URL that ends the browser's session there; empty if it has none or does not answer."""
        try:
            endpoint = (await self.provider.metadata()).end_session_endpoint
        except ProviderUnavailable:
            return ""
        if not endpoint:
            return ""
        after = {"client_id": self.configuration.client_id}
        after["post_logout_redirect_uri"] = self.configuration.origin + SIGN_IN_PATH
        separator = "&" if "?" in endpoint else "?"
        return f"{endpoint}{separator}{urlencode(after)}"

    async def _claims(self, tokens: Tokens, nonce: str = "") -> Mapping[str, Any]:
        """Return the verified claims of the tokens, with those of user information if the ID token lacks some."""
        claims: Mapping[str, Any] = {}
        if tokens.id_token or nonce:
            claims = await verified_claims(self.provider, self.configuration, tokens, nonce, self._clock())
        if self.configuration.groups_claim in claims and "email" in claims:
            return claims
        more = await self.provider.user_info(tokens.access)
        subject = claims.get("sub", more.get("sub"))
        if not isinstance(subject, str) or (more and more.get("sub") != subject):
            raise ProviderSignInRefused("sign_in_invalid", "user information is about another subject")
        email = claims if "email" in claims else more  # address and verification from the same source
        labels = {name: email.get(name) for name in ("email", "email_verified")}
        return {**more, **claims, **labels}

    async def _ensure_user(self, identity: Identity | None, claims: Mapping[str, Any]) -> tuple[Identity, User]:
        """Return the identity and its user; create both if they are missing."""
        user = None if identity is None else await self._users.find(identity.user)
        if identity is not None and user is not None:
            return identity, user
        email = await self._free_email(claims)
        if identity is None:
            identity = self._identity(claims, new_id("user-"))
            if not await self._identities.add(identity):  # by a concurrent sign-in
                identity = await self._identities.find(identity.id) or identity
        placeholder = f"{identity.id[:24]}@oidc{RESERVED_DOMAIN}"
        for address in filter(None, (email, placeholder)):
            await self._users.add(User(identity.user, address, _name(claims), self._clock(), password=""))
            user = await self._users.find(identity.user)
            if user is not None:
                return identity, user
        raise ProviderUnavailable("the user could not be stored")

    async def _free_email(self, claims: Mapping[str, Any]) -> str:
        """Return the verified address of a new user; empty if there is none, or a former member has it.

        Raises:
            ProviderSignInRefused: a member has the address, who may be another person.
        """
        try:
            email = checked_email(str(claims.get("email", ""))) if claims.get("email_verified") is True else ""
        except UnacceptableValue:
            return ""
        other = await self._users.find_by_email(email) if email else None
        if other is None:
            return email
        if await self._access.members.memberships.of_user(other.id):
            raise ProviderSignInRefused("account_exists", "an account with a password has the address")
        return ""

    def _identity(self, claims: Mapping[str, Any], user: str) -> Identity:
        issuer, subject = self.configuration.issuer, claims["sub"]
        return Identity(identity_id(issuer, subject), issuer, subject, user, self._clock())

    def _sealed(self, token: str) -> str:
        return self._cipher.encrypt(token.encode()).decode() if 0 < len(token) <= MAX_TOKEN else ""


async def _in_time(work: Awaitable[T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise ProviderUnavailable(f"no answer within {seconds:g} s") from error


def _name(claims: Mapping[str, Any]) -> str:
    for claim in ("name", "preferred_username"):
        try:
            return checked_name(str(claims.get(claim, "")))
        except UnacceptableValue:
            continue
    return "User"
