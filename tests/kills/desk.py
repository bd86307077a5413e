"""The MCP server `desk` over stdio: its tool `look` says what it was asked, after the gate of the request's tag."""

from __future__ import annotations

import asyncio

from mcp.server.mcpserver import MCPServer

from tests.kills.gates import Gates, tag_in


def server(gates: Gates) -> MCPServer:
    """Return the server."""
    made = MCPServer("desk")

    @made.tool(description="Looks at the desk.")
    async def look(text: str) -> str:
        tag = tag_in(text)
        while tag is not None and gates.is_held(tag, "tool"):
            await asyncio.sleep(0.02)
        return found(text)

    return made


def found(text: str) -> str:
    """Return what the tool says of a text."""
    return f"on the desk: {text}"


if __name__ == "__main__":
    server(Gates.of_environment()).run("stdio")
