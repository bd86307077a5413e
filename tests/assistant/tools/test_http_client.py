"""The HTTP client of tools against hostile servers, names and documents."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from assistant.tools.http_client import MAX_BYTES, Fetched, HttpClient, checked_url
from assistant.tools.tool import InvalidArguments, Refused, TooLarge, ToolError, Unavailable
from tests.fakes.hostile_site import HostileSite, redirect, response

PUBLIC, INTERNAL = "127.0.0.2", "127.0.0.1"
"""Loopback addresses that stand for a public server, which the tests permit, and an internal one."""


class Names:
    """A resolver: each name has the answers of its successive look-ups; the last one repeats."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        if host[0].isdigit():
            return [host]
        answers = self.answers.get(host.partition(".")[0])
        if answers is None:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
async def site() -> AsyncIterator[HostileSite]:
    async with HostileSite(PUBLIC).running() as site:
        yield site


@pytest.fixture
async def internal() -> AsyncIterator[HostileSite]:
    async with HostileSite(INTERNAL).running() as site:
        site.paths["/"] = response(b"internal secret")
        yield site


@pytest.fixture
def names() -> Names:
    return Names(public=[[PUBLIC]], internal=[[INTERNAL]])


@pytest.fixture
async def client(names: Names) -> AsyncIterator[HttpClient]:
    client = HttpClient(permitted_networks=[f"{PUBLIC}/32"], resolve=names, contact="ops@example.org")
    yield client
    await client.close()


async def get(
    client: HttpClient, site: HostileSite, path: str = "/", host: str = "public.test", **options: Any
) -> Fetched:
    more: dict[str, Any] = {"media_types": ("text/html",), "max_redirects": 3, "time_limit": 60.0} | options
    return await client.fetch(f"http://{host}:{site.port}{path}", **more)


async def refused(expected: type[ToolError], fetching: Awaitable[Any], *, late: bool = False) -> ToolError:
    """Return the error of a fetch, which its time limit must have ended if `late`, and nothing but that."""
    with pytest.raises(expected) as raised:
        await fetching
    assert ("in time" in raised.value.message("en")) == late
    assert raised.value.message("pl") != raised.value.message("en")
    return raised.value


async def test_fetches_a_page(client: HttpClient, site: HostileSite) -> None:
    site.paths["/"] = response("Żółw".encode(), content_type="text/html; charset=utf-8")
    fetched = await client.fetch(f"http://public.test:{site.port}/", {"q": "ó&ł"}, media_types=("text/html",))
    assert (fetched.status, fetched.media_type, fetched.text()) == (200, "text/html", "Żółw")
    line, *headers = site.requests[0]
    assert line == "GET /?q=%C3%B3%26%C5%82 HTTP/1.1"
    assert {each.split(":")[0].lower() for each in headers} == {*("host", "accept", "accept-encoding", "user-agent")}
    assert "user-agent: headraceassistant/0.1 (ops@example.org)" in [each.lower() for each in headers]


@pytest.mark.parametrize(
    "host",
    [
        *(INTERNAL, "localhost", "2130706433", "0177.0.0.1", "0x7f000001", "127.1", "0.0.0.0", "0", "169.254.169.254"),
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[fe80::1]", "[fd00::1]"),
    ],
)
async def test_private_addresses_are_refused(internal: HostileSite, host: str) -> None:
    client = HttpClient()
    error = await refused(ToolError, get(client, internal, host=host))
    assert isinstance(error, Refused | InvalidArguments)
    assert "address" in str(error)
    assert internal.requests == []
    await client.close()


async def test_a_name_of_a_private_address_is_refused(client: HttpClient, internal: HostileSite) -> None:
    await refused(Refused, get(client, internal, host="internal.test"))
    assert internal.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_to_private_addresses_are_refused(
    client: HttpClient, site: HostileSite, internal: HostileSite, status: int
) -> None:
    for host in (INTERNAL, "internal.test"):
        site.paths["/"] = redirect(f"http://{host}:{internal.port}/", status)
        await refused(Refused, get(client, site))
    assert internal.requests == []


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://public.test/", "http://u:p@public.test/", "//:1"])
async def test_redirects_to_other_schemes_are_refused(client: HttpClient, site: HostileSite, location: str) -> None:
    site.paths["/"] = redirect(location)
    await refused(ToolError, get(client, site))


async def test_redirects_are_followed_three_times(client: HttpClient, site: HostileSite) -> None:
    for number in range(4):
        site.paths[f"/{number}"] = redirect(f"/{number + 1}")
    site.paths["/4"] = response(b"page")
    assert (await get(client, site, "/1")).text() == "page"
    await refused(Refused, get(client, site, "/0", max_redirects=100))
    site.paths["/"] = redirect("/")
    await refused(Refused, get(client, site))
    await refused(Refused, get(client, site, "/3", max_redirects=0))


async def test_rebinding_does_not_move_a_connection(internal: HostileSite, site: HostileSite) -> None:
    """The name is resolved once per connection, and the connection goes to the address that was checked."""
    names = Names(rebound=[[PUBLIC], [INTERNAL]])
    client = HttpClient(permitted_networks=[f"{PUBLIC}/32"], resolve=names)
    site.paths["/"] = response(b"public")
    assert (await get(client, site, host="rebound.test")).text() == "public"
    assert names.asked == ["rebound.test"]
    await refused(Refused, get(client, internal, host="rebound.test"))  # a new connection: resolved again
    assert internal.requests == []
    await client.close()


async def test_permitted_addresses_of_a_name_are_tried_in_order(site: HostileSite, internal: HostileSite) -> None:
    names = Names(mixed=[[INTERNAL, "127.0.0.3", PUBLIC]])  # nothing listens on 127.0.0.3
    client = HttpClient(permitted_networks=[f"{PUBLIC}/32", "127.0.0.3/32"], resolve=names)
    site.paths["/"] = response(b"public")
    assert (await get(client, site, host="mixed.test")).text() == "public"
    await client.close()


async def test_an_unknown_name_is_unavailable(client: HttpClient, site: HostileSite) -> None:
    await refused(Unavailable, get(client, site, host="unknown.test"))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.test/",
        "file:///etc/passwd",
        "http://",
        "http://u@a.test/",
        "http://a.test:25/",
        "data:text/html,x",
        "x",
    ],
)
def test_refused_urls(url: str) -> None:
    with pytest.raises(Refused):
        checked_url(url)


@pytest.mark.parametrize("url", ["http://[::1/", "http://a.test/" + "x" * 3000, "http://a\0b/"])
def test_malformed_urls(url: str) -> None:
    with pytest.raises(InvalidArguments):
        checked_url(url)


def drip(first: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    return send


@pytest.mark.parametrize(
    "first", [b"HTTP/1.1 200 OK\r\nX-Header: ", b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n", b""]
)
async def test_slow_responses_end_in_time(client: HttpClient, site: HostileSite, first: bytes) -> None:
    site.paths["/"] = drip(first)
    await refused(Unavailable, get(client, site, time_limit=0.4), late=True)


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n", CHUNKED + b"1;"])
async def test_slow_bodies_are_refused_long_before_the_time_limit(
    client: HttpClient, site: HostileSite, first: bytes
) -> None:
    site.paths["/"] = drip(first)
    with pytest.raises(Unavailable, match="too slowly"):
        await get(client, site)


async def test_a_pause_in_a_body_is_no_slow_body(client: HttpClient, site: HostileSite) -> None:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n" + b"x" * 100_000)
        await asyncio.sleep(1.6)
        writer.close()

    site.paths["/"] = send
    assert len((await get(client, site)).body) == 100_000


async def test_endless_bodies_are_refused(client: HttpClient, site: HostileSite) -> None:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    site.paths["/"] = send
    with pytest.raises(TooLarge):
        await get(client, site)


async def test_a_slow_resolver_ends_in_time(site: HostileSite) -> None:
    async def hang(host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return [PUBLIC]

    client = HttpClient(resolve=hang)
    await refused(Unavailable, get(client, site, time_limit=0.3), late=True)
    await client.close()


async def test_bombs_are_not_inflated(client: HttpClient, site: HostileSite) -> None:
    bomb = gzip.compress(b"\0" * (100 * 1024 * 1024), compresslevel=1)
    site.paths["/"] = response(bomb, content_encoding="gzip")
    await refused(TooLarge, get(client, site))


async def test_long_bodies_are_refused(client: HttpClient, site: HostileSite) -> None:
    site.paths["/"] = response(b"x" * (MAX_BYTES + 1))
    await refused(TooLarge, get(client, site))
    site.paths["/"] = response(b"x" * MAX_BYTES)
    assert len((await get(client, site)).body) == MAX_BYTES


async def test_compressed_pages_are_read(client: HttpClient, site: HostileSite) -> None:
    site.paths["/"] = response(gzip.compress(b"page"), content_encoding="gzip")
    assert (await get(client, site)).text() == "page"


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(b"no gzip", "gzip"), (gzip.compress(b"x" * 99, mtime=0)[:-9], "gzip"), (b"x", "br"), (b"x", "gzip, gzip")],
    ids=["no gzip", "cut", "another", "two"],
)
async def test_broken_compression_is_unavailable(
    client: HttpClient, site: HostileSite, body: bytes, encoding: str
) -> None:
    site.paths["/"] = response(body, content_encoding=encoding)
    await refused(Unavailable, get(client, site))


async def test_other_content_types_are_refused(client: HttpClient, site: HostileSite) -> None:
    site.paths["/"] = response(b"GIF89a", content_type="image/gif")
    await refused(Refused, get(client, site))
    site.paths["/"] = response(b"GIF89a", content_type="image/gif", status=500)
    assert (await get(client, site)).body == b""


@pytest.mark.parametrize(
    "raw", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", b"\0" * 200_000]
)
async def test_broken_responses_are_unavailable(client: HttpClient, site: HostileSite, raw: bytes) -> None:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        writer.close()

    site.paths["/"] = send
    await refused(ToolError, get(client, site))


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"[" * 100_000, b"9" * 5000, b"\xff"])
async def test_broken_json_is_unavailable(client: HttpClient, site: HostileSite, body: bytes) -> None:
    site.paths["/"] = response(body, content_type="application/json")
    await refused(Unavailable, client.fetch_json(f"http://public.test:{site.port}/"))
    site.paths["/"] = response(body, content_type="application/json", status=500)
    assert await client.fetch_json(f"http://public.test:{site.port}/") == (500, None)


async def test_the_environment_configures_nothing(
    site: HostileSite, internal: HostileSite, names: Names, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "netrc").write_text("machine public.test login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://{INTERNAL}:{internal.port}")
    client = HttpClient(permitted_networks=[f"{PUBLIC}/32"], resolve=names)
    site.paths["/"] = response(b"direct", set_cookie="a=b")
    assert (await get(client, site)).text() == "direct"
    await get(client, site)
    assert internal.requests == []
    assert not [line for request in site.requests for line in request if line.lower().startswith(("auth", "cookie"))]
    await client.close()
