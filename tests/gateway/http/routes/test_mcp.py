"""`/v1/mcp` with the official client over HTTP: a real assistant's tools, listed, called, cancelled and billed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import mcp_types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from auth_billing.access.model_access import ALL_MODELS
from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from auth_billing.errors import InsufficientCredit
from router.messages import Usage, UsagePart
from tests.contract.examples import WEATHER_TOOL, msgspec_replace
from tests.fakes.assistant_process import ASSISTANT
from tests.fakes.scripted_worker import Script, draw, never, png, status
from tests.fakes.tool_installation import ToolInstallation, tool_installation
from tests.gateway.conftest import KEY, MODEL, Serve, Served, SetStage, Stage, eventually

TOOLS = ["image", "math", "weather", "web_page", "wikipedia"]
LEGACY, MODERN = "legacy", LATEST_MODERN_VERSION
BOTH = pytest.mark.parametrize("mode", [LEGACY, MODERN])


class Tools:
    """A served gateway with an assistant whose tools are on."""

    def __init__(self, served: Served, installation: ToolInstallation) -> None:
        self.served = served
        self.stage = served.stage
        self.installation = installation

    @asynccontextmanager
    async def client(self, mode: str = "auto", key: str = KEY) -> AsyncIterator[Client]:
        headers = {"authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(f"{self.served.url}/mcp", http_client=http), mode=mode, cache=None) as client,
        ):
            yield client

    async def post(self, body: Any, **headers: str) -> httpx2.Response:
        sent = {"authorization": f"Bearer {KEY}", "accept": "application/json, text/event-stream", **headers}
        async with httpx2.AsyncClient(headers=sent, timeout=60, trust_env=False) as http:
            return await http.post(f"{self.served.url}/mcp", json=body)


Install = Callable[..., Awaitable[Tools]]


@pytest.fixture
async def install(serve: Serve, tmp_path: Path) -> AsyncIterator[Install]:
    async with AsyncExitStack() as stack:

        async def start(script: Script = draw, **settings: Any) -> Tools:
            served = await serve(**settings)
            gateway = served.stage.gateway
            started = tool_installation(served.stage.broker, gateway.objects, tmp_path, script=script)
            tools = Tools(served, await stack.enter_async_context(started))
            await eventually(lambda: [each.name for each in _listed(tools)] == TOOLS)
            return tools

        yield start


def _listed(tools: Tools) -> list[Any]:
    model = tools.stage.gateway.models.find("assistant")
    return [] if model is None else sorted(model.tools, key=lambda tool: tool.name)


def _text(result: mcp_types.CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, mcp_types.TextContent)
    return first.text


@BOTH
async def test_every_tool_is_listed_and_called(install: Install, mode: str) -> None:
    tools = await install()
    async with tools.client(mode) as client:
        assert client.protocol_version == (MODERN if mode == MODERN else LATEST_HANDSHAKE_VERSION)
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == TOOLS
        assert listed["weather"].input_schema["properties"]["place"]["type"] == "string"
        sums = await client.call_tool("math", {"operation": "evaluate", "expression": "15% * 240"})
        assert (_text(sums), sums.structured_content["result_text"], sums.is_error) == ("36", "36", False)
        weather = await client.call_tool("weather", {"place": "Gdańsku"})
        assert weather.structured_content["place"]["name"] == "Gdańsk"
        article = await client.call_tool("wikipedia", {"topic": "Mikołaj Kopernik"})
        assert (article.structured_content["type"], article.structured_content["language"]) == ("article", "pl")
        page = await client.call_tool("web_page", {"url": f"http://127.0.0.2:{tools.installation.site.port}/trains"})
        assert "23:10" in _text(page)
        image = await client.call_tool("image", {"prompt": "a cat in a hat"})
        link = image.content[1]
        assert isinstance(link, mcp_types.ResourceLink)
        assert [each["url"] for each in image.structured_content["images"]] == [link.uri] == [_text(image)]
        async with httpx2.AsyncClient(trust_env=False) as http:
            assert (await http.get(link.uri)).content == png(0)
    stage = tools.stage
    await eventually(lambda: len(stage.receipts) == 5)
    calls = {receipt.parts[0].model: receipt for receipt in stage.receipts}
    painted = UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"64x64": 1}))
    for name in TOOLS:
        [receipt] = [each for each in stage.receipts if f"tool.{name}" in {part.model for part in each.parts}]
        parts = [UsagePart(model=f"tool.{name}", usage=Usage(prompt_tokens=0, units={"call": 1}))]
        assert sorted(receipt.parts, key=str) == sorted(parts + [painted] * (name == "image"), key=str)
        assert receipt.usage == Usage(prompt_tokens=0)
        hold = stage.billing.held[receipt.job]
        assert hold.max_usage == Usage(prompt_tokens=0)
        assert {part.model for part in hold.max_parts} == {f"tool.{name}"} | ({"painter", "writer"} & _models(name))
    assert len(calls) == 5
    assert tools.installation.painter.jobs[0].tenant == "tenant-1"


def _models(tool: str) -> set[str]:
    return {"painter", "writer"} if tool == "image" else set()


@BOTH
async def test_errors_say_what_is_wrong(install: Install, mode: str) -> None:
    tools = await install()
    async with tools.client(mode) as client:
        failed = await client.call_tool("weather", {"place": "Nowhere at all"})
        assert failed.is_error
        assert "Nowhere at all" in _text(failed)
        for name, arguments, param in (
            ("math", {"operation": "evaluate"}, "params.arguments.expression"),
            ("math", {"operation": "guess", "expression": "1"}, "params.arguments.operation"),
            ("weather", {"place": "Gdańsk", "days": "many"}, "params.arguments.days"),
            ("calendar", {}, "params.name"),
        ):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, arguments)
            assert (refused.value.error.code, refused.value.error.data["param"]) == (-32602, param)
    await eventually(lambda: len(tools.stage.receipts) + len(tools.stage.billing.voided) >= 4)
    assert not any(receipt.parts for receipt in tools.stage.receipts)


@BOTH
async def test_a_cancelled_call_is_cancelled_at_the_image_model_and_costs_nothing(install: Install, mode: str) -> None:
    tools = await install(never)
    painter = tools.installation.painter
    async with tools.client(mode) as client:
        call = asyncio.create_task(client.call_tool("image", {"prompt": "a cat"}))
        await eventually(lambda: bool(painter.jobs))
        await asyncio.sleep(1.5)  # longer than the status line waits: the answer is a stream by now
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(lambda: painter.cancel_of(painter.jobs[0].id).is_set())
        assert _text(await client.call_tool("math", {"operation": "evaluate", "expression": "2+2"})) == "4"
    await eventually(lambda: len(tools.stage.receipts) == 2)
    assert [receipt.parts for receipt in tools.stage.receipts if not receipt.parts] == [[]]
    await eventually(lambda: len(tools.stage.gateway.tool_calls) == 0)


async def test_ids_of_a_session_name_one_running_call_each(install: Install) -> None:
    tools = await install(never)
    painter, session = tools.installation.painter, {"mcp-session-id": "session-1"}

    def call(request_id: Any, prompt: str) -> asyncio.Task[httpx2.Response]:
        body = message("tools/call", request_id, name="image", arguments={"prompt": prompt})
        return asyncio.create_task(tools.post(body, **session, accept="application/json"))

    async def cancel(request_id: Any) -> None:
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
        assert (await tools.post(body, **session)).status_code == 202

    running = {name: call(name, f"cat {name!r}") for name in (0, "", 1)}
    await eventually(lambda: len(painter.jobs) == 3)
    held = len(tools.stage.billing.held)
    refused = await call(1, "another cat")
    assert (refused.status_code, refused.json()["id"], refused.json()["error"]["code"]) == (400, 1, -32600)
    assert (len(painter.jobs), len(tools.stage.billing.held)) == (3, held)
    await cancel(True)
    for name in ("", 0, 1):
        assert not any(task.done() for task in running.values())
        await cancel(name)
        await asyncio.wait({running.pop(name)})
    await eventually(lambda: len(tools.stage.gateway.tool_calls) == 0)


# Without an assistant's process: messages, headers, limits and rights.


@pytest.fixture
async def stage(set_stage: SetStage) -> Stage:
    stage = await set_stage()
    stage.gateway.models.observe(msgspec_replace(status(ASSISTANT, "worker-a"), tools=[WEATHER_TOOL]))
    return stage


async def exchange(stage: Stage, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return await stage.client.post("/v1/mcp", content=content, headers=named)


def message(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0"}', 400, -32700),
        (b"[" * 70, 400, -32700),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', 400, -32700),
        ([], 400, -32600),
        ([message("ping")], 400, -32600),
        (message("ping", None), 400, -32600),
        (message("ping", True), 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, 400, -32600),
        ({**message("ping"), "params": []}, 400, -32600),
        (message("resources/list"), 200, -32601),
        (message("tools/call"), 200, -32602),
        (message("tools/call", name=1), 200, -32602),
        (message("tools/call", name="weather", arguments=[]), 200, -32602),
        (message("tools/call", name="mcp.shop.search", arguments={}), 200, -32602),
        (message("tools/list", cursor="x"), 200, -32602),
        (message("initialize"), 200, -32602),
    ],
)
async def test_messages_that_are_not_valid_are_refused(stage: Stage, body: Any, status: int, code: int) -> None:
    answer = await exchange(stage, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["id"] == (1 if status == 200 else None)
    assert not stage.billing.held


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [("initialize", {}, 404, -32601), ("tools/call", {"name": "calendar"}, 400, -32602)],
)
async def test_current_versions_have_http_statuses_of_their_own(
    stage: Stage, method: str, params: dict[str, Any], status: int, code: int
) -> None:
    meta = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}
    named = {"mcp_name": params["name"]} if "name" in params else {}
    body = message(method, **params, _meta=meta)
    answer = await exchange(stage, body, mcp_protocol_version=LATEST_MODERN_VERSION, mcp_method=method, **named)
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (status, code, 1)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://gateway"}, 403),
        ({"origin": "http://attacker.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_encoding": "gzip"}, 415),
        ({"mcp_protocol_version": "2099-01-01"}, 400),
    ],
)
async def test_headers_that_are_not_valid_are_refused(stage: Stage, headers: dict[str, str], status: int) -> None:
    answer = await exchange(stage, message("tools/list"), **headers)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] in (-32600, -32602)


async def test_a_message_has_a_length(stage: Stage) -> None:
    answer = await exchange(stage, message("tools/call", name="weather", arguments={"place": "x" * 2**16}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, -32600)


async def test_notifications_have_no_answer_and_other_methods_of_http_are_refused(stage: Stage) -> None:
    for method in ("notifications/initialized", "notifications/cancelled", "notifications/unknown"):
        answer = await exchange(stage, {"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}})
        assert (answer.status_code, answer.content) == (202, b"")
    for method in ("GET", "DELETE"):
        refused = await stage.client.request(method, "/v1/mcp", headers={"mcp-session-id": "x"})
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


async def test_a_key_with_the_right_to_chat_is_needed(stage: Stage) -> None:
    answer = await exchange(stage, message("tools/list"), authorization="")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    scopes = frozenset(Scope) - {Scope.CHAT_COMPLETIONS}
    stage.accounts.added["hr_live_no_chat"] = Principal("k", "t", "s", scopes=scopes)
    answer = await exchange(stage, message("tools/list"), authorization="Bearer hr_live_no_chat")
    assert answer.status_code == 403


async def test_only_tools_of_assistants_that_the_key_may_use_are_there(stage: Stage) -> None:
    listed = (await exchange(stage, message("tools/list"))).json()["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["weather"]
    access = ALL_MODELS.restricted_to(frozenset({MODEL}))
    stage.accounts.added["hr_live_one_model"] = Principal("k", "t", "s", models=access)
    key = {"authorization": "Bearer hr_live_one_model"}
    assert (await exchange(stage, message("tools/list"), **key)).json()["result"]["tools"] == []
    call = message("tools/call", name="weather", arguments={"place": "Łódź"})
    assert (await exchange(stage, call, **key)).json()["error"]["code"] == -32602


async def test_limits_and_an_empty_account_are_errors_with_429(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_key="2 requests/minute")
    stage.gateway.models.observe(msgspec_replace(status(ASSISTANT, "worker-a"), tools=[WEATHER_TOOL]))
    stage.billing.refusal = InsufficientCredit(needed=5, available=0)
    call = message("tools/call", name="weather", arguments={"place": "Łódź"})
    codes = []
    for _ in range(3):
        answer = await exchange(stage, call)
        assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (429, -32005, 1)
        codes.append(answer.json()["error"]["data"]["code"])
    assert codes == ["insufficient_quota", "insufficient_quota", "rate_limit_exceeded"]
    assert answer.json()["error"]["data"]["retry_after"] == int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("method", ["tools/list", "initialize", "ping", "resources/list"])
async def test_every_request_counts_towards_the_limits_and_no_notification(set_stage: SetStage, method: str) -> None:
    stage = await set_stage(limits_per_key="2 requests/minute")
    statuses = [(await exchange(stage, message(method))).status_code for _ in range(3)]
    assert 429 not in statuses[:2]
    assert statuses[2] == 429
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert (await exchange(stage, cancelled)).status_code == 202
