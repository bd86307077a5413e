"""Files, headers and client-side routes of the page server, with a fake build."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from chat_ui.http import page
from chat_ui.http.page import create_app

POLICY = {
    "default-src 'self'",
    "script-src 'self'",
    "worker-src 'self'",
    "style-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "form-action 'none'",
    "img-src 'self' data:",
    "connect-src 'self'",
}


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Headrace</title>")
    (folder / "assets" / "index-C0ffee12.js").write_text("console.log(1);" * 200)
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
async def client(dist: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with _client(create_app(dist)) as client:
        yield client


def _client(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat.test")


async def test_the_page_is_revalidated_every_time(client: httpx.AsyncClient) -> None:
    response = await client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["cache-control"] == "no-cache"
    again = await client.get("/", headers={"if-none-match": response.headers["etag"]})
    assert again.status_code == 304
    assert again.headers["cache-control"] == "no-cache"


async def test_hashed_files_are_immutable_and_compressed(client: httpx.AsyncClient) -> None:
    response = await client.get("/assets/index-C0ffee12.js", headers={"accept-encoding": "gzip"})
    assert response.status_code == 200
    assert "javascript" in response.headers["content-type"]
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in response.headers["vary"].lower()


@pytest.mark.parametrize("path", ["/", "/assets/index-C0ffee12.js", "/missing", "/assets/missing.js"])
async def test_every_response_has_the_security_headers(client: httpx.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    assert set(headers["content-security-policy"].split("; ")) == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    [
        "/missing",
        "/assets",
        "/assets/missing.js",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/..%5csecret.txt",
        "//secret.txt",
        "/%00",
        "/link.txt",
        "/" + "a" * 5000,
    ],
)
async def test_files_outside_the_build_are_not_found(client: httpx.AsyncClient, dist: Path, path: str) -> None:
    (dist / "link.txt").symlink_to(dist.parent / "secret.txt")
    response = await client.get(httpx.URL("http://chat.test", raw_path=path.encode()))
    assert response.status_code == 404
    assert "secret" not in response.text
    assert "immutable" not in response.headers.get("cache-control", "")


async def test_only_get_and_head_are_allowed(client: httpx.AsyncClient) -> None:
    assert (await client.post("/")).status_code == 405
    assert (await client.head("/")).status_code == 200


async def test_a_missing_build_gets_503_until_there_is_one(tmp_path: Path) -> None:
    async with _client(create_app(tmp_path / "dist")) as client:
        response = await client.get("/")
        assert response.status_code == 503
        assert "npm run build" in response.text
        assert response.headers["cache-control"] == "no-store"
        (tmp_path / "dist").mkdir()
        (tmp_path / "dist" / "index.html").write_text("built")
        assert (await client.get("/")).text == "built"


ADDRESSES = ["/c/conv-1", "/shared/t_1-x", "/sign-in", "/sign-up", "/account", "/usage", "/admin", "/admin/people"]


@pytest.mark.parametrize("path", ADDRESSES)
async def test_client_side_routes_are_the_page(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path)
    assert response.status_code == 200
    assert response.content == (await client.get("/")).content
    assert response.headers["cache-control"] == "no-cache"
    assert (await client.post(path)).status_code == 405


def test_server_and_page_have_the_same_routes() -> None:
    """The list of client-side routes exists in Python for the server and in TypeScript for the page."""
    written = (Path(__file__).parents[3] / "chat_ui" / "web" / "src" / "router" / "routes.ts").read_text()
    named = set(re.findall(r'case "([a-z-]+)":', written[written.index("function ofOne") :]))
    assert named | set(re.findall(r'name === "([a-z]+)"', written)) == page.CLIENT_ROUTES
