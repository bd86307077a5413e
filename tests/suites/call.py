"""A request of a suite, taken apart so that its literals can be replaced and refused fields be left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

JSON = "application/json"


def matcher(route: str) -> tuple[str, re.Pattern[str]]:
    """Return the method and the pattern of paths of a route such as `GET /v1/files/{file_id}`."""
    method, _, template = route.partition(" ")
    return method, re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template)))


@dataclass
class Call:
    """A request for `route`; its path has `ids` in the places of the route's names."""

    route: str
    ids: dict[str, str]
    query: list[tuple[str, str]]
    body: dict[str, Any] | None
    """The JSON body; `None`: the body is `content`."""
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """HTTP method."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """Path with the ids."""
        template = self.route.partition(" ")[2]
        return re.sub(r"\{(\w+)\}", lambda name: quote(self.ids[name[1]], safe=""), template)

    @property
    def payload(self) -> bytes:
        """Bytes of the body."""
        return self.content if self.body is None else json.dumps(self.body).encode()

    def parameter(self, name: str) -> str | None:
        """Return a query parameter."""
        return dict(self.query).get(name)

    def set_parameter(self, name: str, value: str) -> None:
        """Replace a query parameter, if the request has it."""
        self.query = [(each, value if each == name else old) for each, old in self.query]

    def leave_out(self, param: str) -> str | None:
        """Leave the field out that the error's `param` is about; return its name, `None` if the request lacks it."""
        name = re.split(r"[.\[]", param)[0]
        if self.body is not None and name in self.body:
            del self.body[name]
            return name
        kept = [(each, value) for each, value in self.query if re.split(r"[.\[]", each)[0] != name]
        found = len(kept) < len(self.query)
        self.query = kept
        return name if found else None


def call_of(
    routes: Iterable[str], method: str, path: str, query: list[tuple[str, str]], content: bytes, headers: dict[str, str]
) -> Call:
    """Return the call of the first route that matches; if none does, the path itself is the route."""
    body = json.loads(content) if content and headers.get("content-type", "").startswith(JSON) else None
    for route in routes:
        wanted, pattern = matcher(route)
        if wanted == method and (found := pattern.fullmatch(path)) is not None:
            return Call(route, found.groupdict(), query, body, content, headers)
    return Call(f"{method} {path}", {}, query, body, content, headers)
