"""The transport that connects to permitted addresses only: TLS, sockets and errors."""

from __future__ import annotations

import ssl

import httpcore2
import httpx2
import pytest
import trustme

from assistant.tools.guarded_transport import AddressRefused, GuardedNetwork, GuardedTransport
from assistant.tools.public_addresses import AddressPolicy
from tests.fakes.hostile_site import HostileSite, redirect, response

POLICY = AddressPolicy(["127.0.0.2/32"])


async def resolve(host: str, port: int) -> list[str]:
    return ["127.0.0.2"]


def contexts(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a server with a certificate for `name`, and of a client that trusts its authority."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(name).configure_cert(server)
    authority.configure_trust(client)
    return server, client


async def test_certificates_are_verified_against_the_name() -> None:
    server, trusting = contexts("right.test")
    async with HostileSite(tls=server).running() as site:
        site.paths["/"] = response(b"secure")
        transport = GuardedTransport(POLICY, resolve=resolve, tls=trusting)
        async with httpx2.AsyncClient(transport=transport) as client:
            assert (await client.get(f"https://right.test:{site.port}/")).text == "secure"
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.get(f"https://wrong.test:{site.port}/")
        assert len(site.requests) == 1


async def test_unknown_authorities_are_refused() -> None:
    server, _ = contexts("right.test")
    async with HostileSite(tls=server).running() as site:
        transport = GuardedTransport(POLICY, resolve=resolve)
        async with httpx2.AsyncClient(transport=transport) as client:
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.get(f"https://right.test:{site.port}/")


async def test_redirects_that_another_client_follows_are_checked() -> None:
    """Clients of MCP servers share the transport and may follow redirects themselves."""

    async def by_name(host: str, port: int) -> list[str]:
        return ["127.0.0.2" if host == "right.test" else "127.0.0.1"]

    async with HostileSite().running() as site, HostileSite("127.0.0.1").running() as internal:
        site.paths["/"] = redirect(f"http://internal.test:{internal.port}/")
        transport = GuardedTransport(POLICY, resolve=by_name)
        async with httpx2.AsyncClient(transport=transport, follow_redirects=True) as client:
            with pytest.raises(AddressRefused):
                await client.get(f"http://right.test:{site.port}/")
        assert internal.requests == []


async def test_sockets_of_the_machine_are_refused() -> None:
    with pytest.raises(AddressRefused):
        await GuardedNetwork(POLICY, resolve).connect_unix_socket("/run/docker.sock")


async def test_refused_connections_are_errors_of_the_client() -> None:
    transport = GuardedTransport(POLICY, resolve=resolve)
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(httpx2.ConnectError) as raised:
            await client.get("http://right.test:9/")
    assert isinstance(raised.value.__cause__, httpcore2.ConnectError)
