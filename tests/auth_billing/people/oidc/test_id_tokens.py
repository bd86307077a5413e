"""ID tokens: each rule of OpenID Connect Core 3.1.3.7, broken one at a time."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import Key, KeySet, RSAKey

from auth_billing.errors import ProviderSignInRefused
from auth_billing.people.oidc.id_tokens import verified_claims
from auth_billing.people.oidc.provider import Tokens
from tests.auth_billing.people.oidc.test_configuration import configuration

NOW = 1_000_000.0
KEY = RSAKey.generate_key(2048, {"kid": "k1"})
OTHER = RSAKey.generate_key(2048, {"kid": "k2"})
CLAIMS = {
    "iss": "https://issuer.example/realm",
    "sub": "alice",
    "aud": "headrace",
    "exp": int(NOW) + 300,
    "iat": int(NOW),
    "nonce": "nonce",
}


class FakeProvider:
    """A provider's keys: `later` after they are fetched again."""

    def __init__(self, *later: Key) -> None:
        self.later, self.fetched = later, 0

    async def keys(self, *, newer: bool = False) -> KeySet:
        self.fetched += newer
        return KeySet([RSAKey.import_key(KEY.as_dict(private=False)), *(self.later if newer else ())])


async def verify(token: str, *later: Key, access: str = "", nonce: str = "nonce") -> Mapping[str, Any]:
    provider: Any = FakeProvider(*later)
    return await verified_claims(provider, configuration(), Tokens(token, access, ""), nonce, NOW)


def signed(claims: Mapping[str, Any], key: Key = KEY, **header: Any) -> str:
    return jwt.encode({"alg": "RS256", "kid": key.kid, **header}, dict(claims), key, algorithms=["RS256"])


async def test_a_right_token_is_accepted() -> None:
    assert (await verify(signed(CLAIMS)))["sub"] == "alice"
    assert (await verify(signed({**CLAIMS, "aud": ["headrace", "api"], "azp": "headrace"})))["sub"] == "alice"
    assert (await verify(signed({**CLAIMS, "exp": int(NOW) - 30})))["sub"] == "alice"  # the clocks differ


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://issuer.example/other"},
        {"iss": None},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": ["headrace", "other"]},
        {"aud": ["headrace", "other"], "azp": "other"},
        {"azp": "other"},
        {"aud": None},
        {"exp": int(NOW) - 61},
        {"exp": None},
        {"exp": "9999999999"},
        {"iat": None},
        {"iat": int(NOW) - 700},
        {"iat": int(NOW) + 120},
        {"nbf": int(NOW) + 120},
        {"nonce": "another"},
        {"nonce": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
        {"sub": None},
        {"at_hash": "wrong"},
    ],
    ids=str,
)
async def test_a_token_with_a_wrong_claim_is_refused(change: dict[str, Any]) -> None:
    claims = {name: value for name, value in {**CLAIMS, **change}.items() if value is not None}
    with pytest.raises(ProviderSignInRefused):
        await verify(signed(claims), access="access")


def unsigned(header: dict[str, Any]) -> str:
    parts = (json.dumps(part).encode() for part in (header, CLAIMS))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def mac(secret: bytes) -> str:
    """Return a token whose HMAC has a secret that the client, or the public, has."""
    text = unsigned({"alg": "HS256", "kid": "k1"}).removesuffix(".")
    return f"{text}.{base64.urlsafe_b64encode(hmac.digest(secret, text.encode(), 'sha256')).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        "é",
        unsigned({"alg": "none"}),
        unsigned({"alg": "none", "kid": "k1"}),
        mac(b"secret"),
        mac(KEY.as_pem(private=False)),
        signed(CLAIMS, OTHER, kid="k1"),
        signed(CLAIMS)[:-4] + "AAAA",
        signed(CLAIMS, typ="at+jwt"),
        signed(CLAIMS, typ="logout+jwt"),
    ],
)
async def test_a_token_with_another_signature_or_type_is_refused(token: str) -> None:
    with pytest.raises(ProviderSignInRefused):
        await verify(token)


async def test_keys_are_fetched_again_for_an_unknown_key_id_only() -> None:
    provider: Any = FakeProvider(OTHER)
    tokens = Tokens(signed(CLAIMS, OTHER), "", "")
    assert (await verified_claims(provider, configuration(), tokens, "nonce", NOW))["sub"] == "alice"
    assert provider.fetched == 1
    with pytest.raises(ProviderSignInRefused):
        await verified_claims(provider, configuration(), Tokens(signed(CLAIMS, OTHER, kid="k1"), "", ""), "nonce", NOW)
    assert provider.fetched == 1
