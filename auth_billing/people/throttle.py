"""Throttles sign-ins, mailed reset links and codes of second factors, per account and address, for all gateways.

Each attempt counts, successful or not, before any lookup or hashing.
"""

from __future__ import annotations

import hashlib
import ipaddress

from auth_billing.errors import TooManySignIns
from auth_billing.rate_limits import bucket
from auth_billing.rate_limits.limits import BucketRate, Dimension
from auth_billing.rate_limits.ports import BucketStore, BucketUpdate, UnitUpdate

PER_MINUTE = 10
RESETS_PER_HOUR = 5
"""Mails with a password reset link that may be requested for one e-mail address."""
CODES_PER_HOUR = 10
"""Codes of the second factor that may be tried at one account: with three valid at a time, 1 in 33,000 is guessed."""
_HOUR = 3600.0
_DIMENSION = Dimension.REQUESTS_PER_MINUTE
_IPV6_NETWORK = 64
"""Prefix length of the IPv6 network that counts as one client."""


class SignInThrottle:
    """Limits sign-in attempts per address and per account, and reset mails and codes per account.

    Sign-in attempts have a burst of `per_minute`, refilled evenly over a minute.
    """

    def __init__(self, buckets: BucketStore, per_minute: int) -> None:
        self._buckets = buckets
        self._rate = BucketRate(per_minute, _DIMENSION.period)

    async def attempt_from(self, address: str) -> None:
        """Count a sign-in attempt from a network address; an IPv6 address counts with its /64 network.

        Raises:
            TooManySignIns: the address has no attempts left.
            StoreUnavailable: the attempt was not counted, so it is not allowed.
        """
        await self._take(f"sign-in-from:{network_of(address)}")

    async def attempt_at(self, account: str) -> None:
        """Count a sign-in attempt at an account (a folded e-mail address, whether the account exists or not).

        Raises:
            TooManySignIns: the account has no attempts left.
            StoreUnavailable: the attempt was not counted, so it is not allowed.
        """
        await self._take(f"sign-in-at:{_hashed(account)}")

    async def reset_for(self, account: str) -> None:
        """Count a request to mail a password reset link to a folded e-mail address, whether it has an account or not.

        Raises:
            TooManySignIns: `RESETS_PER_HOUR` are used up.
            StoreUnavailable: the request was not counted, so it is not allowed.
        """
        await self._take(f"reset-for:{_hashed(account)}", BucketRate(RESETS_PER_HOUR, _HOUR))

    async def code_of(self, user: str) -> None:
        """Count a code that is tried as the second factor of a user (an id).

        Raises:
            TooManySignIns: `CODES_PER_HOUR` are used up.
            StoreUnavailable: the try was not counted, so it is not allowed.
        """
        await self._take(f"code-of:{user}", BucketRate(CODES_PER_HOUR, _HOUR))

    async def _take(self, subject: str, rate: BucketRate | None = None) -> None:
        """Take one attempt from the bucket of `subject`, which refills at `rate`; by default that of sign-ins."""
        limit = rate or self._rate
        update = BucketUpdate("sign-in", {_DIMENSION: UnitUpdate(limit, minimum=1, wanted=1)})
        result = await self._buckets.update(subject, update)
        if not result.applied:
            wait = bucket.wait(limit, result.full_at.get(_DIMENSION, 0.0), result.now, 1)
            raise TooManySignIns("too many tries to sign in", wait=wait)


def _hashed(account: str) -> str:
    return hashlib.sha256(account.encode(errors="replace")).hexdigest()


def network_of(address: str) -> str:
    """Return the network that counts as one client: the IPv4 address or IPv6 /64 network, `unknown` if malformed."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_NETWORK), strict=False))
