"""Rules of calls as JSON objects, with arguments that match a schema or the grammar of a text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference_worker.errors import GrammarRejected, PromptRejected
from inference_worker.worker.text.tool_calls.call_rules import has_lark_text
from inference_worker.worker.text.tool_calls.tool_style import MARKUPS, MarkupFamily
from router.messages import LARK_KEYWORD, Grammar, GrammarKind, ToolMode
from tests.inference_worker.worker.text.tool_calls.test_strict_call_grammar import (
    WEATHER,
    grammar,
    matches,
    tool,
)

SUM = 'start: INT ("+" INT)* "\\n"\n%import common.INT'


def custom(definition: str, name: str = "sum") -> dict[str, Any]:
    """A tool with one text that a grammar limits, as the gateway makes it of a custom tool."""
    text = {"type": "string", LARK_KEYWORD: definition}
    schema = {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}
    return tool(name, schema, strict=True)


def call(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


GOOD = call("sum", input="1+22\n")
BAD = [call("sum", input="1+\n"), call("sum", input="1"), call("sum"), call("sum", input="1\n", more=1), call("other")]
CITY = call("weather", city="x", days=1)
TOOLS = [custom(SUM), tool("weather", WEATHER, strict=False)]


@pytest.mark.parametrize("family", [MarkupFamily.HERMES, MarkupFamily.LLAMA3, MarkupFamily.MISTRAL])
def test_a_free_call_has_a_text_of_the_grammar(family: MarkupFamily) -> None:
    of, markup = grammar(family, TOOLS), MARKUPS[family]
    assert matches(of, f"{markup.opener}{GOOD}{markup.closer}")
    for wrong in BAD:
        assert not matches(of, f"{markup.opener}{wrong}{markup.closer}")
    assert matches(of, "Just text.")


def test_forced_calls_match_the_grammar_or_the_schema() -> None:
    of = grammar(MarkupFamily.HERMES, TOOLS, mode=ToolMode.REQUIRED)
    for text in (f"[{GOOD}]", f"[{GOOD}, {CITY}, {GOOD}]", f"[\n  {CITY}\n]"):
        assert matches(of, text)
    for text in (*(f"[{wrong}]" for wrong in BAD), "[]", GOOD, f"[{call('weather', city=1, days=1)}]"):
        assert not matches(of, text)
    one = grammar(MarkupFamily.HERMES, TOOLS, mode=ToolMode.REQUIRED, parallel=False)
    assert matches(one, GOOD)
    assert not matches(one, f"[{GOOD}]")


def test_an_answer_in_json_can_t_be_the_alternative_to_a_call() -> None:
    response = Grammar(kind=GrammarKind.JSON_OBJECT, param="text.format")
    with pytest.raises(PromptRejected, match="can't be combined") as rejected:
        grammar(MarkupFamily.HERMES, TOOLS, response)
    assert rejected.value.param == "text.format"
    assert grammar(MarkupFamily.HERMES, TOOLS[1:], response) is not None


def test_a_grammar_that_is_not_supported_is_rejected_by_name() -> None:
    with pytest.raises(GrammarRejected, match="lazy repetition"):
        matches(grammar(MarkupFamily.HERMES, [custom("start: /a+?/")]), "")


def test_two_grammars_with_rules_of_the_same_names() -> None:
    tools = [custom('start: x\nx: "a"', "first"), custom('start: x\nx: "b"', "second")]
    of = grammar(MarkupFamily.HERMES, tools, mode=ToolMode.REQUIRED)
    assert matches(of, f"[{call('first', input='a')}, {call('second', input='b')}]")
    assert not matches(of, f"[{call('first', input='b')}]")


def test_only_a_single_text_with_the_keyword_has_a_grammar() -> None:
    assert has_lark_text(custom(SUM))
    two = {"a": {"type": "string", LARK_KEYWORD: SUM}, "b": {"type": "string"}}
    for properties in ({}, {"a": {"type": "string"}}, {"a": True}, {"a": {LARK_KEYWORD: 3}}, two):
        assert not has_lark_text(tool("f", {"type": "object", "properties": properties}, strict=True))
    assert not has_lark_text(tool("f", {"type": "object"}, strict=True))
