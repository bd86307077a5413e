"""Text is free until it opens a call; from there on only valid calls match, in each markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from inference_worker.structured.compiler import GrammarCompiler
from inference_worker.structured.vocabulary import Vocabulary
from inference_worker.worker.text.tool_calls.tool_choice import output_grammar
from inference_worker.worker.text.tool_calls.tool_style import MARKUPS, MarkupFamily, ToolStyle
from router.messages import ChatPrompt, Grammar, ToolChoice

END = 256
CONTROLS = {text: END + 1 + at for at, text in enumerate(["<|python_tag|>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"])}
COMPILER = GrammarCompiler(
    Vocabulary(
        [*(bytes([byte]) for byte in range(256)), b"<end>", *(text.encode() for text in CONTROLS)],
        frozenset({END, *CONTROLS.values()}),
    ),
    END + 1 + len(CONTROLS),
    [END],
)
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"$ref": "#/$defs/Days"}},
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"Days": {"type": "integer"}},
}
CALL = '{"name": "weather", "arguments": {"city": "Łódź", "days": 3}}'
LOOSE = '{"name": "loose", "arguments": {"days": "x", "more": [1]}}'
WRONG = ['{"name": "other"', '{"name": "weather", "arguments": {"city": 1', '{"name": "weather", "arguments": {}']


def tool(name: str, parameters: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}}


TOOLS = [tool("weather", WEATHER, strict=True), tool("loose", WEATHER, strict=False)]


def grammar(
    family: MarkupFamily, tools: list[dict[str, Any]] = TOOLS, response: Grammar | None = None, **choice: Any
) -> Grammar | None:
    prompt = ChatPrompt(messages=[], tools=tools, tool_choice=ToolChoice(**choice))
    return output_grammar(prompt, response, ToolStyle(family, in_template=True), CONTROLS)


def ids(text: str, *, controls: bool) -> Iterator[int]:
    pattern = "|".join(map(re.escape, CONTROLS)) if controls else "(?!)"
    for part in re.split(f"({pattern})", text):
        yield from [CONTROLS[part]] if controls and part in CONTROLS else part.encode()


def matches(of: Grammar | None, text: str, *, controls: bool = True) -> bool:
    """Whether `text` may be the whole output."""
    assert of is not None
    matcher = COMPILER.matcher(of)
    matcher.accept([*ids(text, controls=controls), END])
    return matcher.error is None


def may_begin(of: Grammar | None, text: str) -> bool:
    assert of is not None
    matcher = COMPILER.matcher(of)
    matcher.accept(ids(text, controls=True))
    return matcher.error is None


HERMES = [
    f"Sure: <tool_call>\n{CALL}\n</tool_call>",
    f"<tool_call>{CALL}</tool_call>\n<tool_call>{LOOSE}</tool_call> done",
    f"<tool_call>[{CALL}, {LOOSE}]</tool_call>",
]
LLAMA3 = [CALL, f"{CALL}; {LOOSE}", f"[{CALL}]", f"<|python_tag|>{CALL}", CALL.replace("arguments", "parameters")]
MISTRAL = [
    f"[TOOL_CALLS][{CALL}, {LOOSE}]",
    'Well[TOOL_CALLS]weather[ARGS]{"city": "x", "days": 1}[TOOL_CALLS]loose[ARGS]{}',
    'Well[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{"city": "x", "days": 1}',
]
CALLS = {MarkupFamily.HERMES: HERMES, MarkupFamily.LLAMA3: LLAMA3, MarkupFamily.MISTRAL: MISTRAL}


@pytest.mark.parametrize(("family", "text"), [(family, text) for family, texts in CALLS.items() for text in texts])
def test_valid_calls(family: MarkupFamily, text: str) -> None:
    assert matches(grammar(family), text)
    assert matches(grammar(family), "Free text < [ { first." if family is not MarkupFamily.LLAMA3 else '{"answer": 1}')


@pytest.mark.parametrize("family", MarkupFamily)
@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_calls_can_not_begin(family: MarkupFamily, wrong: str) -> None:
    of, opener = grammar(family), MARKUPS[family].opener
    assert may_begin(of, f"Text {opener}")
    for before in ("", "Text ", *([opener] if family is MarkupFamily.HERMES else [])):
        assert not may_begin(of, f"{before}{opener}{wrong}")
    assert may_begin(of, f"Text {wrong}"), "no call without its opener"
    assert not may_begin(of, f"{opener}Text")


def test_markup_spelled_in_plain_tokens_opens_a_call() -> None:
    of = grammar(MarkupFamily.LLAMA3)
    assert matches(of, f"<|python_tag|>{CALL}", controls=False)
    assert not matches(of, "Text <|python_tag|> text", controls=False)


def test_a_message_that_begins_as_a_call_is_one() -> None:
    of = grammar(MarkupFamily.LLAMA3)
    for wrong in (*WRONG, '\n\n\n {"name": "other"', '[{"name": "other"', '{"parameters": {', r'{"n\u0061me": "'):
        assert not may_begin(of, wrong)
    assert matches(of, '{"result": {"name": "other"}}')


def test_a_further_call_is_valid_too_and_only_allowed_if_parallel() -> None:
    first = f"<tool_call>{CALL}</tool_call>"
    assert not may_begin(grammar(MarkupFamily.HERMES), f"{first} <tool_call>{WRONG[0]}")
    assert matches(grammar(MarkupFamily.HERMES, parallel=False), first)
    assert not may_begin(grammar(MarkupFamily.HERMES, parallel=False), f"{first}<")
    assert not may_begin(grammar(MarkupFamily.LLAMA3, parallel=False), f"[{CALL},")


def test_only_strict_functions_need_a_grammar() -> None:
    assert grammar(MarkupFamily.HERMES, TOOLS[1:]) is None
    assert grammar(MarkupFamily.HERMES, names=["loose"]) is None


@pytest.mark.parametrize("family", MarkupFamily)
def test_as_many_tools_as_a_request_may_have(family: MarkupFamily) -> None:
    of = grammar(family, [tool(f"weather-{number}", WEATHER, strict=True) for number in range(128)])
    assert may_begin(of, f"{MARKUPS[family].opener}{CALL.replace('weather', 'weather-127')}")
