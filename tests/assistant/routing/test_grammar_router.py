"""The grammar way: output is one of the tools, and no output is an error."""

from __future__ import annotations

import json

import llguidance
import pytest

from assistant.model_port import ModelCallFailed, ModelPiece
from assistant.routing.function_prompt import choice_grammar
from assistant.routing.grammar_router import GrammarRouter
from assistant.routing.router import Choice
from router.messages import GrammarKind, Usage
from tests.fakes.assistant import NamedTool, ScriptedModels, named_tools

USAGE = Usage(prompt_tokens=300, completion_tokens=2, cached_tokens=290)


async def choose(output: str, *, with_arguments: bool = False) -> Choice:
    models = ScriptedModels([[ModelPiece(text=each) for each in output] + [ModelPiece(usage=USAGE)]])
    return await GrammarRouter("m", with_arguments=with_arguments).choose("q", [], named_tools(), models)


async def test_names() -> None:
    assert await choose("weather") == Choice("weather", usage=USAGE)
    assert await choose("none") == Choice(None, usage=USAGE)


async def test_arguments() -> None:
    output = '{"tool": "weather", "arguments": {"place": "Łódź"}}'
    assert await choose(output, with_arguments=True) == Choice("weather", {"place": "Łódź"}, usage=USAGE)
    assert (await choose('{"tool": "none"}', with_arguments=True)).tool is None


@pytest.mark.parametrize("output", ["", "weat", "Weather!", "rain", '{"tool": "weather"}'])
async def test_output_of_a_model_that_ignores_the_grammar_is_a_direct_answer(output: str) -> None:
    assert (await choose(output)).tool is None


@pytest.mark.parametrize(
    "output", ["", "[]", "7", '{"tool": 7}', '{"tool": ["math"]}', "{}", '{"tool": "wea', '["tool", "x"]']
)
async def test_invalid_objects_are_a_direct_answer(output: str) -> None:
    assert (await choose(output, with_arguments=True)).tool is None


@pytest.mark.parametrize(
    "output", ['{"tool": "math", "arguments": {"expression": "1+', '{"tool":"math","arguments":7}']
)
async def test_a_choice_that_was_cut_off_keeps_its_tool(output: str) -> None:
    assert await choose(output, with_arguments=True) == Choice("math", usage=USAGE)


async def test_the_prefix_is_constant_and_the_question_comes_last() -> None:
    models = ScriptedModels([[ModelPiece(text="none")]] * 2)
    router = GrammarRouter("m")
    await router.choose("one", [], named_tools(), models)
    await router.choose("two", [], named_tools()[::-1], models)
    one, two = models.requests
    assert one.messages[:-1] == two.messages[:-1]
    assert one.messages[-1]["content"] == "one"
    assert one.grammar == two.grammar
    assert one.temperature == 0


async def test_names_that_no_function_may_have() -> None:
    models = ScriptedModels([[ModelPiece(text="mcp_files_read")]])
    choice = await GrammarRouter("m").choose("q", [], [NamedTool("mcp.files.read")], models)
    assert choice.tool == "mcp.files.read"


async def test_a_failed_model_is_reported() -> None:
    with pytest.raises(ModelCallFailed):
        await GrammarRouter("m").choose("q", [], named_tools(), ScriptedModels())


def test_grammars() -> None:
    tools = {tool.name: tool for tool in named_tools()}
    names = choice_grammar(tools, with_arguments=False)
    assert names.kind is GrammarKind.CHOICE
    assert json.loads(names.source) == [*tools, "none"]
    schema = choice_grammar(tools, with_arguments=True)
    assert schema.kind is GrammarKind.JSON_SCHEMA
    llguidance.LLMatcher.grammar_from_json_schema(schema.source)
