"""Which model answers, what the tools of an answer are, and the most that steps use."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from assistant.abilities import ROUTER_TOKENS, Abilities, tool_part
from assistant.catalogue import AssistantSpec
from assistant.tools.sentences import UNKNOWN_TOOL
from assistant.tools.tool import InvalidArguments, NotFound
from assistant.tools.toolbox import Toolbox
from assistant.tools.unit_prices import UnitPrices
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import PriceList, TokenRate
from router.messages import ServiceClass, Task, Usage, UsagePart
from router.model_registry import ModelRegistry
from router.producer.errors import ModelUnavailable
from tests.contract.examples import STATUS, msgspec_replace
from tests.fakes.assistant_process import GatedTool
from tests.fakes.prices import ListPriceStore


def abilities(*statuses: dict[str, Any], patience: float = 0.05, **spec: Any) -> Abilities:
    registry = ModelRegistry(time.time)
    plain = {"task": Task.GENERATE, "parts": [], "max_model_len": 100, "dimensions": 0, "image_sizes": []}
    for each in statuses:
        registry.observe(msgspec_replace(STATUS, worker=f"worker-{each['model']}", **{**plain, **each}))
    given = AssistantSpec(**{"tools": ["math", "weather"], **spec})
    toolbox = Toolbox([GatedTool("math"), GatedTool("weather"), GatedTool("wikipedia")])
    return Abilities("assistant-1", given, None, toolbox, Mock(models=registry), ["assistant", "helper"], patience)


def test_by_default_the_first_text_model_answers_that_is_no_assistant() -> None:
    found = abilities(
        {"model": "assistant"},
        {"model": "a-embedder", "task": Task.EMBED},
        {"model": "b-other-assistant", "parts": [tool_part("math")]},
        {"model": "qwen"},
        {"model": "smol"},
    ).answers_with
    assert found is not None
    assert found.name == "qwen"


def test_a_model_that_reads_images_answers_about_them_if_one_is_served() -> None:
    seeing = {"model": "z", "reads_images": True}
    beside = abilities({"model": "a"}, seeing, answers_with="a")
    assert beside.answers_with is not None
    assert beside.sees_with is not None
    assert (beside.answers_with.name, beside.sees_with.name) == ("a", "z")
    both = abilities({"model": "b", "reads_images": True}, seeing, answers_with="z")
    assert both.sees_with is not None
    assert both.sees_with.name == "z"
    assert abilities({"model": "a"}, {"model": "helper", "reads_images": True}).sees_with is None


def test_the_models_that_no_operator_named_are_reported() -> None:
    assert abilities({"model": "qwen"}).unnamed_models() == ["qwen"]
    assert abilities({"model": "qwen"}, answers_with="qwen").unnamed_models() == []
    assert abilities({"model": "qwen"}, routing={"way": "grammar", "model": "qwen"}).unnamed_models() == []
    assert abilities({"model": "a"}, {"model": "z", "reads_images": True}, answers_with="a").unnamed_models() == ["z"]
    assert abilities().unnamed_models() == []


def test_no_assistant_of_the_catalogue_answers_by_default() -> None:
    assert abilities({"model": "assistant"}, {"model": "helper"}).answers_with is None


def test_the_named_model_answers_and_routes() -> None:
    named = abilities({"model": "a"}, {"model": "b"}, {"model": "c"}, answers_with="b", routing={"model": "c"})
    assert named.answers_with is not None
    assert named.routes_with is not None
    assert (named.answers_with.name, named.routes_with.name) == ("b", "c")
    assert abilities({"model": "a"}, answers_with="b").answers_with is None


@pytest.mark.parametrize(
    ("routing", "name"),
    [
        ({}, "a-embedder"),
        ({"embeddings": "b-embedder"}, "b-embedder"),
        ({"embeddings": "qwen"}, None),
        ({"embeddings": False}, None),
        ({"way": "grammar"}, None),
    ],
)
def test_by_default_the_first_embedding_model_helps_the_classifier(routing: dict[str, Any], name: str | None) -> None:
    embedders = [{"model": each, "task": Task.EMBED} for each in ("b-embedder", "a-embedder")]
    own = abilities({"model": "qwen"}, *embedders, routing=routing)
    assert own.embeds_with is None
    found = replace(own, embedding_router=Mock()).embeds_with
    assert (found.name if found else None) == name


def test_an_embedding_model_without_a_price_is_logged_once_and_not_used() -> None:
    embedders = [{"model": each, "task": Task.EMBED} for each in ("a-embedder", "b-embedder")]
    prices = UnitPrices(PriceBook(ListPriceStore()))
    own = replace(abilities({"model": "qwen"}, *embedders), embedding_router=Mock(), prices=prices)
    with capture_logs() as logged:
        assert own.embeds_with is None, "no prices were read"
    assert not logged
    rates = dict.fromkeys(ServiceClass, TokenRate(1, 1, 1))
    prices.known = PriceList(1, {"b-embedder": rates})
    with capture_logs() as logged:
        found = [own.embeds_with for _ in range(3)]
    assert [each and each.name for each in found] == ["b-embedder"] * 3
    assert [each["model"] for each in logged] == ["a-embedder"]
    prices.known = PriceList(2, {"qwen": rates})
    assert own.embeds_with is None
    assert "b-embedder" not in [part.model for part in own.most_parts()]
    prices.known = PriceList(3, {}, rates)
    assert own.embeds_with is not None


def test_tools_that_are_off_are_left_out() -> None:
    own = abilities()
    assert [each.name for each in own.tools()] == ["math", "weather"]
    assert [each.name for each in own.tools(["math", "rm"])] == ["weather"]
    assert own.tools(["*"]) == []


@pytest.mark.parametrize(
    ("spec", "models"),
    [
        ({}, {}),
        ({"rewrites": "model"}, {"qwen": 96}),
        ({"routing": {"way": "grammar"}}, {"qwen": 100}),
        ({"routing": {"way": "function", "model": "router"}, "rewrites": "model"}, {"qwen": 96, "router": 100}),
        ({"routing": {"way": "function"}, "rewrites": "model"}, {"qwen": 196}),
    ],
)
def test_the_most_that_steps_use_has_each_call_once(spec: dict[str, Any], models: dict[str, int]) -> None:
    parts = abilities({"model": "qwen"}, {"model": "router"}, answers_with="qwen", **spec).most_parts()
    calls = 2 if list(models.values()) == [196] else 1
    assert parts == [
        *(
            UsagePart(model=name, usage=Usage(prompt_tokens=100 * calls, completion_tokens=tokens))
            for name, tokens in models.items()
        ),
        tool_part("math"),
        tool_part("weather"),
    ]
    assert ROUTER_TOKENS > 100


async def test_waiting_for_models_ends_when_they_are_known() -> None:
    await abilities({"model": "qwen"}).models_known()
    with pytest.raises(ModelUnavailable):
        await abilities(answers_with="qwen").models_known()


def test_tools_that_are_on_may_be_called_by_their_names_but_not_those_of_mcp_servers() -> None:
    own = abilities({"model": "smol"}, tools=["math", "weather", "mcp.shop.search"], routing={"way": "grammar"})
    own.toolbox.add(GatedTool("mcp.shop.search"))
    own.toolbox.switch_off("weather", UNKNOWN_TOOL)
    [math] = own.callable_tools()
    assert (math.name, math.description, math.parts) == ("math", "A tool.", [tool_part("math")])
    assert math.parameters["required"] == ["text"]
    own.check_call("weather", {"text": "a"})
    with pytest.raises(InvalidArguments):
        own.check_call("math", {})
    for name in ("mcp.shop.search", "wikipedia", "rm"):
        with pytest.raises(NotFound):
            own.check_call(name, {"text": "a"})


def test_a_tool_that_needs_a_model_is_on_while_one_is_served() -> None:
    own = abilities({"model": "smol"}, tools=["image"])
    painter = PaintingTool()
    own.toolbox.add(painter)
    assert own.callable_tools() == []
    painter.parts = [UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"64x64": 1}))]
    assert [tool.parts for tool in own.callable_tools()] == [[tool_part("image"), *painter.parts]]
    assert own.unnamed_models() == ["painter", "smol"]


class PaintingTool(GatedTool):
    """A tool that calls models which use `parts`; none is served while it has none."""

    def __init__(self) -> None:
        super().__init__("image")
        self.parts: list[UsagePart] = []

    def unnamed_models(self) -> list[str]:
        return ["painter"]

    def most_parts(self, answers_with: object) -> list[UsagePart]:
        return self.parts
