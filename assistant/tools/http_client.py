"""HTTP client of the tools: GET requests to public addresses, with limits of size, time, redirects and media types.

It is the only way in which tools reach outside. It sends no cookies and nothing that the environment configures
(proxies, `.netrc`), and text of its errors contains no address, because addresses can contain keys.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import httpx2

from assistant.tools.charset import decode
from assistant.tools.guarded_transport import AddressRefused, GuardedTransport
from assistant.tools.public_addresses import AddressPolicy, Resolver, resolve_with_system
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, Refused, TooLarge, Unavailable

MAX_BYTES = 1024 * 1024
"""Default maximum of a body after decompression."""
TIME_LIMIT = 8.0
"""Default seconds for one fetch: names, connections, redirects and the last byte."""
MAX_REDIRECTS = 3
MAX_URL_LENGTH = 2048
USER_AGENT = "HeadraceAssistant/0.1"
FIRST_PORT, LAST_PORT = 1024, 65535
"""Ports besides 80 and 443: those below are of services that speak no HTTP."""
JSON_TYPES = ("application/json",)

GRACE = 1.2
"""Seconds of a body after which it must have arrived at `MIN_RATE`."""
MIN_RATE = 4096
"""Bytes per second, counted from `GRACE` on."""
_TICK = 0.1

_REDIRECTS = (301, 302, 303, 307, 308)

_ADDRESS_REFUSED = Sentence(
    "This address leads to a private network. Only public addresses may be reached.",
    "Ten adres prowadzi do sieci prywatnej. Wolno sięgać tylko do adresów publicznych.",
)
_URL_REFUSED = Sentence(
    "Only addresses that begin with http:// or https:// and contain no password may be reached.",
    "Wolno sięgać tylko do adresów, które zaczynają się od http:// lub https:// i nie zawierają hasła.",
)
_MALFORMED = Sentence(
    "The address is malformed or too long.",
    "Adres jest błędny albo zbyt długi.",
)
_DOWNGRADED = Sentence(
    "The page redirects from https:// to an address without encryption.",
    "Strona przekierowuje z https:// na adres bez szyfrowania.",
)
_TOO_MANY_REDIRECTS = Sentence(
    "The page redirects too many times.",
    "Strona przekierowuje zbyt wiele razy.",
)
_CONTENT_TYPE = Sentence(
    "The address does not lead to text that can be read.",
    "Ten adres nie prowadzi do tekstu, który można odczytać.",
)
_BAD_ANSWER = Sentence(
    "The service answered in a form that can't be read.",
    "Usługa odpowiedziała w postaci, której nie można odczytać.",
)
_TOO_LATE = Sentence(
    "The service did not answer in time.",
    "Usługa nie odpowiedziała na czas.",
)
_TOO_SLOW = Sentence(
    "The page arrives too slowly.",
    "Strona przychodzi zbyt wolno.",
)


@dataclass(frozen=True)
class Fetched:
    """A response. `body` is decompressed, and empty if the response is an error of a content type not asked for."""

    url: str
    """Address after redirects."""
    status: int
    media_type: str
    charset: str | None
    """Charset that the Content-Type header declares."""
    body: bytes

    def text(self) -> str:
        """Return the body of the response as text; bytes that are no text of its charset become U+FFFD."""
        return decode(self.body, self.charset)


class HttpClient:
    """Fetches addresses for tools. Use it on one event loop, and close it.

    Args:
        permitted_networks: networks in CIDR notation that tools may reach besides public addresses.
        contact: how the operator is reached, for services that ask for it in `User-Agent`, as Wikimedia does.
        resolve: finds addresses of names.
        tls: verifies certificates; by default against the system's authorities.

    Raises:
        ValueError: a network is malformed.
    """

    def __init__(
        self,
        *,
        permitted_networks: Iterable[str] = (),
        contact: str = "",
        resolve: Resolver = resolve_with_system,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.transport = GuardedTransport(AddressPolicy(permitted_networks), resolve=resolve, tls=tls)
        """Transport for other clients that the same rules bind, such as one of MCP servers."""
        self._headers = {
            "accept-encoding": "gzip",
            "user-agent": f"{USER_AGENT} ({contact})" if contact else USER_AGENT,
        }

    async def close(self) -> None:
        """Close all HTTP connections of the tools."""
        await self.transport.aclose()

    async def fetch(
        self,
        url: str,
        parameters: Mapping[str, str] | None = None,
        *,
        media_types: Collection[str],
        max_bytes: int = MAX_BYTES,
        time_limit: float = TIME_LIMIT,
        max_redirects: int = 0,
    ) -> Fetched:
        """Send a GET request to `url`, follow permitted redirects, and return the response within byte and time limits.

        Args:
            url: the address; each redirect from it is checked as it is.
            parameters: the query of the first request; redirects do not get it.
            media_types: content types that are accepted.

        Raises:
            Refused: the address, one that it redirects to, or the content type is not permitted.
            TooLarge: the body has more than `max_bytes` after decompression.
            Unavailable: no whole response arrived in time, or its body arrives too slowly.
        """
        try:
            async with asyncio.timeout(time_limit):
                return await self._follow(
                    checked_url(url, parameters), media_types, max_bytes, time_limit, min(max_redirects, MAX_REDIRECTS)
                )
        except AddressRefused as error:
            raise Refused(_ADDRESS_REFUSED) from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise Unavailable(_TOO_LATE) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError, zlib.error) as error:
            raise Unavailable from error

    async def fetch_json(
        self, url: str, parameters: Mapping[str, str] | None = None, *, time_limit: float = TIME_LIMIT
    ) -> tuple[int, Any]:
        """Send a GET request to a service, and return the status of the response and its JSON value.

        The value is `None` if an error response has none.

        Raises:
            ToolError: as `fetch`; and `Unavailable` if a successful answer is no JSON.
        """
        fetched = await self.fetch(url, parameters, media_types=JSON_TYPES, time_limit=time_limit)
        try:
            return fetched.status, json.loads(fetched.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            if fetched.status != 200:
                return fetched.status, None
            raise Unavailable(_BAD_ANSWER) from error

    async def _follow(
        self, url: httpx2.URL, media_types: Collection[str], max_bytes: int, time_limit: float, redirects: int
    ) -> Fetched:
        while True:
            request = httpx2.Request(
                "GET",
                url,
                headers={"accept": ", ".join(media_types), **self._headers},
                extensions={"timeout": httpx2.Timeout(time_limit).as_dict()},
            )
            # The transport alone: a client would add cookies, and parse redirects before they are checked.
            response = await self.transport.handle_async_request(request)
            response.request = request
            try:
                if response.status_code not in _REDIRECTS or "location" not in response.headers:
                    return await _read(response, media_types, max_bytes)
                if redirects == 0:
                    raise Refused(_TOO_MANY_REDIRECTS)
                redirects -= 1
                target = checked_url(str(url.join(response.headers["location"])))
                if url.scheme == "https" and target.scheme != "https":
                    raise Refused(_DOWNGRADED)
                url = target
            finally:
                await response.aclose()


def checked_url(url: str, parameters: Mapping[str, str] | None = None) -> httpx2.URL:
    """Return `url` parsed, with `parameters` as its query, after checking that tools may request it.

    Raises:
        InvalidArguments: the URL is malformed or too long.
        Refused: its scheme, a user name in it, or its port is not permitted.
    """
    try:
        parsed = httpx2.URL(url)
        parsed = parsed.copy_merge_params(parameters) if parameters else parsed
    except (httpx2.InvalidURL, ValueError) as error:
        raise InvalidArguments(_MALFORMED) from error
    if len(str(parsed)) > MAX_URL_LENGTH:
        raise InvalidArguments(_MALFORMED)
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise Refused(_URL_REFUSED)
    if parsed.port is not None and not (parsed.port in (80, 443) or FIRST_PORT <= parsed.port <= LAST_PORT):
        raise Refused(_URL_REFUSED)
    return parsed.copy_with(fragment=None)


async def _read(response: httpx2.Response, media_types: Collection[str], max_bytes: int) -> Fetched:
    header = response.headers.get("content-type", "")
    media_type = header.partition(";")[0].strip().lower()
    if media_type in media_types:
        body = await _bounded_body(response, max_bytes)
    elif response.is_success:
        raise Refused(_CONTENT_TYPE)
    else:
        body = b""
    return Fetched(str(response.url), response.status_code, media_type, response.charset_encoding, body)


async def _bounded_body(response: httpx2.Response, max_bytes: int) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(None) as timeout:
            pace = _Pace(timeout, body)
            try:
                async for part in _decompressed(response, max_bytes):
                    body += part
                    if len(body) > max_bytes:
                        raise TooLarge
            finally:
                pace.stop()
    except TimeoutError as error:
        if timeout.expired():
            raise Unavailable(_TOO_SLOW) from error
        raise
    return bytes(body)


class _Pace:
    """Ends a timeout when a body arrives too slowly. A time in which the machine stands still counts as one tick."""

    def __init__(self, timeout: asyncio.Timeout, body: bytearray) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout, self._body = timeout, body
        self._ticks = 0
        self._next = self._loop.call_later(_TICK, self._tick)

    def _tick(self) -> None:
        self._ticks += 1
        if len(self._body) < (self._ticks * _TICK - GRACE) * MIN_RATE:
            self._timeout.reschedule(self._loop.time())
        else:
            self._next = self._loop.call_later(_TICK, self._tick)

    def stop(self) -> None:
        """Stop checking the speed at which a response's body arrives, because the body has ended."""
        self._next.cancel()


async def _decompressed(response: httpx2.Response, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield parts of a body of at most `max_bytes` + 1 bytes each, without inflating more than that."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        async for part in response.aiter_raw():
            yield part
    elif encoding in ("gzip", "x-gzip"):
        inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        async for part in response.aiter_raw():
            yield inflate.decompress(part, max_bytes + 1)
            if inflate.eof:
                return
        raise Unavailable(_BAD_ANSWER)
    else:
        raise Unavailable(_BAD_ANSWER)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
