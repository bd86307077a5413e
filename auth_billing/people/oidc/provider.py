"""HTTP client of an OpenID Connect provider: discovery, signing keys, tokens and user information.

Each call has a time limit and a size limit, redirects are not followed, and TLS certificates are verified against the
system's authorities (or those of SSL_CERT_FILE). Discovery and keys are cached; while the provider is away, the last
known ones are used and a failed call is not repeated for some seconds.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Generic, TypeVar
from urllib.parse import quote_plus

import httpx2
from authlib.oidc.discovery import get_well_known_url
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet, import_key
from pydantic import BaseModel, ValidationError

from auth_billing.errors import ProviderGrantEnded, ProviderSignInRefused, ProviderUnavailable
from auth_billing.people.oidc.configuration import OidcConfiguration

TIMEOUT = 8.0
"""Seconds for one call, from connecting to the last byte of the answer."""
MAX_ANSWER_BYTES = 256 * 1024
CACHE_TTL = 3600.0
"""Seconds that discovery and keys are used without asking again."""
RETRY_INTERVAL = 5.0
"""Seconds after a call to discovery or for keys in which it is not repeated."""
MAX_CONNECTIONS = 20
ASYMMETRIC = ("RSA", "EC", "OKP")
T = TypeVar("T")


class Metadata(BaseModel):
    """The part of a provider's discovery document that is used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: list[str] = ["client_secret_basic"]
    authorization_response_iss_parameter_supported: bool = False


@dataclass(frozen=True)
class Tokens:
    """Tokens of a user from the token endpoint. Empty: not given."""

    id_token: str = field(repr=False)
    access: str = field(repr=False)
    refresh: str = field(repr=False)


@dataclass
class _Cached(Generic[T]):
    """A value that one caller at a time fetches; the last known value stays while fetching fails."""

    fetch: Callable[[], Awaitable[T]]
    clock: Callable[[], float]
    value: T | None = None
    fetched: float = float("-inf")
    tried: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self, *, newer: bool = False) -> T:
        """Return the cached value, fetched first if it is missing, old, or `newer` is set.

        A fetch is not repeated within `RETRY_INTERVAL`.

        Raises:
            ProviderUnavailable: there is no value, and it can't be fetched.
        """
        async with self.lock:
            fresh = self.clock() - self.fetched < CACHE_TTL and not newer
            if not fresh and self.clock() - self.tried >= RETRY_INTERVAL:
                try:
                    self.value = await self.fetch()
                    self.fetched = self.clock()
                except ProviderUnavailable:
                    if self.value is None:
                        raise
                finally:
                    self.tried = self.clock()
            if self.value is None:
                raise ProviderUnavailable("the provider did not answer some seconds ago")
            return self.value


class OidcProvider:
    """Client of one provider. Use it on one event loop, and close it.

    Args:
        configuration: the provider and this installation's registration there.
        clock: monotonic seconds, for caches.
    """

    def __init__(self, configuration: OidcConfiguration, clock: Callable[[], float] = time.monotonic) -> None:
        self._configuration = configuration
        self._client = httpx2.AsyncClient(
            headers={"accept": "application/json", "accept-encoding": "identity", "user-agent": "headrace"},
            timeout=httpx2.Timeout(TIMEOUT),
            limits=httpx2.Limits(max_connections=MAX_CONNECTIONS),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
        )
        self._metadata = _Cached(self._discover, clock)
        self._keys = _Cached(self._fetch_keys, clock)

    async def close(self) -> None:
        """Close the HTTP connections to the OpenID Connect provider; the client can't be used afterwards."""
        await self._client.aclose()

    async def metadata(self) -> Metadata:
        """Return the endpoints of the OpenID Connect provider from its discovery document, which is cached.

        Raises:
            ProviderUnavailable: they are not known, and the provider does not answer or answers for another issuer.
        """
        return await self._metadata.get()

    async def keys(self, *, newer: bool = False) -> KeySet:
        """Return the provider's public signing keys, which are cached.

        With `newer`, they are fetched again, for a token whose key id the cached ones lack.

        Raises:
            ProviderUnavailable: they are not known, and the provider does not answer.
        """
        return await self._keys.get(newer=newer)

    async def exchange(self, code: str, verifier: str) -> Tokens:
        """Exchange an authorization code and PKCE's verifier for a user's tokens, at the provider's token endpoint.

        Raises:
            ProviderSignInRefused: the provider refuses the code: it is wrong, used or expired.
            ProviderUnavailable: the provider does not answer, or answers with another error.
        """
        form = {"code": code, "code_verifier": verifier, "redirect_uri": self._configuration.redirect_uri}
        try:
            return await self._tokens({"grant_type": "authorization_code", **form})
        except ProviderGrantEnded as error:
            raise ProviderSignInRefused("sign_in_expired", "the provider refuses the code") from error

    async def refresh(self, token: str) -> Tokens:
        """Exchange a user's refresh token for new tokens, at the provider's token endpoint.

        Raises:
            ProviderGrantEnded: the provider refuses the token.
            ProviderUnavailable: the provider does not answer, or answers with another error.
        """
        return await self._tokens({"grant_type": "refresh_token", "refresh_token": token})

    async def user_info(self, access_token: str) -> Mapping[str, Any]:
        """Return the user's claims from the provider's user information endpoint, empty if it has no such endpoint.

        Raises:
            ProviderUnavailable: the provider does not answer, or refuses the token.
        """
        endpoint = (await self.metadata()).userinfo_endpoint
        if not endpoint or not access_token:
            return {}
        status, claims = await self._call("GET", endpoint, headers={"authorization": f"Bearer {access_token}"})
        if status != 200:
            raise ProviderUnavailable(f"the user information endpoint answered {status}")
        return claims

    async def _tokens(self, form: dict[str, str]) -> Tokens:
        metadata, client = await self.metadata(), self._configuration
        headers, secret = {}, client.client_secret
        if secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}"  # RFC 6749, section 2.3.1
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form = form | {"client_id": client.client_id} | ({"client_secret": secret} if secret else {})
        status, answer = await self._call("POST", metadata.token_endpoint, data=form, headers=headers)
        if answer.get("error") == "invalid_grant":
            raise ProviderGrantEnded("the provider refuses the grant")
        if status != 200:
            raise ProviderUnavailable(f"the token endpoint answered {status}: {str(answer.get('error'))[:100]!r}")
        id_token, access, refresh = (
            value if isinstance(value := answer.get(name), str) else ""
            for name in ("id_token", "access_token", "refresh_token")
        )
        return Tokens(id_token, access, refresh)

    async def _discover(self) -> Metadata:
        issuer = self._configuration.issuer
        status, document = await self._call("GET", get_well_known_url(issuer, external=True))
        try:
            metadata = Metadata.model_validate(document)
        except ValidationError as error:
            raise ProviderUnavailable(f"discovery answered {status} without a valid document") from error
        if status != 200 or metadata.issuer != issuer:
            raise ProviderUnavailable(f"discovery answered {status} for another issuer")
        endpoints = (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri)
        optional = (metadata.userinfo_endpoint, metadata.end_session_endpoint)
        if not all(map(self._configuration.allows, [*endpoints, *filter(None, optional)])):
            raise ProviderUnavailable("discovery names an endpoint without https")
        return metadata

    async def _fetch_keys(self) -> KeySet:
        status, document = await self._call("GET", (await self.metadata()).jwks_uri)
        keys = document.get("keys")
        if status != 200 or not isinstance(keys, list):
            raise ProviderUnavailable(f"the keys' endpoint answered {status}")
        signing = [key for each in keys if (key := _signing_key(each)) is not None]
        if not signing:
            raise ProviderUnavailable("the provider has no signing key of a known type")
        return KeySet(signing)

    async def _call(self, method: str, url: str, **options: Any) -> tuple[int, dict[str, Any]]:
        """Send a request; return the status of the answer and its JSON object."""
        body = bytearray()
        try:
            async with asyncio.timeout(TIMEOUT), self._client.stream(method, url, **options) as response:
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        raise ProviderUnavailable(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
                status = response.status_code
            answer = json.loads(body)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            raise ProviderUnavailable(f"no answer: {type(error).__name__}") from error
        except (ValueError, RecursionError) as error:
            raise ProviderUnavailable("an answer that is no JSON") from error
        if not isinstance(answer, dict):
            raise ProviderUnavailable("an answer that is no JSON object")
        return status, answer


def _signing_key(key: object) -> Key | None:
    """Return a public key for signatures; `None` if it is another: a symmetric one would let its reader sign."""
    if not isinstance(key, dict) or key.get("kty") not in ASYMMETRIC or key.get("use", "sig") != "sig":
        return None
    try:
        return import_key(key)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
