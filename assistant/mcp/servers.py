"""Connects the assistant to MCP servers of its catalogue, adds their tools, switches off changed or unapproved ones.

A tool is added to the toolbox as its server first describes it, and keeps this description while the process runs. Once
its server describes it in another way, it is off until the operator approves the new description. A tool that no person
has to allow is off until the operator has approved a description, so that a restart approves none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types
import structlog
from mcp import Client, MCPError

from assistant.catalogue import McpSpec
from assistant.mcp.definition import Definition, DefinitionRefused, definition, listed
from assistant.mcp.tool import McpTool, tool_name
from assistant.mcp.transports import open_client
from assistant.tools.http_client import checked_url
from assistant.tools.public_addresses import AddressPolicy
from assistant.tools.sentences import Sentence
from assistant.tools.tool import ToolError, Unavailable
from assistant.tools.toolbox import Toolbox
from runtime.lifecycle import StartupError

CONNECT_LIMIT = 10.0
"""Seconds for connecting and listing the tools."""
START_WAIT = 10.0
"""Seconds that the assistant's start waits for the first lists of tools; later ones are added when they come."""
CHECK_SECONDS = 60.0
"""Seconds between two lists of a connected server's tools."""
FIRST_RETRY, LAST_RETRY = 1.0, 60.0
"""Seconds between attempts to connect; they double."""

NOT_CONNECTED = Sentence(
    "The server of “{tool}” has not answered yet.",
    "Serwer narzędzia „{tool}” jeszcze nie odpowiedział.",
)
NOT_LISTED = Sentence(
    "The server of “{tool}” does not have this tool.",
    "Serwer narzędzia „{tool}” nie ma takiego narzędzia.",
)
CHANGED = Sentence(
    "The server describes “{tool}” differently than the operator approved. It is off until the operator approves it.",
    "Serwer opisuje narzędzie „{tool}” inaczej, niż zatwierdził operator. Jest wyłączone do ponownego zatwierdzenia.",
)
NOT_APPROVED = Sentence(
    "The operator has not approved the description of “{tool}” yet.",
    "Operator nie zatwierdził jeszcze opisu narzędzia „{tool}”.",
)
TOO_LARGE = Sentence(
    "The description of “{tool}” exceeds the limits of this installation.",
    "Opis narzędzia „{tool}” przekracza limity tej instalacji.",
)
NO_ANSWER = Sentence(
    "The server “{server}” does not answer at the moment. Please try again later.",
    "Serwer „{server}” chwilowo nie odpowiada. Spróbuj ponownie później.",
)

_log = structlog.get_logger(__name__)


class McpServer:
    """The connection to one server, and its tools in a toolbox. `run` connects until it is cancelled."""

    def __init__(self, name: str, spec: McpSpec, secrets: Mapping[str, str], toolbox: Toolbox) -> None:
        """`secrets` are the values of the environment variables that `spec` names."""
        self._name = name
        self._spec = spec
        self._secrets = secrets
        self._toolbox = toolbox
        self._approved = dict(spec.fingerprints)
        self._client: Client | None = None
        self._check = asyncio.Event()
        self._closing = asyncio.Event()
        self.listed = asyncio.Event()
        """Set once the server has listed its tools."""
        for tool in spec.tools:
            toolbox.switch_off(tool_name(name, tool), NOT_CONNECTED)

    async def run(self) -> None:
        """Stay connected to the MCP server until `close`: list its tools periodically, reconnect after an error.

        A background task. Switches the server's tools in the toolbox on and off with each list.
        """
        delay = FIRST_RETRY
        while not self._closing.is_set():
            self.listed.clear()
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001 - the library's errors, its transports', and groups of them
                _log.warning("mcp server is not connected", server=self._name, reason=_reason(error))
            finally:
                self._client = None
            delay = FIRST_RETRY if self.listed.is_set() else min(2 * delay, LAST_RETRY)
            await _within(delay, self._closing.wait())

    def close(self) -> None:
        """Let `run` end instead of connecting to the MCP server again.

        Needed beside a cancellation of `run`, which the library can lose while it closes a broken connection.
        """
        self._closing.set()

    async def call(self, tool: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        """Call the tool `tool` of the MCP server and return its result; never repeated, since a call may have effects.

        Raises:
            Unavailable: the server is not connected, broke the connection, or answered by a protocol error.
        """
        if self._client is None:
            raise Unavailable(NO_ANSWER, server=self._name)
        try:
            return await self._client.call_tool(tool, arguments)
        except Exception as error:
            self._check.set()
            _log.warning("mcp call failed", server=self._name, tool=tool, reason=_reason(error))
            raise Unavailable(NO_ANSWER, server=self._name) from error

    async def _serve(self) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(CONNECT_LIMIT):
                client = await stack.enter_async_context(open_client(self._spec, self._secrets))
                self._take(await listed(client))
            self._client = client
            self.listed.set()
            while True:
                await _within(CHECK_SECONDS, self._check.wait())
                self._check.clear()
                async with asyncio.timeout(CONNECT_LIMIT):
                    self._take(await listed(client))

    def _take(self, tools: Mapping[str, mcp_types.Tool]) -> None:
        """Switch the permitted tools on, or off with a reason."""
        for name in self._spec.tools:
            full = tool_name(self._name, name)
            if name not in tools:
                self._toolbox.switch_off(full, NOT_LISTED)
                continue
            try:
                described = definition(tools[name])
            except DefinitionRefused as error:
                _log.warning("mcp tool is off", tool=full, reason=str(error))
                self._toolbox.switch_off(full, TOO_LARGE)
                continue
            self._offer(full, described)

    def _offer(self, full: str, described: Definition) -> None:
        asks = self._spec.consent == "person"  # by a consent that names the fingerprint
        if not asks and described.name not in self._approved:
            _log.warning("mcp tool is off: `fingerprints` lacks it", tool=full, fingerprint=described.fingerprint)
            self._toolbox.switch_off(full, NOT_APPROVED)
            return
        approved = self._approved.setdefault(described.name, described.fingerprint)
        if approved != described.fingerprint:
            _log.warning("mcp tool is off: its description changed", tool=full, fingerprint=described.fingerprint)
            self._toolbox.switch_off(full, CHANGED)
            return
        if self._toolbox.find(full) is None:
            _log.info("mcp tool", tool=full, fingerprint=described.fingerprint)
            self._toolbox.add(McpTool(self._name, described, asks, self._spec.time_limit, self.call))
        self._toolbox.switch_on(full)


@asynccontextmanager
async def open_servers(
    specs: Mapping[str, McpSpec], secrets: Mapping[str, str], toolbox: Toolbox
) -> AsyncIterator[list[McpServer]]:
    """Stay connected to all MCP servers in `specs` while the context lasts, and add their tools to `toolbox`.

    A context manager that waits a few seconds for the first lists of tools, and yields the connections.

    Raises:
        StartupError: an address or a permitted network is malformed, or not permitted to anyone.
    """
    for name, spec in specs.items():
        _check_address(name, spec)
    servers = [McpServer(name, spec, secrets, toolbox) for name, spec in specs.items()]
    running = [asyncio.create_task(server.run()) for server in servers]
    try:
        await _within(START_WAIT, asyncio.gather(*(server.listed.wait() for server in servers)))
        yield servers
    finally:
        for server, task in zip(servers, running, strict=True):
            server.close()
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _check_address(name: str, spec: McpSpec) -> None:
    try:
        AddressPolicy(spec.permitted_networks)
        if spec.url is not None:
            checked_url(spec.url)
    except (ValueError, ToolError) as error:
        raise StartupError(f"mcp.{name}: {error}") from error


async def _within(seconds: float, wait: Awaitable[object]) -> None:
    """Wait, but no longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await wait
    except TimeoutError:
        return


def _reason(error: BaseException) -> str:
    """Return the first error of a group as a line; addresses in it can't contain secrets, which are in headers only."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error) if isinstance(error, MCPError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300]
