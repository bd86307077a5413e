"""Sign-in throttling per account and per network address, shared by all gateways.

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
_DIMENSION = Dimension.REQUESTS_PER_MINUTE
_IPV6_NETWORK = 64
"""Prefix length of the IPv6 network that counts as one client."""


class SignInThrottle:
    """Limits sign-in attempts per address and per account: a burst of `per_minute`, refilled evenly over a minute."""

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
        await self._take(f"sign-in-at:{hashlib.sha256(account.encode(errors='replace')).hexdigest()}")

    async def _take(self, subject: str) -> None:
        update = BucketUpdate("sign-in", {_DIMENSION: UnitUpdate(self._rate, minimum=1, wanted=1)})
        result = await self._buckets.update(subject, update)
        if not result.applied:
            wait = bucket.wait(self._rate, result.full_at.get(_DIMENSION, 0.0), result.now, 1)
            raise TooManySignIns("too many tries to sign in", wait=wait)


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
