"""Completes sign-ins by the second factor, and changes the second factor of users, who give the password again."""

from __future__ import annotations

from dataclasses import dataclass

from auth_billing.errors import InvalidCode, InvalidSession
from auth_billing.people.people_records import User, UserStore
from auth_billing.people.second_factor import Enrolment, SecondFactor
from auth_billing.people.second_factor_challenges import Challenge, Challenges
from auth_billing.people.sessions import BrowserSession, SignedIn
from auth_billing.people.sign_in import SignIn
from auth_billing.people.sign_up import SignUp
from auth_billing.people.throttle import SignInThrottle


class WrongCode(InvalidCode):
    """The code of a challenge is wrong; `challenge` says whose sign-in failed, for the audit log."""

    def __init__(self, challenge: Challenge) -> None:
        super().__init__("wrong or used")
        self.challenge = challenge


@dataclass(kw_only=True, eq=False, repr=False)
class SecondFactorSignIn:
    """Completes sign-ins by the second factor, and enrols and removes second factors of signed-in users."""

    users: UserStore
    factors: SecondFactor
    challenges: Challenges
    sign_in: SignIn
    sign_up: SignUp
    throttle: SignInThrottle

    async def complete(self, token: str, code: str, address: str) -> tuple[SignedIn, Challenge]:
        """Complete a sign-in by the code of the second factor; return the new session and the challenge.

        Args:
            token: the challenge, as `SignIn.sign_in` or `SignUp.accept_invitation` returned it.
            address: the client's network address.

        Raises:
            InvalidSession: the challenge is malformed or expired, or the user's password was changed meanwhile.
            WrongCode: the code is wrong or was used.
            TooManySignIns: the address has no sign-in attempts left, or too many codes of the user were tried.
            InvitationVoid: the invitation of the challenge is not pending (any more).
        """
        await self.throttle.attempt_from(address)
        challenge = self.challenges.read(token)
        user = await self.users.find(challenge.user)
        if user is None or user.version != challenge.version:
            raise InvalidSession("the password was changed after the challenge")
        try:
            await self.factors.verify(user.id, code)
        except InvalidCode as error:
            raise WrongCode(challenge) from error
        if challenge.invitation:
            return await self.sign_up.join(challenge.invitation, user), challenge
        return await self.sign_in.sessions.begin(user, challenge.organisation), challenge

    async def enrol(self, user: User, password: str, address: str) -> Enrolment:
        """Begin to enrol a second factor of a signed-in user, who gives the password; return its secret.

        An unconfirmed second factor is replaced.

        Raises:
            InvalidCredentials: the password is wrong, or the user has none.
            NotPermitted: the user has a second factor.
            TooManySignIns: the address or the account has no sign-in attempts left.
            PasswordsBusy: too many passwords are being hashed.
        """
        await self.sign_in.confirm_password(user, password, address)
        return await self.factors.enrol(user)

    async def confirm(self, session: BrowserSession, code: str) -> tuple[list[str], SignedIn]:
        """Enable the second factor of a session's user by the app's first code, and end all other sessions.

        Return the recovery codes, and a new session in place of this one. The sessions that end were opened without a
        code.

        Raises:
            InvalidCode: the code is wrong, or no enrolment has begun.
            InvalidSession: the session has ended.
            TooManySignIns: too many codes were tried.
        """
        codes = await self.factors.confirm(session.user, code)
        return codes, await self.sign_in.sessions.end_others(session)

    async def disable(self, user: User, password: str, code: str, address: str) -> None:
        """Remove the second factor of a signed-in user who gives password and code.

        Raises:
            InvalidCredentials: the password is wrong, or the user has none.
            InvalidCode: the code is wrong or was used, or the user has no second factor.
            TooManySignIns: too many passwords or codes were tried.
            PasswordsBusy: too many passwords are being hashed.
        """
        await self.sign_in.confirm_password(user, password, address)
        await self.factors.verify(user.id, code)
        await self.factors.store.remove(user.id)
