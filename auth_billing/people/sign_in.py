"""Signs users in with e-mail address and password, after which a second factor may be needed, and changes passwords.

An unknown address costs the same work as a wrong password: one store lookup and one argon2id verification.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from auth_billing.errors import InvalidCredentials, SecondFactorRequired
from auth_billing.people.input_normalisation import MAX_EMAIL, fold_email
from auth_billing.people.passwords import Passwords
from auth_billing.people.people_records import Membership, MembershipStore, User, UserStore
from auth_billing.people.second_factor import SecondFactor
from auth_billing.people.second_factor_challenges import Challenge, Challenges
from auth_billing.people.sessions import BrowserSession, Sessions, SignedIn
from auth_billing.people.throttle import SignInThrottle


@dataclass(kw_only=True, eq=False, repr=False)
class SignIn:
    """Signs users in with e-mail address and password, and changes passwords."""

    users: UserStore
    memberships: MembershipStore
    sessions: Sessions
    passwords: Passwords
    throttle: SignInThrottle
    factors: SecondFactor
    challenges: Challenges

    async def sign_in(self, email: str, password: str, address: str, organisation: str = "") -> SignedIn:
        """Open a browser session for a user whose e-mail address and password are right; return it with its tokens.

        Args:
            address: the client's network address.
            organisation: of several, the one to sign in to; empty: the one joined first.

        Raises:
            InvalidCredentials: unknown address, wrong password, or not a member of the organisation.
            SecondFactorRequired: all is right, and the user has a second factor.
            TooManySignIns: the address or the account has no sign-in attempts left.
            PasswordsBusy: too many passwords are being hashed.
        """
        user = await self.verify(email, password, address)
        if user is None:
            raise InvalidCredentials("unknown address or wrong password")
        memberships = await self.memberships.of_user(user.id)
        chosen = _membership_of(memberships, organisation).organisation
        await self.require_no_code(user, chosen)
        return await self.sessions.begin(user, chosen)

    async def require_no_code(self, user: User, organisation: str, invitation: str = "") -> None:
        """Check that a user who gave the right password has no second factor, so that the session may be opened now.

        Args:
            organisation: id of the organisation that the user signs in to.
            invitation: token of the invitation that the user accepts by this sign-in.

        Raises:
            SecondFactorRequired: the user has a second factor; the error has the challenge for the code.
        """
        if await self.factors.required(user.id):
            challenge = Challenge(user.id, user.version, organisation, invitation)
            raise SecondFactorRequired(self.challenges.issue(challenge))

    async def verify(self, email: str, password: str, address: str) -> User | None:
        """Count a sign-in attempt, check the password, and return the user; `None` if no user has this e-mail address.

        `address` is the client's network address. A hash with outdated parameters is replaced.

        Raises:
            InvalidCredentials: the user exists and the password is wrong. (A caller that shows the difference reveals
                which addresses have accounts.)
            TooManySignIns: the address or the account has no sign-in attempts left.
            PasswordsBusy: too many passwords are being hashed.
        """
        await self.throttle.attempt_from(address)
        await self.throttle.attempt_at(fold_email(email[:MAX_EMAIL]))
        user = await self.users.find_by_email(email) if len(email) <= MAX_EMAIL else None
        right = await self.passwords.verify(user.password if user is not None else None, password)
        if user is None:
            return None
        if not right:
            raise InvalidCredentials("wrong password")
        return await self._rehashed(user, password)

    async def confirm_password(self, user: User, password: str, address: str) -> None:
        """Check the password that a signed-in user gives again before a sensitive change, and count a sign-in attempt.

        Raises:
            InvalidCredentials: the password is wrong, or the user has none.
            TooManySignIns: the address or the account has no sign-in attempts left.
            PasswordsBusy: too many passwords are being hashed.
        """
        found = await self.verify(user.email, password, address)
        if found is None or found.id != user.id:
            raise InvalidCredentials("no such user")

    async def change_password(self, session: BrowserSession, old: str, new: str, address: str) -> SignedIn:
        """Change the password of a session's user: end all sessions of the user, and return a new one.

        Raises:
            InvalidCredentials: the old password is wrong, or was changed concurrently.
            UnacceptableValue: the new password is too short, too long, or has control characters.
            TooManySignIns: the address or the account has no sign-in attempts left.
            PasswordsBusy: too many passwords are being hashed.
        """
        user = await self.verify(session.user.email, old, address)
        changed = None
        if user is not None:
            changed = await self.users.change_password(user.id, user.password, await self.passwords.hash(new))
        if changed is None:
            raise InvalidCredentials("the password has been changed meanwhile")
        return await self.sessions.begin(changed, session.organisation)

    async def _rehashed(self, user: User, password: str) -> User:
        """Replace the stored hash if it is weaker than the current parameters, while the password is known."""
        strong = await self.passwords.rehash(user.password, password)
        if strong == user.password or not await self.users.rehash(user.id, user.password, strong):
            return user
        return replace(user, password=strong)


def _membership_of(memberships: list[Membership], organisation: str) -> Membership:
    for membership in sorted(memberships, key=lambda each: bool(each.issuer)):  # those that take a password first
        if organisation in ("", membership.organisation):
            return membership
    raise InvalidCredentials("a member of no such organisation")
