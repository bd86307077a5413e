"""Which assistant a tool is called at, and how its result is shown."""

from __future__ import annotations

from typing import Any

import mcp_types
import pytest

from gateway.mcp import tools
from router.messages import OwnTool, Step, StepState
from router.model_registry import ModelRegistry
from stored_objects.blobs.blobs import new_blob_id
from tests.contract.examples import STATUS, WEATHER_TOOL, msgspec_replace

MATH = OwnTool(name="math", description="Calculates.", parameters={"type": "object"})
BLOB = new_blob_id()


def step(state: StepState = StepState.DONE, **data: Any) -> Step:
    return Step(number=0, kind="tool", name="image", state=state, data=data)


def address(blob: str) -> str:
    return f"http://gateway/v1/blobs/{blob}"


def test_of_several_assistants_the_first_is_called() -> None:
    registry = ModelRegistry(lambda: 0.0)
    for name, own in (("b", [MATH, WEATHER_TOOL]), ("a", [MATH]), ("text", [])):
        registry.observe(msgspec_replace(STATUS, worker=f"w-{name}", model=name, tools=own))
    found = tools.offered(registry.models())
    assert {name: model.name for name, (model, _) in found.items()} == {"math": "a", "weather": "b"}
    listed = tools.listed(found).tools
    assert [(tool.name, tool.description) for tool in listed] == [
        ("math", MATH.description),
        ("weather", WEATHER_TOOL.description),
    ]
    assert listed[1].input_schema == WEATHER_TOOL.parameters


def test_assistants_that_no_worker_serves_now_offer_nothing() -> None:
    now = [0.0]
    registry = ModelRegistry(lambda: now[0])
    registry.observe(msgspec_replace(STATUS, tools=[MATH]))
    now[0] = 30.0
    assert tools.offered(registry.models()) == {}


def test_a_result_is_text_and_json() -> None:
    result = tools.called([step(result={"type": "mathematics", "result_text": "4"})], "4", address, "2025-06-18")
    assert result.content == [mcp_types.TextContent(text="4")]
    assert (result.structured_content, result.is_error) == ({"type": "mathematics", "result_text": "4"}, False)


@pytest.mark.parametrize(("version", "links"), [("2025-03-26", 0), ("2025-06-18", 1), ("2026-07-28", 1)])
def test_images_are_addresses_and_links_where_the_version_has_them(version: str, links: int) -> None:
    result = tools.called([step(result={"type": "image", "images": [{"blob": BLOB}]})], "", address, version)
    assert result.content[0] == mcp_types.TextContent(text=address(BLOB))
    assert [block.uri for block in result.content[1:] if isinstance(block, mcp_types.ResourceLink)] == [
        address(BLOB)
    ] * links
    assert result.structured_content["images"] == [{"blob": BLOB, "url": address(BLOB)}]


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([step(StepState.FAILED, error={"code": "not_found", "message": "Nothing was found."})], "Nothing was found."),
        ([step(StepState.FAILED, error="?")], "The tool does not answer at the moment. Please try again later."),
        ([], "The tool does not answer at the moment. Please try again later."),
    ],
)
def test_a_failure_is_its_sentence(steps: list[Step], sentence: str) -> None:
    result = tools.called(steps, "", address, "2025-06-18")
    assert (result.is_error, result.content) == (True, [mcp_types.TextContent(text=sentence)])
    assert result.structured_content is None
