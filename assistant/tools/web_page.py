"""The web page tool of the assistant: reads the text of one page whose address is in the person's own message.

A model can't choose the address, so neither a page nor a tool's result can have another address fetched, with data of
the conversation in it or without. Operators switch the tool on; it is off by default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from assistant.tools.delimited import clean, delimited
from assistant.tools.http_client import Fetched, HttpClient, checked_url
from assistant.tools.page_text import PageReader
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, NotFound, Refused, ToolContext, ToolError, Unavailable
from router.fair_slots import FairSlots

HTML = ("text/html", "application/xhtml+xml")
TEXT = ("text/plain", "text/markdown")
MAX_BYTES = 1024 * 1024
MAX_TEXT = 20_000
"""Characters of a page in a result."""
MAX_FOR_MODEL = 8000
MAX_QUESTION = 20_000
MAX_URLS = 20
MAX_TITLE = 300
MAX_FETCHES = 10
"""Pages fetched at the same time: half of the connections of the tools, so that slow servers leave some."""
FETCHES_OF_TENANT, FETCHES_OF_REQUESTER = 6, 2
"""Of them at most of one tenant, and of one requester."""

_URL = re.compile(r"\bhttps?://[^\s<>\"'`{}|\\^„”“’]+", re.IGNORECASE)
_BARE = re.compile(
    r"(?<![\w@./:-])(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,4}(?:com|org|net|edu|gov|io|dev|eu|pl|de|fr|uk|info|ai|app)"
    r"(?![\w@-])(?:/[^\s<>\"'`{}|\\^„”“’]*)?",
    re.IGNORECASE,
)
_NOT_NAMED = Sentence(
    "Only pages whose address is in your own message are opened.",
    "Otwierane są tylko strony, których adres jest w Twojej wiadomości.",
)
_NO_URL = Sentence("Which page? The message contains no address.", "Która strona? Wiadomość nie zawiera adresu.")
_MISSING = Sentence("The page does not exist (status {status}).", "Strona nie istnieje (status {status}).")
_FORBIDDEN = Sentence(
    "The page may not be read without signing in (status {status}).",
    "Strony nie można czytać bez zalogowania (status {status}).",
)
_FAILED = Sentence("The page can't be loaded (status {status}).", "Nie można wczytać strony (status {status}).")
_EMPTY = Sentence("The page contains no text.", "Strona nie zawiera tekstu.")


class WebPage:
    """The web page tool. Close it at the end.

    Args:
        http: the client that fetches pages.
        now: current time, in UTC.
    """

    name = "web_page"
    description = (
        "Text of one web page. Call it only if the person's message contains the page's address, and pass that address "
        "unchanged."
    )
    time_limit = 20.0
    cache_seconds = 0.0
    """Results are not reused: whether an address may be opened depends on the person's message."""

    def __init__(self, http: HttpClient, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._http = http
        self._now = now
        self._reader = PageReader()
        self._slots = FairSlots(MAX_FETCHES, per_tenant=FETCHES_OF_TENANT, per_requester=FETCHES_OF_REQUESTER)

    def close(self) -> None:
        """End the sandboxed processes that read pages."""
        self._reader.close()

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the web page tool's arguments: the address."""
        url = {"type": "string", "minLength": 4, "maxLength": 2048, "description": "Address in the person's message"}
        return {"type": "object", "properties": {"url": url}, "required": ["url"], "additionalProperties": False}

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return the web page tool's arguments for a question: the first address in it; `None` if it contains none."""
        found = addresses(question)
        return {"url": found[0]} if found else None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Fetch the page at the address of `arguments`; return its title and text, a JSON object of the type `page`.

        Raises:
            Refused: the address is not in the person's message, or leads to a private network.
            ToolError: the page can't be fetched or read.
        """
        url = arguments.get("url")
        if not isinstance(url, str):
            raise InvalidArguments(_NO_URL)
        named = {_comparable(each): each for each in addresses(context.question)}
        wanted = named.get(_comparable(_with_scheme(url)))
        if wanted is None:
            raise Refused(_NOT_NAMED)
        async with self._slots.hold(context.tenant, context.requester):
            fetched = await self._http.fetch(
                wanted, media_types=(*HTML, *TEXT), max_bytes=MAX_BYTES, time_limit=10.0, max_redirects=3
            )
        _check_status(fetched.status)
        title, text = await self._title_and_text(fetched, context)
        if not text:
            raise NotFound(_EMPTY)
        host = urlsplit(fetched.url).hostname or ""
        return {
            "type": "page",
            "title": clean(title)[:MAX_TITLE] or host,
            "url": fetched.url,
            "text": clean(text)[:MAX_TEXT],
            "fetched_at": self._now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "source": {"name": host, "url": fetched.url, "licence": ""},
        }

    async def _title_and_text(self, fetched: Fetched, context: ToolContext) -> tuple[str, str]:
        text = fetched.text()
        return await self._reader.read(text, context) if fetched.media_type in HTML else ("", text.strip())

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return `None`: only a model can find in the page what the question asks, so it must phrase the answer."""
        return None

    def for_model(self, result: dict[str, Any]) -> str:
        """Return the text of a page as a delimited block of data for the answering model."""
        return delimited("web page", [f"Title: {result['title']}", result["text"]], MAX_FOR_MODEL)


def addresses(message: str) -> list[str]:
    """Return the web addresses in a message, in order: with http:// or https://, or without if the domain is common."""
    text = message[:MAX_QUESTION]
    whole = list(_URL.finditer(text))
    bare = [
        match for match in _BARE.finditer(text) if not any(each.start() <= match.start() < each.end() for each in whole)
    ]
    found = [(each.start(), _trimmed(each[0])) for each in whole]
    found += [(each.start(), f"https://{_trimmed(each[0])}") for each in bare]
    return list(dict.fromkeys(address for _, address in sorted(found)))[:MAX_URLS]


def _trimmed(address: str) -> str:
    """Return an address without the punctuation of the sentence around it."""
    address = address.rstrip(".,;:!?…*_~")
    while address.endswith((")", "]")) and _unbalanced(address):
        address = address[:-1].rstrip(".,;:!?")
    return address


def _unbalanced(address: str) -> bool:
    opening = {")": "(", "]": "["}[address[-1]]
    return address.count(address[-1]) > address.count(opening)


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"https://{url}"


def _comparable(url: str) -> str:
    """Return an address in the form in which addresses are compared; malformed ones compare equal to none."""
    try:
        checked = checked_url(url)
    except ToolError:
        return f"malformed {url}"
    return str(checked).rstrip("/")


def _check_status(status: int) -> None:
    if status in (401, 403, 407, 451):
        raise Refused(_FORBIDDEN, status=status)
    if status in (404, 410):
        raise NotFound(_MISSING, status=status)
    if status != 200:
        raise Unavailable(_FAILED, status=status)
