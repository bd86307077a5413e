"""Versions: what headers state, what `initialize` agrees on, and the fields that each version's results have."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import CallToolResult, EmptyResult, TextContent
from mcp_types.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION
from starlette.datastructures import Headers

from gateway.mcp import protocol
from gateway.mcp.messages import InitializeParams, McpError, McpRequest

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "math"}


def call(**params: Any) -> McpRequest:
    given = {"name": "math", "_meta": META, **params}
    return McpRequest.parse({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given})


def test_the_header_states_the_version() -> None:
    ping = McpRequest.parse({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert protocol.version_of(Headers({}), ping) == "2025-03-26"
    assert protocol.version_of(Headers({"mcp-protocol-version": "2025-06-18"}), ping) == "2025-06-18"
    assert protocol.version_of(Headers(HEADERS), call()) == MODERN
    encoded = {**HEADERS, "mcp-name": "=?base64?xYHDs2TFug==?="}
    assert protocol.version_of(Headers(encoded), call(name="Łódź")) == MODERN


@pytest.mark.parametrize(
    ("changes", "params", "code"),
    [
        ({"mcp-protocol-version": "2099-01-01"}, {}, HEADER_MISMATCH),
        ({"mcp-method": "tools/list"}, {}, HEADER_MISMATCH),
        ({"mcp-name": "weather"}, {}, HEADER_MISMATCH),
        ({}, {"_meta": None}, INVALID_PARAMS),
        ({}, {"_meta": {}}, INVALID_PARAMS),
        ({}, {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": 1}}, HEADER_MISMATCH),
        (
            {"mcp-protocol-version": "2099-01-01"},
            {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}},
            UNSUPPORTED_PROTOCOL_VERSION,
        ),
    ],
)
def test_headers_that_disagree_with_the_body_are_refused(
    changes: dict[str, str], params: dict[str, Any], code: int
) -> None:
    with pytest.raises(McpError) as refused:
        protocol.version_of(Headers({**HEADERS, **changes}), call(**params))
    assert refused.value.code == code


@pytest.mark.parametrize("header", ["mcp-protocol-version", "mcp-method", "mcp-name"])
def test_headers_that_are_there_twice_are_refused(header: str) -> None:
    raw = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    with pytest.raises(McpError) as refused:
        protocol.version_of(Headers(raw=[*raw, (header.encode(), HEADERS[header].encode())]), call())
    assert refused.value.code == HEADER_MISMATCH


@pytest.mark.parametrize(("asked", "agreed"), [("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25")])
def test_initialize_agrees_on_a_version(asked: str, agreed: str) -> None:
    params = InitializeParams.parse({"protocolVersion": asked, "capabilities": {}, "clientInfo": {}})
    assert protocol.initialized(params).protocol_version == agreed


def test_versions_have_their_methods() -> None:
    assert protocol.has_method("initialize", "2025-06-18")
    assert not protocol.has_method("initialize", MODERN)
    assert protocol.has_method("server/discover", MODERN)
    assert not protocol.has_method("resources/list", "2025-06-18")


def test_results_have_the_fields_of_their_version() -> None:
    result = CallToolResult(content=[TextContent(text="4")], structured_content={"a": 1})
    old = protocol.as_json("tools/call", "2025-06-18", result)
    assert (old["structuredContent"], "resultType" in old, "_meta" in old) == ({"a": 1}, False, False)
    new = protocol.as_json("tools/call", MODERN, result)
    assert (new["resultType"], new["_meta"]["io.modelcontextprotocol/serverInfo"]["name"]) == ("complete", "headrace")
    assert protocol.as_json("ping", "2025-06-18", EmptyResult()) == {}
    assert protocol.as_json("server/discover", MODERN, protocol.discovered())["supportedVersions"] == [MODERN]
