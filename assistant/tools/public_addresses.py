"""Decides which IP addresses tools may connect to: public unicast addresses, and networks that the operator permits.

The rule is an allowlist for IPv6 (2000::/3 without special blocks) and a blocklist for IPv4, both written out: the
`ipaddress` module's idea of a global address differs between Python versions and accepts tunnels to private networks.
Sources: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890), RFC 6052 (NAT64), RFC 3056 (6to4).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NOT_PUBLIC_IPV4 = [
    ipaddress.IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and a cloud's metadata (100.100.100.200)
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's host, in a public block
        "169.254.0.0/16",  # link-local, and most clouds' metadata (169.254.169.254)
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, and a cloud's metadata (192.0.0.192)
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
]
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
"""Global unicast. Loopback, mapped, NAT64 (64:ff9b::/96), unique local, link-local and multicast are outside."""
_NOT_PUBLIC_IPV6 = [
    ipaddress.IPv6Network(each)
    for each in (
        "2001::/23",  # protocol assignments, Teredo tunnels among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: tunnels to IPv4
        "2620:4f:8000::/48",
        "3fff::/20",  # documentation
    )
]


class Resolver(Protocol):
    """Finds the addresses of a host name."""

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return the addresses of `host`, the preferred one first.

        Raises:
            OSError: the name has no address, or no name server answers.
        """
        ...


_NAMES = ThreadPoolExecutor(32, thread_name_prefix="names")
"""Threads that look names up. A look-up outlives the request that gave it up, so it must not hold threads of others."""


async def resolve_with_system(host: str, port: int) -> list[str]:
    """Return the IP addresses of `host` by the operating system's resolver.

    Raises:
        OSError: the host has no address.
    """
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(_NAMES, look_up)
    except UnicodeError as error:
        raise OSError("the host name is malformed") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class AddressPolicy:
    """Decides which addresses tools may connect to.

    Args:
        permitted: networks in CIDR notation that the operator permits in addition to public addresses.

    Raises:
        ValueError: a network is malformed.
    """

    def __init__(self, permitted: Iterable[str] = ()) -> None:
        self._permitted: list[Network] = [ipaddress.ip_network(each) for each in permitted]

    def permits(self, address: str) -> bool:
        """Return whether tools may connect to the IP address `address`; false for text that is no address."""
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return is_public(parsed) or any(parsed in network for network in self._permitted)


def is_public(address: Address) -> bool:
    """Return whether an IP address is a public unicast address, and no tunnel or translation to another address."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_IPV4)
    return (
        address.scope_id is None
        and address in _PUBLIC_IPV6
        and not any(address in network for network in _NOT_PUBLIC_IPV6)
    )
