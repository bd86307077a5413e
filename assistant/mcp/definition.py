"""Lists MCP servers' tools, checks them against limits, and hashes each tool (SHA-256), which operators approve.

The description and the schema of a tool are text that a model reads before it decides. Their fingerprint is what the
operator approves: if one character of them changes, it is another one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import mcp_types
from mcp import Client

from assistant.tools.argument_schema import ArgumentSchema, SchemaRefused
from assistant.tools.delimited import clean

MAX_PAGES = 20
"""Pages of a server's list of tools; a longer list is an error."""
MAX_DESCRIPTION = 4_000
"""Characters of a description."""
MAX_SCHEMA_BYTES = 16 * 1024
"""Bytes of a schema as JSON."""


class DefinitionRefused(Exception):
    """Raised for a tool whose description or schema exceeds a limit, and for a list of tools without an end."""


@dataclass(frozen=True)
class Definition:
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: dict[str, Any]
    fingerprint: str
    """SHA-256 (hex) of name, description and schema."""


def definition(tool: mcp_types.Tool) -> Definition:
    """Return the definition (name, description, schema, fingerprint) of a tool as an MCP server lists it.

    Raises:
        DefinitionRefused: the description or the schema is too long, or the schema can't be checked.
    """
    schema = tool.input_schema
    text = tool.description or tool.name
    canonical = json.dumps([tool.name, text, schema], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_DESCRIPTION:
        raise DefinitionRefused(f"its description has more than {MAX_DESCRIPTION} characters")
    if len(json.dumps(schema)) > MAX_SCHEMA_BYTES:
        raise DefinitionRefused(f"its schema has more than {MAX_SCHEMA_BYTES} bytes")
    if schema.get("type") != "object":
        raise DefinitionRefused("its schema is not that of an object")
    try:
        ArgumentSchema(schema)
    except SchemaRefused as error:
        raise DefinitionRefused(str(error)) from error
    fingerprint = hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
    return Definition(tool.name, clean(text), schema, fingerprint)


async def listed(client: Client) -> dict[str, mcp_types.Tool]:
    """Ask a connected MCP server for its list of tools, page by page, and return the tools by name.

    Raises:
        DefinitionRefused: the list has more than `MAX_PAGES` pages.
    """
    tools: dict[str, mcp_types.Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise DefinitionRefused(f"the list of tools has more than {MAX_PAGES} pages")
