"""People in browsers: the facade of all that the chat may ask of accounts, put together over its stores.

What each part does is in its own module. Knows no MongoDB (`store/`) and no HTTP (`chat_ui/`).
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from auth_billing.people.access_tokens import AccessTokens
from auth_billing.people.directory import People
from auth_billing.people.invitations import Invitations
from auth_billing.people.local_owner import LocalOwner
from auth_billing.people.passwords import Passwords
from auth_billing.people.people_records import InvitationStore, MembershipStore, UserStore
from auth_billing.people.projects import Projects
from auth_billing.people.session_records import SessionStore
from auth_billing.people.sessions import Sessions
from auth_billing.people.sign_in import SignIn
from auth_billing.people.sign_up import SignUp
from auth_billing.people.signing_keys import SigningKey
from auth_billing.people.throttle import PER_MINUTE, SignInThrottle
from auth_billing.rate_limits.ports import BucketStore
from auth_billing.records import AccountStore
from router.messages import KeySet


@dataclass(frozen=True)
class PeopleStores:
    """Where everything about people is."""

    users: UserStore
    memberships: MembershipStore
    invitations: InvitationStore
    accounts: AccountStore
    sessions: SessionStore
    buckets: BucketStore


class BrowserAccess:
    """Signing in and up, sessions, people, invitations, projects.

    Args:
        stores: where they are.
        pepper: the installation's secret.
        signing_keys: of access tokens; the first signs.
        passwords: argon2id and its threads.
        end_keys: ends API keys of people who go.
        open_sign_up: whether those may sign up whom nobody has invited.
        sign_ins_per_minute: tries per account, and per address.
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
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pepper = pepper
        self.people = People(stores.users, stores.memberships, stores.accounts, end_keys)
        self.invitations = Invitations(stores.invitations, pepper, clock)
        self.projects = Projects(stores.accounts, clock)
        self.sessions = Sessions(
            stores.sessions,
            AccessTokens(signing_keys, clock),
            users=stores.users,
            memberships=stores.memberships,
            projects=self.projects,
            clock=clock,
        )
        self.sign_in = SignIn(
            users=stores.users,
            memberships=stores.memberships,
            sessions=self.sessions,
            passwords=passwords,
            throttle=SignInThrottle(stores.buckets, sign_ins_per_minute),
        )
        self.sign_up = SignUp(
            users=stores.users,
            memberships=stores.memberships,
            people=self.people,
            invitations=self.invitations,
            projects=self.projects,
            passwords=passwords,
            sign_in=self.sign_in,
            sessions=self.sessions,
            is_open=open_sign_up,
            clock=clock,
        )

        self.local_owner = LocalOwner(
            users=stores.users,
            memberships=stores.memberships,
            people=self.people,
            invitations=self.invitations,
            passwords=passwords,
            sessions=self.sessions,
            clock=clock,
        )

    def csrf_token(self, session_id: str) -> str:
        """What our page shows with every call of a session that changes something; no other page knows it."""
        return hmac.new(self._pepper, f"csrf:{session_id}".encode(), hashlib.sha256).hexdigest()
