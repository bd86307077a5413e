"""Validates ID tokens by the rules of OpenID Connect Core 1.0, section 3.1.3.7, and RFC 8725.

Only asymmetric algorithms are accepted: neither `none` nor an HMAC with the client's secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from auth_billing.errors import ProviderSignInRefused
from auth_billing.people.oidc.configuration import OidcConfiguration
from auth_billing.people.oidc.provider import OidcProvider, Tokens

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY = 60
"""Seconds by which the provider's clock may differ."""
MAX_AGE = 600
"""Seconds since an ID token was issued, at most."""
MAX_SUBJECT = 255


async def verified_claims(
    provider: OidcProvider, configuration: OidcConfiguration, tokens: Tokens, nonce: str, now: float
) -> Mapping[str, Any]:
    """Verify the signature and the claims of a provider's ID token, and return its claims.

    The provider's signing keys are fetched again for an unknown key id.

    Args:
        nonce: that of the sign-in; empty: the token was refreshed.
        now: Unix seconds.

    Raises:
        ProviderSignInRefused: the token is invalid.
        ProviderUnavailable: the keys can't be fetched.
    """
    try:
        try:
            token = _decoded(tokens.id_token, await provider.keys())
        except InvalidKeyIdError:
            token = _decoded(tokens.id_token, await provider.keys(newer=True))
        return _validated(token, configuration, tokens, nonce, now)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise ProviderSignInRefused("sign_in_invalid", f"invalid ID token: {type(error).__name__}: {error}") from error


def _decoded(id_token: str, keys: KeySet) -> jwt.Token:
    return jwt.decode(id_token, keys, algorithms=ALGORITHMS)


def _validated(
    token: jwt.Token, configuration: OidcConfiguration, tokens: Tokens, nonce: str, now: float
) -> dict[str, Any]:
    if str(token.header.get("typ", "JWT")).upper() != "JWT":
        raise ValueError("the token is of another type")
    claims = CodeIDToken(
        token.claims,
        token.header,
        options={
            "iss": {"essential": True, "value": configuration.issuer},
            "aud": {"essential": True, "value": configuration.client_id},
        },
        params={"nonce": nonce, "client_id": configuration.client_id, "access_token": tokens.access},
    )
    claims.validate(now=int(now), leeway=LEEWAY)
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
        raise ValueError("the subject is no text")
    if now - claims["iat"] > MAX_AGE + LEEWAY:
        raise ValueError("the token is too old")
    return dict(claims)
