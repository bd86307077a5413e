"""Converts assistants' tools and the answers of tool calls to MCP's results of `tools/list` and `tools/call`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mcp_types
from mcp_types.version import is_version_at_least

from router.messages import OwnTool, Step
from router.model_registry import ModelInfo
from stored_objects.images.results import BlobAddress, with_addresses

LINKS_SINCE = "2025-06-18"
"""First version with links to resources in results."""

Offered = dict[str, tuple[ModelInfo, OwnTool]]
"""Tools by name, each with the assistant that is called for it."""


def offered(models: Iterable[ModelInfo]) -> Offered:
    """Return the tools of assistants among `models` that a worker serves now, by tool name, each with its assistant.

    If several assistants have a tool, the first by name is called.
    """
    found: Offered = {}
    for model in sorted((each for each in models if each.alive), key=lambda each: each.name):
        for tool in model.tools:
            found.setdefault(tool.name, (model, tool))
    return dict(sorted(found.items()))


def listed(tools: Offered) -> mcp_types.ListToolsResult:
    """Build the result of MCP's `tools/list` from the offered `tools`."""
    return mcp_types.ListToolsResult(
        tools=[
            mcp_types.Tool(name=name, description=tool.description, input_schema=tool.parameters)
            for name, (_, tool) in tools.items()
        ]
    )


def called(steps: Sequence[Step], text: str, address: BlobAddress, version: str) -> mcp_types.CallToolResult:
    """Build the result of MCP's `tools/call`: the answer's text, links to its images, and the tool's result as JSON.

    Args:
        steps: ended steps of the answer.
        text: text of the answer.
        address: returns the signed address of an image.
        version: version of the protocol.
    """
    step = next((each for each in steps if each.kind == "tool"), None)
    data = {} if step is None else with_addresses(step.data, address)
    result = data.get("result")
    if not isinstance(result, dict):
        return mcp_types.CallToolResult(content=[_text(_sentence(data))], is_error=True)
    images = [each["url"] for each in result.get("images", ()) if isinstance(each, dict) and "url" in each]
    content: list[mcp_types.ContentBlock] = [_text("\n".join(images) or text)]
    if is_version_at_least(version, LINKS_SINCE):
        content += [_link(number, url) for number, url in enumerate(images, start=1)]
    return mcp_types.CallToolResult(content=content, structured_content=result)


def _text(text: str) -> mcp_types.TextContent:
    return mcp_types.TextContent(text=text)


def _link(number: int, url: str) -> mcp_types.ResourceLink:
    return mcp_types.ResourceLink(name=f"image-{number}.png", uri=url, mime_type="image/png")


def _sentence(data: dict[str, Any]) -> str:
    """Return the plain sentence of a failed step."""
    error = data.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else "The tool does not answer at the moment. Please try again later."
