"""Enrols and checks second factors: time-based one-time passwords (TOTP, RFC 6238) and single-use recovery codes.

No secret is stored: a user's TOTP secret is an HMAC of a stored random number under the installation's pepper, recovery
codes are stored as HMACs. Each code counts once: the store keeps the newest time step that was accepted. Tries are
throttled per user.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyotp
import segno

from auth_billing.access.roles import Actor
from auth_billing.errors import InvalidCode, NoSuchRecord, NotPermitted
from auth_billing.people.account_rights import require_account_rights
from auth_billing.people.people_records import MembershipStore, User, UserStore
from auth_billing.people.throttle import SignInThrottle

PERIOD = 30
"""Seconds of a time step (RFC 6238, section 5.2)."""
SKEW = 1
"""Time steps by which the clocks may differ, in both directions."""
RECOVERY_CODES = 10
ISSUER = "Headrace"
"""Name of the installation in authenticator apps."""
_SECRET_BYTES, _NONCE_BYTES = 20, 16
_RECOVERY_BYTES = 10
_TOTP = re.compile(r"[0-9]{6}")
_FILLING = re.compile(r"[\s-]")
_MAX_CODE = 64


@dataclass(frozen=True)
class SecondFactorRecord:
    """The second factor of a user. Times are Unix seconds."""

    id: str
    """Id of the user."""
    nonce: bytes = field(repr=False)
    """The number that the TOTP secret is derived from."""
    confirmed: float | None = None
    """Time at which the app's first code ended the enrolment; `None`: not yet, and sign-in needs no code."""
    last_step: int = 0
    """The newest time step whose code was accepted."""
    recovery: Sequence[bytes] = field(default=(), repr=False)
    """Digests of the unused recovery codes."""


class SecondFactorStore(Protocol):
    """Store of second factors, one per user."""

    async def find(self, user: str) -> SecondFactorRecord | None:
        """Return a user's second factor, confirmed or not, or `None` if there is none."""
        ...

    async def confirmed(self, users: Sequence[str]) -> frozenset[str]:
        """Return those of the users with these ids who have a confirmed second factor."""
        ...

    async def begin(self, user: str, nonce: bytes) -> bool:
        """Store a user's unconfirmed second factor, in place of an earlier one; return false if one is confirmed."""
        ...

    async def confirm(self, user: str, nonce: bytes, now: float, step: int, recovery: Sequence[bytes]) -> bool:
        """Confirm a user's unconfirmed second factor with this nonce at `now` (Unix seconds); return false without one.

        Its digests of recovery codes and the time step of the first code are stored too.
        """
        ...

    async def accept_step(self, user: str, nonce: bytes, step: int) -> bool:
        """Store the TOTP time step of an accepted code, so that no code is accepted twice.

        Return false if the step is not newer than the last, or the second factor is not confirmed.
        """
        ...

    async def use_recovery_code(self, user: str, digest: bytes) -> bool:
        """Remove a recovery code, by digest, from a user's confirmed second factor; return false if it is not there."""
        ...

    async def remove(self, user: str) -> bool:
        """Delete a user's second factor; return false if there was none."""
        ...


@dataclass(frozen=True)
class Enrolment:
    """The new TOTP secret of a user, for an authenticator app; shown once."""

    secret: str = field(repr=False)
    """The TOTP secret in base32, to type."""
    uri: str = field(repr=False)
    """The TOTP secret as an `otpauth:` URI."""

    def qr_code(self) -> str:
        """Draw the QR code of the TOTP secret for an authenticator app; return an SVG image as a `data:` URL."""
        drawn = segno.make(self.uri, error="m", micro=False)
        return str(drawn.svg_data_uri(scale=4, border=4, light="#fff", encode_minimal=False))


@dataclass(kw_only=True, eq=False, repr=False)
class SecondFactor:
    """Enrols, checks and removes the second factors of users."""

    users: UserStore
    memberships: MembershipStore
    store: SecondFactorStore
    throttle: SignInThrottle
    pepper: bytes
    clock: Callable[[], float] = time.time

    async def required(self, user_id: str) -> bool:
        """Return whether a user has a second factor, so that a sign-in with a password needs a code."""
        return await self._confirmed(user_id) is not None

    async def recovery_codes_left(self, user_id: str) -> int | None:
        """Return the number of a user's unused recovery codes; `None` if the user has no second factor."""
        factor = await self._confirmed(user_id)
        return None if factor is None else len(factor.recovery)

    async def enrol(self, user: User) -> Enrolment:
        """Begin the enrolment of a user's second factor, in place of an unconfirmed one; return its secret.

        `confirm` ends the enrolment.

        Raises:
            NotPermitted: the user has a second factor.
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        if not await self.store.begin(user.id, nonce):
            raise NotPermitted("the user has a second factor")
        secret = self._secret(user.id, nonce)
        return Enrolment(
            secret, pyotp.TOTP(secret, interval=PERIOD).provisioning_uri(name=user.email, issuer_name=ISSUER)
        )

    async def confirm(self, user: User, code: str) -> list[str]:
        """End the enrolment of a user's second factor by the app's first code; return the recovery codes.

        Only digests of the recovery codes are stored.

        Raises:
            InvalidCode: the code is wrong, or no enrolment has begun.
            TooManySignIns: too many codes were tried.
        """
        await self.throttle.code_of(user.id)
        factor = await self.store.find(user.id)
        step = None if factor is None else self._step(factor, code)
        if factor is None or step is None:
            raise InvalidCode("wrong code, or no enrolment")
        codes = [_recovery_code() for _ in range(RECOVERY_CODES)]
        digests = [self._recovery_digest(factor, code) for code in codes]
        if not await self.store.confirm(user.id, factor.nonce, self.clock(), step, digests):
            raise InvalidCode("confirmed or begun anew concurrently")
        return codes

    async def verify(self, user_id: str, code: str) -> None:
        """Check a code of a user's authenticator app, or a recovery code, and use the code up.

        Raises:
            InvalidCode: the code is wrong or was used, or the user has no second factor.
            TooManySignIns: too many codes were tried.
        """
        await self.throttle.code_of(user_id)
        factor = await self._confirmed(user_id)
        if factor is None or not await self._accept(factor, code):
            raise InvalidCode("wrong or used")

    async def reset_member(self, actor: Actor, user_id: str) -> User:
        """Remove the second factor of a member, by right of an administrator (`account_rights`); return the member.

        Raises:
            NotPermitted: the actor may not act on this account.
            NoSuchRecord: the organisation has no such member, or the member has no second factor.
        """
        await require_account_rights(self.memberships, actor, user_id)
        user = await self.users.find(user_id)
        if user is None or not await self.store.remove(user_id):
            raise NoSuchRecord(f"no second factor of {user_id}")
        return user

    async def _confirmed(self, user_id: str) -> SecondFactorRecord | None:
        factor = await self.store.find(user_id)
        return None if factor is None or factor.confirmed is None else factor

    async def _accept(self, factor: SecondFactorRecord, code: str) -> bool:
        step = self._step(factor, code)
        if step is not None:
            return await self.store.accept_step(factor.id, factor.nonce, step)
        return await self.store.use_recovery_code(factor.id, self._recovery_digest(factor, code))

    def _step(self, factor: SecondFactorRecord, code: str) -> int | None:
        """Return the time step near now whose code this is; `None` if it is a code of none."""
        typed = _plain(code)
        if not _TOTP.fullmatch(typed):
            return None
        generator, now = pyotp.HOTP(self._secret(factor.id, factor.nonce)), int(self.clock()) // PERIOD
        steps = range(now - SKEW, now + SKEW + 1)
        found = [step for step in steps if hmac.compare_digest(generator.at(step), typed)]
        return found[-1] if found else None

    def _secret(self, user_id: str, nonce: bytes) -> str:
        # The colon is in no key's secret, so this is never what `key_format.digest` computes.
        derived = hmac.digest(self.pepper, b"totp:" + user_id.encode() + b":" + nonce, hashlib.sha256)
        return base64.b32encode(derived[:_SECRET_BYTES]).decode()

    def _recovery_digest(self, factor: SecondFactorRecord, code: str) -> bytes:
        plain = f"recovery-code:{factor.id}:{factor.nonce.hex()}:{_plain(code)}"
        return hmac.digest(self.pepper, plain.encode(errors="replace"), hashlib.sha256)


def _plain(code: str) -> str:
    """Return a typed code without spaces and hyphens, in lower case."""
    return _FILLING.sub("", code[:_MAX_CODE]).lower()


def _recovery_code() -> str:
    """Return a new recovery code: 80 random bits in base32, in groups of four characters."""
    text = base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))
