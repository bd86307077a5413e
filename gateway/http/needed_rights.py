"""The rights that a request needs beyond its route's scope, read from its JSON, for callers that get another's answer.

A route checks these rights itself while it runs. It does not run for a request whose answer is stored, or which another
client has sent too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from gateway.errors import ScopeMissing
from gateway.http.gateway import Gateway
from gateway.openai.responses.tools import FILE_SEARCH, MAX_STORES
from gateway.vector_stores.access import find_store
from stored_objects.files.files import FILE_PREFIX

MODERATIONS, GENERATE = "/v1/moderations", "/api/generate"
"""Paths whose requests need a model or a scope that depends on their fields."""


@dataclass(frozen=True)
class NeededRights:
    """What the caller of one request has to be permitted; of a malformed request less, which its route refuses."""

    scopes: tuple[Scope, ...] = ()
    models: tuple[str, ...] = ()
    """Names or aliases of models."""
    moderates: bool = False
    """Whether the request is one for moderation."""
    classifier: str | None = None
    """Name of the model that such a request names, if any."""
    stores: tuple[str, ...] = ()
    """Ids of the vector stores that are searched."""

    async def check(self, gateway: Gateway, caller: Principal) -> None:
        """Refuse a caller for whom the route would not run.

        Raises:
            ScopeMissing: The caller's key lacks a scope.
            ModelNotFound, ModelUnavailable: The caller may not use a model, or may not use all and one is not served.
            DocumentNotFound, InvalidRequest: The caller may not read a vector store, or it has expired.
        """
        for scope in self.scopes:
            if not caller.may(scope):
                raise ScopeMissing(scope)
        for id in self.stores:
            await find_store(gateway, caller, id)
        if not caller.models.policies:
            return
        for name in self.models:
            gateway.catalogue.find(name, caller.models)
        if self.moderates:
            gateway.moderation.requested(self.classifier, caller.models)


def needed_rights(path: str, value: Any) -> NeededRights:
    """Return the rights that the request with the JSON `value` to the route at `path` needs."""
    if not isinstance(value, dict):
        return NeededRights()
    model = _text(value.get("model"))
    if path == MODERATIONS:
        return NeededRights(classifier=model, moderates=True)
    search = value.get("test_time_compute")
    verifier = _text(search.get("verifier")) if isinstance(search, dict) else None
    tool = _file_search(value)
    ids = tool.get("vector_store_ids")
    scopes = {
        Scope.COMPLETIONS: path == GENERATE and bool(value.get("prompt") and (value.get("raw") or value.get("suffix"))),
        Scope.FILES: bool(tool) or any(map(_is_project_file, _parts(value))),
        Scope.EMBEDDINGS: bool(tool),
    }
    return NeededRights(
        scopes=tuple(scope for scope, is_needed in scopes.items() if is_needed),
        models=tuple(name for name in (model, verifier) if name is not None),
        stores=tuple(each for each in ids[:MAX_STORES] if isinstance(each, str)) if isinstance(ids, list) else (),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a list of JSON values; none of another value."""
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def _file_search(request: dict[str, Any]) -> dict[str, Any]:
    """Return the file search among a request's tools; an empty one if there is none."""
    return next((tool for tool in _dicts(request.get("tools")) if tool.get("type") == FILE_SEARCH), {})


def _parts(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of the messages of a chat completion, or of the input items of a response."""
    for field in ("messages", "input"):
        for item in _dicts(request.get(field)):
            for content in ("content", "output"):
                yield from _dicts(item.get(content))


def _is_project_file(part: dict[str, Any]) -> bool:
    """Return whether a part of a message is a file of the project, by its id."""
    match part:
        case {"type": "file", "file": {"file_id": str()}}:
            return True
        case {"type": "input_file" | "input_image", "file_id": str()}:
            return True
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            return url.startswith(FILE_PREFIX)
    return False
