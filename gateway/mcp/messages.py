"""JSON-RPC messages and errors of the Model Context Protocol, as the gateway's `/v1/mcp` receives and sends them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp_types import JSONRPCError, JSONRPCResponse
from mcp_types.jsonrpc import ErrorData
from pydantic import Field, StringConstraints

from gateway.openai.base import ApiModel, OmitIfNone, RequestBody

RequestId = int | Annotated[str, StringConstraints(max_length=256)]


class McpError(Exception):
    """Raised for a message that is answered by a JSON-RPC error; the client gets the message and `data`."""

    def __init__(self, code: int, message: str, *, data: dict[str, Any] | None = None, status: int = 400) -> None:
        """`code` is that of JSON-RPC; `status` the HTTP status where the protocol's version maps errors to it."""
        super().__init__(message)
        self.code = code
        self.data = data
        self.status = status


class McpRequest(RequestBody):
    """A JSON-RPC request or, without `id`, a notification of an MCP client."""

    jsonrpc: Literal["2.0"]
    id: OmitIfNone[RequestId] = None
    """Repeated in the response; a message without it is a notification, which has no response."""
    method: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    """`initialize`, `server/discover`, `ping`, `tools/list` or `tools/call`."""
    params: OmitIfNone[dict[str, Any]] = None

    @property
    def is_notification(self) -> bool:
        """Whether the message is a notification (it has no id), so that it gets no response."""
        return "id" not in self.model_fields_set


class McpResponse(ApiModel):
    """A JSON-RPC response: the result of a request, or its error."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None
    result: OmitIfNone[dict[str, Any]] = None
    error: OmitIfNone[dict[str, Any]] = None


class InitializeParams(RequestBody):
    """Parameters of `initialize`."""

    protocol_version: Annotated[str, StringConstraints(max_length=64), Field(alias="protocolVersion")]
    capabilities: dict[str, Any]
    client_info: Annotated[dict[str, Any], Field(alias="clientInfo")]


class ListParams(RequestBody):
    """Parameters of `tools/list`."""

    cursor: str | None = None


class CallParams(RequestBody):
    """Parameters of `tools/call`."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    arguments: dict[str, Any] | None = None


def response(request_id: RequestId, result: dict[str, Any]) -> dict[str, Any]:
    """Build the JSON-RPC response with the `result` of the request that has the id `request_id`."""
    return JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result).model_dump()


def error_response(request_id: RequestId | None, error: McpError) -> dict[str, Any]:
    """Build the JSON-RPC response with the error of the request `request_id`; `None`: the message has no valid id."""
    data = ErrorData(code=error.code, message=str(error), data=error.data)
    body = JSONRPCError(jsonrpc="2.0", id=request_id, error=data).model_dump(exclude_none=True)
    return body | {"id": request_id}
