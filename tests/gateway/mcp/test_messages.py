"""JSON-RPC messages: what is one, and how answers and errors are written."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.mcp.messages import McpError, McpRequest, error_response, response


def test_a_message_without_id_is_a_notification() -> None:
    assert McpRequest.parse({"jsonrpc": "2.0", "method": "notifications/initialized"}).is_notification
    assert not McpRequest.parse({"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {}}).is_notification


@pytest.mark.parametrize(
    "value",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": {}, "method": "ping"},
        {"jsonrpc": "2.0", "id": "x" * 257, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []},
        {"jsonrpc": "2.0", "id": 1, "method": 1},
    ],
)
def test_other_values_are_no_messages(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        McpRequest.parse(value)


@pytest.mark.parametrize("request_id", [0, 7, "", "a"])
def test_answers_repeat_the_id(request_id: int | str) -> None:
    assert response(request_id, {"a": 1}) == {"jsonrpc": "2.0", "id": request_id, "result": {"a": 1}}


def test_errors_have_a_code_and_data() -> None:
    error = McpError(-32602, "No.", data={"param": "params.name"})
    assert error_response("a", error) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {"code": -32602, "message": "No.", "data": {"param": "params.name"}},
    }
    assert error_response(None, McpError(-32700, "No.")) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "No."},
    }
