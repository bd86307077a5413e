"""Handles the versions of the Model Context Protocol at `/v1/mcp`: negotiation, headers, fields of results.

Up to 2025-11-25 a client agrees on a version by `initialize`; since 2026-07-28 each request states its version in a
header and in `_meta`. Both need no state here. Source: https://modelcontextprotocol.io/specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    DiscoverResult,
    Implementation,
    InitializeResult,
    ServerCapabilities,
    ToolsCapability,
)
from mcp_types.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.methods import SERVER_RESULTS, serialize_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from starlette.datastructures import Headers

from gateway.mcp.messages import InitializeParams, McpError, McpRequest

VERSION_HEADER = "mcp-protocol-version"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"
SESSION_HEADER = "mcp-session-id"
DEFAULT_VERSION = "2025-03-26"
"""Version of a message without the header, as the specification says."""
_ENCODED = "=?base64?"
"""Beginning of the Mcp-Name of a name that is not ASCII, which no tool here has."""

_SERVER = Implementation(name="headrace", title="Headrace", version="1")
_CAPABILITIES = ServerCapabilities(tools=ToolsCapability(list_changed=False))


def is_modern(version: str) -> bool:
    """Return whether this MCP version states itself in each request, and has errors answered by HTTP statuses."""
    return version not in HANDSHAKE_PROTOCOL_VERSIONS


def version_of(headers: Headers, message: McpRequest) -> str:
    """Return the MCP version of a message, and check that the headers agree with the body where the version demands it.

    Raises:
        McpError: The version is not supported, or a header is missing, repeated or another one than the body says.
    """
    stated = headers.getlist(VERSION_HEADER)
    if len(stated) > 1:
        raise McpError(HEADER_MISMATCH, f"The header {VERSION_HEADER} is there twice.")
    version = stated[0] if stated else DEFAULT_VERSION
    if not is_modern(version):
        return version
    if not message.is_notification:
        _check_envelope(headers, message, version)
    if version not in MODERN_PROTOCOL_VERSIONS:
        data = {"supported": [*MODERN_PROTOCOL_VERSIONS], "requested": version[:64]}
        raise McpError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data=data)
    return version


def _check_envelope(headers: Headers, message: McpRequest, version: str) -> None:
    """Check `_meta` of a request and the headers that repeat its method and the tool's name."""
    params = message.params or {}
    meta = params.get("_meta")
    required = (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY)
    if not isinstance(meta, dict) or any(key not in meta for key in required):
        raise McpError(INVALID_PARAMS, f"params._meta needs {' and '.join(required)}.", data={"param": "params._meta"})
    expected: list[tuple[str, Any, Sequence[str]]] = [
        (VERSION_HEADER, meta[PROTOCOL_VERSION_META_KEY], [version]),
        (METHOD_HEADER, message.method, headers.getlist(METHOD_HEADER)),
    ]
    names = headers.getlist(NAME_HEADER)
    if message.method == "tools/call" and not (len(names) == 1 and names[0].startswith(_ENCODED)):
        expected.append((NAME_HEADER, params.get("name"), names))
    for header, value, sent in expected:
        if list(sent) != [value]:
            raise McpError(HEADER_MISMATCH, f"The header {header} and the request's body disagree.")


def has_method(method: str, version: str) -> bool:
    """Return whether this server answers requests of this method in this MCP version."""
    return (method, version) in SERVER_RESULTS and method in (
        "initialize",
        "ping",
        "server/discover",
        "tools/call",
        "tools/list",
    )


def initialized(params: InitializeParams) -> InitializeResult:
    """Build the result of MCP's `initialize`: the client's version if supported, else the latest with a handshake."""
    requested = params.protocol_version
    version = requested if requested in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
    return InitializeResult(protocol_version=version, capabilities=_CAPABILITIES, server_info=_SERVER)


def discovered() -> DiscoverResult:
    """Build the result of MCP's `server/discover`: supported versions and capabilities."""
    return DiscoverResult(supported_versions=[*MODERN_PROTOCOL_VERSIONS], capabilities=_CAPABILITIES)


def as_json(method: str, version: str, result: BaseModel) -> dict[str, Any]:
    """Return an MCP result as JSON values, with the fields that results of `method` have in `version`."""
    written = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    sieved = serialize_server_result(method, version, written)
    if is_modern(version):
        server = _SERVER.model_dump(mode="json", by_alias=True, exclude_none=True)
        sieved["_meta"] = {**sieved.get("_meta", {}), SERVER_INFO_META_KEY: server}
    return sieved
