"""Adapts a tool of an MCP server to the assistant's tools, asks for consent, and limits what its results contain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import mcp_types

from assistant.mcp.definition import Definition
from assistant.tools.delimited import clean, delimited
from assistant.tools.tool import ConsentRequired, ToolContext

MAX_TEXT = 64_000
"""Characters of the texts of one result; the rest is cut."""

Call = Callable[[str, dict[str, Any]], Awaitable[mcp_types.CallToolResult]]


def tool_name(server: str, tool: str) -> str:
    """Return the name that the tool `tool` of the MCP server `server` has in catalogues, steps and prices."""
    return f"mcp.{server}.{tool}"


class Consents(NamedTuple):
    """Texts in `tools_allowed` that allow one call: each alone is enough."""

    name: str
    """The tool's name: allows it however its server describes it."""
    tool: str
    """The name and the fingerprint: allows the tool as its server describes it now."""
    call: str
    """The name and a digest of the fingerprint and the arguments: allows this call alone."""

    @classmethod
    def of(cls, name: str, fingerprint: str, arguments: dict[str, Any]) -> Consents:
        """Return the three texts by which a person can allow this call of the tool `name`, of which one is enough.

        `fingerprint` is that of the tool's definition.
        """
        call = json.dumps([fingerprint, arguments], sort_keys=True, separators=(",", ":"))
        return cls(name, f"{name}@{fingerprint}", f"{name}@{hashlib.sha256(call.encode()).hexdigest()}")


def text_for_model(result: Mapping[str, Any]) -> str:
    """Return the text of a tool result of the type `mcp` as a delimited block of data for a model; "" for other types.

    It needs no connection: a process that continues an answer may not have reached the server yet.
    """
    if result["type"] != "mcp":
        return ""
    failed = "error of the tool" if result["is_error"] else "result of the tool"
    name = tool_name(result["server"], result["tool"])
    return delimited(f"{failed} {name}", [part["text"] for part in result["content"]])


@dataclass(frozen=True)
class McpTool:
    """A tool of an MCP server. Its results are texts: links, images and resources are named, and never opened."""

    server: str
    definition: Definition
    asks_person: bool
    """Whether each question has to allow the tool."""
    time_limit: float
    call: Call
    """Calls a tool of the server by its name there."""
    cache_seconds: float = 0.0

    @property
    def name(self) -> str:
        """Name of the tool in catalogues, steps and prices: `mcp.SERVER.TOOL`."""
        return tool_name(self.server, self.definition.name)

    @property
    def description(self) -> str:
        """The MCP server's description of the tool, as it was approved; models read it."""
        return self.definition.description

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the tool's arguments by the MCP server, as it was approved."""
        return self.definition.parameters

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Call the tool at its MCP server and return the result as a JSON object of the type `mcp`.

        Raises:
            ConsentRequired: the person has to allow the tool, and the question does not.
            Unavailable: the server does not answer.
        """
        consents = Consents.of(self.name, self.definition.fingerprint, arguments)
        if self.asks_person and context.tools_allowed.isdisjoint(consents):
            raise ConsentRequired(
                tool=self.definition.name, server=self.server, allow=consents.tool, allow_once=consents.call
            )
        result = await self.call(self.definition.name, arguments)
        return {
            "type": "mcp",
            "server": self.server,
            "tool": self.definition.name,
            "content": _texts(result.content),
            "is_error": bool(result.is_error),
        }

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return `None`: the text of an MCP server's result is made for models, so a model phrases the answer."""
        return None

    def for_model(self, result: dict[str, Any]) -> str:
        """Return the text of the tool's result as a delimited block of data, for the answering model's prompt."""
        return text_for_model(result)

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return the arguments of a call for a question, without a model; `None` if a model has to find them.

        A tool that requires one text gets the question, a tool that requires nothing no argument.
        """
        required = self.parameters.get("required") or []
        if not required:
            return {}
        properties = self.parameters.get("properties") or {}
        if len(required) == 1 and properties.get(required[0], {}).get("type") == "string":
            return {required[0]: question}
        return None


def _texts(content: list[mcp_types.ContentBlock]) -> list[dict[str, str]]:
    parts, left = [], MAX_TEXT
    for block in content:
        text = clean(block.text) if isinstance(block, mcp_types.TextContent) else f"({block.type}: left out)"
        if len(text) > left:
            parts.append({"type": "text", "text": f"{text[:left]}…"})
            break
        left -= len(text) + 1
        parts.append({"type": "text", "text": text})
        if left <= 0:
            break
    return parts
