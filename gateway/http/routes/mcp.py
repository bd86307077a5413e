"""Route of `POST /v1/mcp`: lists and calls assistants' tools for clients of the Model Context Protocol.

It keeps no sessions: any gateway answers any message. A tool call is a job for an assistant, so that limits, holds and
bills are those of a chat completion. Every error but that of the API key is answered in JSON-RPC.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar

import structlog
from fastapi import APIRouter, Request, Response, Security
from mcp_types import EmptyResult
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from gateway.answers.collection import collect
from gateway.answers.event_frames import compact, frame
from gateway.errors import ClientDisconnected, InvalidRequest, Overloaded
from gateway.http import rate_limits
from gateway.http.api_documentation import document_route
from gateway.http.authentication import ApiKeySecurity
from gateway.http.dialect import EVENT_STREAM, Dialect
from gateway.http.gateway import Gateway, gateway_of
from gateway.http.http_errors import error_body, error_headers, http_error
from gateway.http.job_submission import submit
from gateway.http.routes.blobs import address_of
from gateway.http.sse import EventStream
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_tool_call_job
from gateway.mcp import protocol, tools
from gateway.mcp.messages import (
    CallParams,
    InitializeParams,
    ListParams,
    McpError,
    McpRequest,
    McpResponse,
    RequestId,
    error_response,
    response,
)
from gateway.mcp.running_calls import CallKey
from gateway.openai.base import RequestBody
from gateway.openai.error import ErrorBody
from router.messages import FailureCode
from router.producer.errors import JobFailed
from runtime import strict_json
from runtime.strict_json import MalformedRequest

MAX_BODY_BYTES = 64 * 1024
"""Most bytes of a message: an assistant takes at most 16 KiB of arguments."""
LIMITED = -32005
"""JSON-RPC code of a request that a limit or a budget refuses, from the range that servers may define."""

_log = structlog.get_logger(__name__)
_Caller = Annotated[Principal, Security(ApiKeySecurity(Scope.CHAT_COMPLETIONS))]

P = TypeVar("P", bound=RequestBody)

router = APIRouter()

_DIALECT = Dialect(done="")
_DOCUMENTED = document_route(McpResponse, body=McpRequest)
_DOCUMENTED["responses"] |= {
    202: {"description": "The notification was accepted"},
    "4XX": {"model": McpResponse | ErrorBody, "description": "Error of the request; that of a key in OpenAI's format"},
    "5XX": {"model": McpResponse | ErrorBody, "description": "Error of the service"},
}


class _Exchange(NamedTuple):
    """One MCP message with the HTTP request, caller and protocol version that its answer needs."""

    request: Request
    caller: Principal
    message: McpRequest
    version: str

    @property
    def gateway(self) -> Gateway:
        """The gateway that answers the message."""
        return gateway_of(self.request)

    @property
    def id(self) -> RequestId:
        """JSON-RPC id of the message, which must be a request, not a notification."""
        if self.message.id is None:
            raise TypeError("a notification has no id")
        return self.message.id

    def call_key(self, request_id: RequestId) -> CallKey:
        """Return the identity of this client's tool call with the JSON-RPC id `request_id`."""
        return CallKey(self.caller.key_id, self.request.headers.get(protocol.SESSION_HEADER, "")[:256], request_id)


@router.post("/v1/mcp", **_DOCUMENTED)
async def exchange_mcp_messages(request: Request, caller: _Caller) -> Response:
    """Answer a message of the Model Context Protocol: list the assistants' tools, or call one (`POST /v1/mcp`)."""
    message: McpRequest | None = None
    version = LATEST_MODERN_VERSION  # until it is known: errors have HTTP statuses of their own
    try:
        message = await _read(request)
        version = protocol.version_of(request.headers, message)
        exchange = _Exchange(request, caller, message, version)
        if message.is_notification:
            return _take_notification(exchange)
        return await _answer(exchange)
    except Exception as error:  # noqa: BLE001 - the error table translates every one
        if isinstance(error, Overloaded):
            gateway_of(request).metrics.overloaded.labels(error.reason).inc()
        return _refusal(error, None if message is None else message.id, version)


async def _read(request: Request) -> McpRequest:
    """Read and check a message.

    Raises:
        McpError: The request comes from a web page, or the message is no JSON-RPC request or notification.
        BrokerDown, Overloaded, MalformedRequest: As for other routes.
    """
    if "origin" in request.headers:
        # No web page may call tools: DNS rebinding lets another site's page have this server's name.
        raise McpError(INVALID_REQUEST, "Requests of web pages are not accepted: Origin.", status=403)
    gateway = gateway_of(request)
    gateway.protection.check()
    limit = min(MAX_BODY_BYTES, gateway.settings.max_body_bytes)
    strict_json.check_headers(request.headers, limit)
    raw = await strict_json.read_body(request.stream(), limit, gateway.settings.body_timeout)
    try:
        message = await strict_json.parse(raw, McpRequest.parse)
    except InvalidRequest as error:
        raise McpError(INVALID_REQUEST, f"Not one JSON-RPC message: {error}", data={"param": error.param}) from error
    if message.id is None and not message.is_notification:
        raise McpError(INVALID_REQUEST, "The id of a request is a string or an integer.", data={"param": "id"})
    return message


def _take_notification(exchange: _Exchange) -> Response:
    """Accept a notification; one that cancels a call of the client's session ends it."""
    params = exchange.message.params or {}
    cancelled = params.get("requestId")
    if exchange.message.method != "notifications/cancelled" or isinstance(cancelled, bool):  # true equals 1
        return Response(status_code=202)
    if isinstance(cancelled, int | str):
        exchange.gateway.tool_calls.cancel(exchange.call_key(cancelled))
    return Response(status_code=202)


async def _answer(exchange: _Exchange) -> Response:
    # Notifications are not counted: a call that holds the last slot must be possible to cancel.
    await rate_limits.enter(exchange.request, exchange.caller)
    method, params = exchange.message.method, exchange.message.params or {}
    if not protocol.has_method(method, exchange.version):
        raise McpError(METHOD_NOT_FOUND, f"Method not found: {method}", status=404)
    match method:
        case "initialize":
            result = protocol.initialized(_params(InitializeParams, params))
            return _result(exchange, result, headers={protocol.SESSION_HEADER: uuid.uuid4().hex})
        case "server/discover":
            return _result(exchange, protocol.discovered())
        case "tools/list":
            if _params(ListParams, params).cursor is not None:
                raise McpError(INVALID_PARAMS, "The list has one page: there is no such cursor.")
            return _result(exchange, tools.listed(_offered(exchange)))
        case "tools/call":
            return await _call(exchange, _params(CallParams, params))
    return _result(exchange, EmptyResult())


def _params(kind: type[P], params: dict[str, Any]) -> P:
    try:
        return kind.parse(params)
    except InvalidRequest as error:
        raise McpError(INVALID_PARAMS, str(error), data={"param": f"params.{error.param}"}) from error


def _offered(exchange: _Exchange) -> tools.Offered:
    return tools.offered(model for _, model in exchange.gateway.catalogue.listed(exchange.caller.models))


async def _call(exchange: _Exchange, params: CallParams) -> Response:
    """Have an assistant call a tool; answer as a stream if that takes long, so that the connection stays open."""
    request, gateway = exchange.request, exchange.gateway
    found = _offered(exchange).get(params.name)
    if found is None:
        raise McpError(INVALID_PARAMS, f"Unknown tool: {params.name}", data={"param": "params.name"})
    calls, key = gateway.tool_calls, exchange.call_key(exchange.id)
    with ExitStack() as unless_submitted:
        calls.add(key)
        unless_submitted.callback(calls.remove, key)
        admitted = await gateway.admission.admit_tool_call(exchange.caller, found[0].name)
        job = build_tool_call_job(params.name, params.arguments or {}, admitted, Origin.of(gateway.settings))
        async with submit(request, gateway, admitted, [job], streamed=False) as generation:
            calls.submitted(key, generation.abandon)
            collecting = asyncio.create_task(_collected(exchange, generation))
            collecting.add_done_callback(lambda _: calls.remove(key))
            unless_submitted.pop_all()
            try:
                wait = None if EVENT_STREAM not in request.headers.get("accept", "") else gateway.settings.header_delay
                await asyncio.wait({collecting}, timeout=wait)
            except asyncio.CancelledError:
                collecting.cancel()
                raise
            if not collecting.done():
                return EventStream(gateway, generation, _late_result(exchange, collecting), _DIALECT)
            return _json(await collecting)


async def _collected(exchange: _Exchange, generation: Generation) -> dict[str, Any]:
    """Wait for the result of a submitted call; return the response to it."""
    [choice] = await collect(generation)
    address = partial(address_of, exchange.request)
    done = tools.called(choice.steps, "".join(choice.text), address, exchange.version)
    return response(exchange.id, protocol.as_json("tools/call", exchange.version, done))


async def _late_result(exchange: _Exchange, collecting: asyncio.Task[dict[str, Any]]) -> AsyncIterator[str]:
    """Yield the one event of a stream: the result of a call, or its error."""
    try:
        yield frame(await collecting)
    except ClientDisconnected:
        raise
    except Exception as error:  # noqa: BLE001 - the status line is sent: the error is the event
        yield frame(error_response(exchange.id, _as_mcp_error(error)))
    finally:
        collecting.cancel()


def _result(exchange: _Exchange, result: BaseModel, headers: dict[str, str] | None = None) -> Response:
    method, version = exchange.message.method, exchange.version
    if method == "initialize":  # its version is the one that it has just agreed on
        version = str(getattr(result, "protocol_version", version))
    return _json(response(exchange.id, protocol.as_json(method, version, result)), headers=headers)


def _json(body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(compact(body), status, headers, media_type="application/json")


def _refusal(error: Exception, request_id: RequestId | None, version: str) -> Response:
    """Return the response to an error.

    Before 2026-07-28 clients read JSON-RPC errors about a request's method or parameters from responses with 200.
    """
    answer = _as_mcp_error(error)
    about_request = request_id is not None and answer.code in (METHOD_NOT_FOUND, INVALID_PARAMS)
    status = 200 if about_request and not protocol.is_modern(version) else answer.status
    headers = {} if isinstance(error, McpError) else error_headers(error)
    return _json(error_response(request_id, answer), status, headers)


def _as_mcp_error(error: Exception) -> McpError:
    """Return an error as one of JSON-RPC, with the fields of OpenAI's error body and of `Retry-After` as its data."""
    if isinstance(error, McpError):
        return error
    row, body, headers = http_error(error), error_body(error)["error"], error_headers(error)
    if row.status == 500:
        _log.error("mcp call failed", exc_info=error)
    data = {"type": body["type"], "code": body["code"], "status": row.status}
    if (seconds := headers.get("retry-after")) is not None:
        data["retry_after"] = int(seconds)
    code = LIMITED if row.status == 429 else INTERNAL_ERROR
    if isinstance(error, MalformedRequest):
        code = PARSE_ERROR if row.status == 400 else INVALID_REQUEST
    if isinstance(error, JobFailed) and error.failure is FailureCode.INVALID_PARAMETER:
        code, name = INVALID_PARAMS, error.param or "arguments"
        data["param"] = f"params.{name}" if name in ("name", "arguments") else f"params.arguments.{name}"
    return McpError(code, body["message"], data=data, status=row.status)
