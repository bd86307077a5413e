"""Facade of user accounts for the web chat: builds sign-in, sessions, members and projects over the given stores."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from auth_billing.people.access_tokens import AccessTokens
from auth_billing.people.invitations import Invitations
from auth_billing.people.local_owner import LocalOwner
from auth_billing.people.members import Members
from auth_billing.people.oidc.identity_records import IdentityStore
from auth_billing.people.organisation_records import OrganisationStore
from auth_billing.people.password_reset import PasswordReset, PasswordResetStore, ResetLinks
from auth_billing.people.passwords import Passwords
from auth_billing.people.people_records import InvitationStore, MembershipStore, UserStore
from auth_billing.people.projects import Projects
from auth_billing.people.second_factor import SecondFactor, SecondFactorStore
from auth_billing.people.second_factor_challenges import Challenges
from auth_billing.people.second_factor_sign_in import SecondFactorSignIn
from auth_billing.people.session_records import SessionStore
from auth_billing.people.sessions import Sessions
from auth_billing.people.sign_in import SignIn
from auth_billing.people.sign_up import SignUp
from auth_billing.people.signing_keys import SigningKey
from auth_billing.people.throttle import PER_MINUTE, SignInThrottle
from auth_billing.rate_limits.ports import BucketStore
from router.messages import KeySet


@dataclass(frozen=True)
class PeopleStores:
    """Stores of people: accounts, memberships, invitations, sessions, links, second factors, identities, limits."""

    users: UserStore
    memberships: MembershipStore
    invitations: InvitationStore
    accounts: OrganisationStore
    sessions: SessionStore
    resets: PasswordResetStore
    factors: SecondFactorStore
    identities: IdentityStore
    buckets: BucketStore


class BrowserAccess:
    """Sign-in, sign-up, sessions, members, invitations and projects of the web chat.

    Args:
        stores: one store per kind of record.
        pepper: the installation's secret, the key of each HMAC.
        signing_keys: keys of access tokens; the first one signs.
        passwords: hashes and verifies passwords.
        end_keys: revokes the API keys of removed members.
        open_sign_up: whether users without an invitation may sign up.
        sign_ins_per_minute: sign-in attempts allowed per account, and per network address.
        password_sign_in: whether members other than owners may sign in with a password.
        clock: Unix seconds.
    """

    def __init__(
        self,
        stores: PeopleStores,
        *,
        pepper: bytes,
        signing_keys: Sequence[SigningKey],
        passwords: Passwords,
        end_keys: Callable[[KeySet], Awaitable[object]],
        open_sign_up: bool = False,
        sign_ins_per_minute: int = PER_MINUTE,
        password_sign_in: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pepper = pepper
        self.invitations = Invitations(stores.invitations, pepper, clock)
        self.members = Members(
            stores.users, stores.memberships, stores.accounts, stores.sessions, self.invitations, end_keys, clock
        )
        self.projects = Projects(stores.accounts, clock)
        self.sessions = Sessions(
            stores.sessions,
            AccessTokens(signing_keys, clock),
            users=stores.users,
            memberships=stores.memberships,
            projects=self.projects,
            clock=clock,
            password_sign_in=password_sign_in,
        )
        self.throttle = SignInThrottle(stores.buckets, sign_ins_per_minute)
        self.second_factor = SecondFactor(
            users=stores.users,
            memberships=stores.memberships,
            store=stores.factors,
            throttle=self.throttle,
            pepper=pepper,
            clock=clock,
        )
        challenges = Challenges(pepper, clock)
        self.sign_in = SignIn(
            users=stores.users,
            memberships=stores.memberships,
            sessions=self.sessions,
            passwords=passwords,
            throttle=self.throttle,
            factors=self.second_factor,
            challenges=challenges,
        )
        self.reset_links = ResetLinks(
            users=stores.users, memberships=stores.memberships, store=stores.resets, pepper=pepper, clock=clock
        )
        self.password_reset = PasswordReset(
            self.reset_links, passwords, self.throttle, stores.identities, self.sessions
        )
        self.sign_up = SignUp(
            users=stores.users,
            memberships=stores.memberships,
            members=self.members,
            invitations=self.invitations,
            projects=self.projects,
            passwords=passwords,
            sign_in=self.sign_in,
            sessions=self.sessions,
            registration_open=open_sign_up,
            clock=clock,
        )
        self.second_factor_sign_in = SecondFactorSignIn(
            users=stores.users,
            factors=self.second_factor,
            challenges=challenges,
            sign_in=self.sign_in,
            sign_up=self.sign_up,
            throttle=self.throttle,
        )
        self.local_owner = LocalOwner(
            users=stores.users,
            memberships=stores.memberships,
            members=self.members,
            invitations=self.invitations,
            passwords=passwords,
            sessions=self.sessions,
            clock=clock,
        )

    def csrf_token(self, session_id: str) -> str:
        """Return the CSRF token of a browser session, which the chat page sends with each state-changing request."""
        return hmac.new(self._pepper, f"csrf:{session_id}".encode(), hashlib.sha256).hexdigest()
