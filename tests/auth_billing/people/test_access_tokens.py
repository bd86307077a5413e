"""Access tokens: known forgeries of JWTs are refused (RFC 8725)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest

from auth_billing.errors import InvalidSession
from auth_billing.keys import key_format
from auth_billing.people.access_tokens import SECONDS_VALID, AccessClaims, AccessTokens
from auth_billing.people.refresh_tokens import new_token
from auth_billing.people.signing_keys import SigningKey
from tests.fakes.sessions import SIGNING_KEY

CLAIMS = AccessClaims("sess-1", "user-1", 3)
OLD = SigningKey("k0", "HS256", b"o" * 32)
TOKENS = AccessTokens([SIGNING_KEY, OLD])


def forged(*, key: bytes = SIGNING_KEY.key, algorithm: str = "HS256", header: Any = None, **changes: Any) -> str:
    """Return a valid token with changed claims; `None` removes a claim."""
    now = int(time.time())
    payload = {
        "iss": "headrace",
        "aud": "headrace-web",
        "sub": "user-1",
        "iat": now,
        "nbf": now,
        "exp": now + 600,
        "jti": "jwt-1",
        "token_use": "access",
        "sid": "sess-1",
        "ver": 3,
        **changes,
    }
    payload = {name: value for name, value in payload.items() if value is not None}
    head = {"alg": algorithm, "typ": "JWT", "kid": "k1", **(header or {})}
    signed = f"{_part(head)}.{_part(payload)}"  # by hand: pyjwt refuses to write some of this
    return f"{signed}.{_base64(hmac.digest(key, signed.encode(), f'sha{algorithm[2:]}'))}"


def spelled(header: Any, payload: Any = None, signature: bytes = b"") -> str:
    """Return a token with an arbitrary header."""
    original = forged().split(".")
    parts = [_part(header), original[1] if payload is None else _part(payload), _base64(signature)]
    return ".".join(parts)


def _part(value: Any) -> str:
    return _base64(value if isinstance(value, bytes) else json.dumps(value).encode())


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def refuse(token: str) -> None:
    with pytest.raises(InvalidSession) as caught:
        TOKENS.read(token)
    assert len(str(caught.value)) < 100  # never repeats the token


def test_an_issued_token_is_accepted() -> None:
    assert TOKENS.read(TOKENS.issue(CLAIMS)) == CLAIMS
    assert TOKENS.read(forged()) == CLAIMS


def test_tokens_are_unique() -> None:
    ids = {jwt.decode(TOKENS.issue(CLAIMS), options={"verify_signature": False})["jti"] for _ in range(8)}
    assert len(ids) == 8


def test_during_rotation_both_keys_verify_and_the_first_signs() -> None:
    assert TOKENS.read(AccessTokens([OLD]).issue(CLAIMS)) == CLAIMS
    assert jwt.get_unverified_header(TOKENS.issue(CLAIMS))["kid"] == "k1"
    with pytest.raises(InvalidSession):
        AccessTokens([OLD]).read(TOKENS.issue(CLAIMS))


_PUBLIC_PEM = b"-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAL\n-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize("algorithm", ["none", "NONE", "nOnE", "", None, ["HS256"], 0, {"alg": "HS256"}, "HS257"])
def test_the_algorithm_none_is_refused(algorithm: Any) -> None:
    refuse(spelled({"typ": "JWT", "kid": "k1", "alg": algorithm}))
    refuse(spelled({"typ": "JWT", "kid": "k1"}))


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_the_right_key_with_another_algorithm_is_refused(algorithm: str) -> None:
    refuse(forged(algorithm=algorithm, key=SIGNING_KEY.key))


@pytest.mark.parametrize("algorithm", ["HS256", "RS256", "ES256", "EdDSA", "PS256"])
def test_a_public_key_is_not_accepted_as_a_secret(algorithm: str) -> None:
    signed = spelled({"typ": "JWT", "kid": "k1", "alg": algorithm}).rpartition(".")[0]
    refuse(f"{signed}.{_base64(hmac.digest(_PUBLIC_PEM, signed.encode(), hashlib.sha256))}")


def wrong_claims(now: int) -> list[dict[str, Any]]:
    """Return invalid claims; `now` is in Unix seconds."""
    return [
        {"exp": None},
        {"iat": None},
        {"nbf": None},
        {"sub": None},
        {"jti": None},
        {"aud": None},
        {"iss": None},
        {"exp": str(now + 600)},
        {"exp": "9999999999"},
        {"exp": 9999999999},
        {"exp": 1e26},
        {"exp": 10**26},
        {"exp": float(now + 600)},
        {"exp": True},
        {"exp": now - 60, "iat": now - 600},
        {"exp": now - 600},
        {"exp": now + SECONDS_VALID + 1, "iat": now},
        {"exp": [now + 600]},
        {"iat": now + 7200},
        {"iat": str(now)},
        {"iat": -1},
        {"nbf": now + 7200},
        {"nbf": "soon"},
        {"aud": "headrace"},
        {"aud": ["headrace-web"]},
        {"aud": ["headrace-web", "other"]},
        {"aud": {"$ne": 1}},
        {"iss": "https://evil.example"},
        {"iss": ["headrace"]},
        {"sub": ""} | {"ver": "3"},
        {"sub": 7},
        {"ver": None},
        {"ver": 3.0},
        {"ver": True},
        {"sid": None},
        {"sid": {"$ne": 1}},
    ]


@pytest.mark.parametrize("number", range(len(wrong_claims(0))))
def test_invalid_claims_are_refused(number: int) -> None:
    refuse(forged(**wrong_claims(int(time.time()))[number]))


@pytest.mark.parametrize(
    "kid", ["../../dev/null", "' OR 1=1 --", {"$ne": 1}, ["k1"], 1, None, "", "unknown", "K1", "k1\0", "x" * 1_000_000]
)
def test_unknown_keys_are_refused(kid: Any) -> None:
    refuse(spelled({"alg": "HS256", "kid": kid}, signature=b"x" * 32))


@pytest.mark.parametrize(
    "header",
    [
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example/cert"},
        {"jwk": {"kty": "oct", "k": _base64(b"e" * 32)}},
    ],
)
def test_keys_in_the_header_are_ignored(header: dict[str, Any]) -> None:
    refuse(forged(key=b"e" * 32, header=header))
    assert TOKENS.read(forged(header=header)) == CLAIMS  # and do no harm beside ours


@pytest.mark.parametrize("crit", [["x"], ["exp"], [], "x", None])
def test_critical_extensions_are_refused(crit: Any) -> None:
    refuse(forged(header={"crit": crit, "x": True}))


@pytest.mark.parametrize("use", ["refresh", "id", "", None, ["access"], True])
def test_other_kinds_of_token_are_refused(use: Any) -> None:
    refuse(forged(token_use=use))


def test_malformed_tokens_are_refused() -> None:
    for text in (
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "é.é.é",
        "\0",
        "x" * 1_000_000,
        "." * 3000,
        "{}",
        "eyJhbGciOiJIUzI1NiJ9",
    ):
        refuse(text)
    refuse(key_format.generate().text)
    refuse(new_token("sess-1").text)
    for part in (b"{}", b"[]", b"null", b"1", b"\xff", b"[" * 400):
        refuse(spelled(part))
        refuse(spelled({"alg": "HS256", "kid": "k1"}, payload=part))


def test_each_changed_character_is_detected() -> None:
    token = TOKENS.issue(CLAIMS)
    for place in (5, token.index(".") + 5, token.rindex(".") + 5):
        other = "A" if token[place] != "A" else "B"
        refuse(token[:place] + other + token[place + 1 :])
