"""The client of a provider: its limits, its caches, and answers that are refused."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
from joserfc.jwk import OctKey, RSAKey

from auth_billing.errors import ProviderGrantEnded, ProviderSignInRefused, ProviderUnavailable
from auth_billing.people.oidc.provider import CACHE_TTL, MAX_ANSWER_BYTES, RETRY_INTERVAL, OidcProvider
from tests.auth_billing.people.oidc.test_configuration import configuration
from tests.fakes.accounts import FakeClock

ISSUER = "https://issuer.example/realm"
DISCOVERY = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
}


class Body(httpx2.AsyncByteStream):
    """A body that has not been read yet, in chunks."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for begin in range(0, len(self.content), 65_536):
            yield self.content[begin : begin + 65_536]


class Scene:
    """A provider whose answers a test sets by path."""

    def __init__(self) -> None:
        self.clock = FakeClock(1000.0)
        self.answers: dict[str, Any] = {"/realm/.well-known/openid-configuration": DISCOVERY}
        self.requests: list[httpx2.Request] = []
        self.provider = OidcProvider(configuration(), self.clock)
        self.provider._client._transport = httpx2.MockTransport(self._answer)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers[request.url.path]
        if isinstance(answer, Exception):
            raise answer
        response = answer if isinstance(answer, httpx2.Response) else httpx2.Response(200, json=answer)
        return httpx2.Response(response.status_code, headers=response.headers, stream=Body(response.content))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.provider.close()


async def test_discovery_is_cached_and_outlives_an_outage(scene: Scene) -> None:
    for _ in range(3):
        assert (await scene.provider.metadata()).token_endpoint == f"{ISSUER}/token"
    assert len(scene.requests) == 1
    scene.answers["/realm/.well-known/openid-configuration"] = httpx2.ConnectError("down")
    scene.clock.now += CACHE_TTL + 1
    assert (await scene.provider.metadata()).token_endpoint == f"{ISSUER}/token"
    assert len(scene.requests) == 2


async def test_a_failed_discovery_is_not_repeated_at_once(scene: Scene) -> None:
    scene.answers["/realm/.well-known/openid-configuration"] = httpx2.ConnectError("down")
    failures = await asyncio.gather(*(scene.provider.metadata() for _ in range(20)), return_exceptions=True)
    assert {type(each) for each in failures} == {ProviderUnavailable}
    assert len(scene.requests) == 1
    scene.answers["/realm/.well-known/openid-configuration"] = DISCOVERY
    scene.clock.now += RETRY_INTERVAL
    assert (await scene.provider.metadata()).issuer == ISSUER


@pytest.mark.parametrize(
    "answer",
    [
        DISCOVERY | {"issuer": "https://evil.example"},
        DISCOVERY | {"issuer": ISSUER + "/"},
        DISCOVERY | {"token_endpoint": "http://issuer.example/token"},
        DISCOVERY | {"end_session_endpoint": "javascript:alert(1)"},
        {"issuer": ISSUER},
        [],
        httpx2.Response(200, content=b"<html>"),
        httpx2.Response(200, content=b"[" * 100_000),
        httpx2.Response(200, content=b" " * (MAX_ANSWER_BYTES + 1)),
        httpx2.Response(302, headers={"location": "http://169.254.169.254/"}),
        httpx2.Response(500, json=DISCOVERY),
    ],
    ids=lambda answer: str(answer)[:60],
)
async def test_other_discovery_documents_are_refused(scene: Scene, answer: Any) -> None:
    scene.answers["/realm/.well-known/openid-configuration"] = answer
    with pytest.raises(ProviderUnavailable):
        await scene.provider.metadata()
    assert len(scene.requests) == 1


async def test_only_public_signing_keys_are_used(scene: Scene) -> None:
    signing = RSAKey.generate_key(2048, {"kid": "k1"}, private=True).as_dict(private=False)
    scene.answers["/realm/keys"] = {
        "keys": [
            signing,
            signing | {"kid": "k2", "use": "enc"},
            OctKey.generate_key(256).as_dict(private=True),
            {"kty": "EC"},
            7,
        ]
    }
    assert [key.kid for key in await scene.provider.keys()] == ["k1"]


async def test_keys_are_fetched_again_after_some_seconds_only(scene: Scene) -> None:
    scene.answers["/realm/keys"] = {"keys": [RSAKey.generate_key(2048).as_dict(private=False)]}
    for _ in range(5):
        await scene.provider.keys(newer=True)
    assert len(scene.requests) == 2  # discovery, keys
    scene.clock.now += RETRY_INTERVAL
    await scene.provider.keys(newer=True)
    assert len(scene.requests) == 3


async def test_the_secret_is_sent_as_the_provider_reads_it(scene: Scene) -> None:
    scene.answers["/realm/token"] = {"access_token": "a", "id_token": 7}
    tokens = await scene.provider.exchange("code", "verifier")
    assert (tokens.access, tokens.id_token, tokens.refresh) == ("a", "", "")
    assert scene.requests[-1].headers["authorization"] == "Basic aGVhZHJhY2U6c2VjcmV0"
    assert b"secret" not in scene.requests[-1].content

    scene.answers["/realm/.well-known/openid-configuration"] = DISCOVERY | {
        "token_endpoint_auth_methods_supported": ["client_secret_post"]
    }
    scene.clock.now += CACHE_TTL + 1
    await scene.provider.exchange("code", "verifier")
    assert "authorization" not in scene.requests[-1].headers
    assert b"client_secret=secret" in scene.requests[-1].content


async def test_a_refused_grant_differs_from_an_outage(scene: Scene) -> None:
    scene.answers["/realm/token"] = httpx2.Response(400, json={"error": "invalid_grant"})
    with pytest.raises(ProviderSignInRefused):
        await scene.provider.exchange("code", "verifier")
    with pytest.raises(ProviderGrantEnded):
        await scene.provider.refresh("token")
    scene.answers["/realm/token"] = httpx2.Response(401, json={"error": "invalid_client"})
    with pytest.raises(ProviderUnavailable):
        await scene.provider.refresh("token")


async def test_certificates_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, requests = trustme.CA(), []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + json.dumps(document).encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    issuer = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    document = {name: url.replace(ISSUER, issuer) for name, url in DISCOVERY.items()}
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    async with server:
        unknown = OidcProvider(configuration(issuer=issuer))
        with pytest.raises(ProviderUnavailable):
            await unknown.metadata()
        assert not requests
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        known = OidcProvider(configuration(issuer=issuer))
        assert (await known.metadata()).issuer == issuer
        await known.close()
        await unknown.close()
