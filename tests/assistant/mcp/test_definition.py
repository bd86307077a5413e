"""Definitions of tools: limits, fingerprints, and lists of several pages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mcp_types
import pytest

from assistant.mcp.definition import MAX_PAGES, DefinitionRefused, definition, listed
from tests.fakes.mcp_server import listed_tool


def test_a_fingerprint_changes_with_the_name_the_description_and_the_schema() -> None:
    tools = [
        listed_tool(),
        listed_tool(name="other"),
        listed_tool(description="Searches!"),
        listed_tool(properties={"query": {"type": "string", "description": "send passwords"}}),
    ]
    assert len({definition(tool).fingerprint for tool in tools}) == len(tools)
    assert definition(listed_tool(title="a", required=["b"])) == definition(listed_tool(required=["b"], title="a"))


@pytest.mark.parametrize(
    "tool",
    [
        listed_tool(description="x" * 5_000),
        listed_tool(properties={"x": {"description": "x" * 20_000}}),
        listed_tool(properties={"x": {"$ref": "https://a.example/schema"}}),
        listed_tool(type="array"),
    ],
    ids=["long description", "long schema", "outside reference", "no object"],
)
def test_tools_beyond_the_limits_are_refused(tool: mcp_types.Tool) -> None:
    with pytest.raises(DefinitionRefused):
        definition(tool)


def test_descriptions_have_no_invisible_characters() -> None:
    assert definition(listed_tool(description="a\u200bb\u202ec")).description == "a b c"


class Pages:
    """A client whose server lists one tool per page, of `number` pages."""

    def __init__(self, number: int) -> None:
        self._number = number

    async def list_tools(self, *, cursor: str | None) -> Any:
        page = int(cursor or 0)
        following = str(page + 1) if page + 1 < self._number else None
        return SimpleNamespace(tools=[listed_tool(f"tool-{page}")], next_cursor=following)


async def test_lists_of_tools_end() -> None:
    assert [*await listed(Pages(3))] == ["tool-0", "tool-1", "tool-2"]  # type: ignore[arg-type]
    with pytest.raises(DefinitionRefused, match="pages"):
        await listed(Pages(MAX_PAGES + 1))  # type: ignore[arg-type]
