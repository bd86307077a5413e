"""Which addresses tools may connect to."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from assistant.tools.public_addresses import AddressPolicy, resolve_with_system

PRIVATE = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16", "198.18.0.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.0.2.1", "203.0.113.9", "192.88.99.1"),
    *("::1", "::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808"),
    *("64:ff9b:1::1", "fe80::1", "fe80::1%eth0", "2600::1%eth0", "fd00:ec2::254", "fc00::1", "fec0::1", "ff02::1"),
    *("2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "100::1", "5f00::1"),
    *("localhost", "", "2130706433", "0x7f.1", "127.1", "1.1.1.1/32"),
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.63.255.255", "100.128.0.1", "223.255.255.255", "2606:4700::1111"]


@pytest.mark.parametrize("address", PRIVATE)
def test_refuses(address: str) -> None:
    assert not AddressPolicy().permits(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_permits_public_addresses(address: str) -> None:
    assert AddressPolicy().permits(address)


def test_the_operator_permits_networks() -> None:
    policy = AddressPolicy(["10.1.0.0/16", "fd00::/64"])
    assert policy.permits("10.1.2.3")
    assert policy.permits("fd00::1")
    assert not policy.permits("10.2.0.1")
    assert not policy.permits("::ffff:10.1.2.3")


def test_malformed_networks_are_refused() -> None:
    with pytest.raises(ValueError, match="does not appear"):
        AddressPolicy(["everything"])


async def test_the_system_resolves_other_spellings_of_loopback() -> None:
    for host in ("localhost", "2130706433", "0x7f.1", "127.1"):
        assert not any(map(AddressPolicy().permits, await resolve_with_system(host, 80)))


async def test_a_malformed_name_has_no_address() -> None:
    with pytest.raises(OSError, match="malformed"):
        await resolve_with_system("a" * 64 + ".example", 80)


async def test_names_that_never_resolve_leave_threads_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait(60) and [])
    looking = [asyncio.create_task(resolve_with_system("silent.example", 80)) for _ in range(100)]
    await asyncio.sleep(0)
    try:
        assert await asyncio.to_thread(lambda: "parsed") == "parsed"
        assert not any(each.done() for each in looking)
    finally:
        ended.set()
    await asyncio.gather(*looking)
