"""Parsing of tool calls in every family's markup, with any split of the text; invalid calls are text."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_worker.worker.text.tool_calls.call_parser import ToolCallParser
from inference_worker.worker.text.tool_calls.markup import Markup, Span, SpanKind
from inference_worker.worker.text.tool_calls.tool_style import JSON_CALLS, MARKUPS, MarkupFamily

NAMES = frozenset({"f", "weather"})
HERMES, LLAMA3, MISTRAL = (
    MARKUPS[family] for family in (MarkupFamily.HERMES, MarkupFamily.LLAMA3, MarkupFamily.MISTRAL)
)
Answer = tuple[str, list[tuple[str, str]]]
"""The text, and each call's name and arguments."""


def read(
    markup: Markup, *pieces: str, several: bool = True, only_calls: bool = False
) -> tuple[ToolCallParser, list[Span]]:
    parser = ToolCallParser(markup, NAMES, several=several, only_calls=only_calls)
    spans = [span for piece in pieces for span in parser.push(piece)]
    return parser, spans if parser.finished else spans + parser.finish()


def answer(spans: list[Span]) -> Answer:
    words = "".join(span.text for span in spans if span.kind is SpanKind.TEXT)
    calls: dict[int, list[str]] = {}
    for span in spans:
        if span.kind is SpanKind.ARGUMENTS:
            if span.name:
                assert span.call == len(calls)  # dense from 0, named once
                calls[span.call] = [span.name, ""]
            calls[span.call][1] += span.text
    return words, [(name, arguments) for name, arguments in calls.values()]


F, RAIN = ("f", "{}"), ("weather", '{"city": "Łódź", "x": [1, {"a": "}"}]}')
FOUND: list[tuple[Markup, str, Answer]] = [
    (HERMES, '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', ("", [F])),
    (HERMES, f'<tool_call>{{"name": "weather", "arguments": {RAIN[1]}}}</tool_call>', ("", [RAIN])),
    (HERMES, f'<tool_call>{{"arguments": {RAIN[1]}, "name": "weather"}}</tool_call>', ("", [RAIN])),
    (HERMES, 'Let me see.\n\n<tool_call>{"name":"f","arguments":{}}</tool_call>\n', ("Let me see.", [F])),
    (HERMES, 2 * '\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', ("", [F, F])),
    (HERMES, '<tool_call>[{"name":"f","arguments":{}}, {"name":"f"}]</tool_call>', ("", [F, F])),
    (HERMES, '<tool_call>{"name": "f"}</tool_call> so', (" so", [F])),
    (HERMES, '<tool_call>{"\\u006eame": "\\u0066", "parameters": {}}</tool_call>', ("", [F])),
    (HERMES, '<tool_call>{"name": "f", "arguments": {}}', ("", [F])),
    (HERMES, '<tool_call>{"name": "f", "arguments": {}}</tool', ("", [F])),
    (HERMES, '<tool_call>{"name": "f", "arguments": {}} oops', (" oops", [F])),
    (LLAMA3, '{"name": "f", "parameters": {}}', ("", [F])),
    (LLAMA3, '\n{"type": "function", "name": "f", "parameters": {}}; {"name": "f", "parameters": {}}', ("", [F, F])),
    (LLAMA3, f'<|python_tag|>{{"name": "weather", "parameters": {RAIN[1]}}}', ("", [RAIN])),
    (LLAMA3, 'Well: <|python_tag|>{"name": "f", "parameters": {}}', ("Well:", [F])),
    (MISTRAL, '[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abcdefghi"}, {"name": "f"}]', ("", [F, F])),
    (MISTRAL, f"[TOOL_CALLS]weather[ARGS]{RAIN[1]}[TOOL_CALLS]f{{}}", ("", [RAIN, F])),
    (MISTRAL, "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}", ("", [F])),
    (
        JSON_CALLS,
        f'[{{"name": "weather", "arguments": {RAIN[1]}}}, {{"name": "f", "arguments": {{}}}}]',
        ("", [RAIN, F]),
    ),
    (JSON_CALLS, '{"name": "f", "arguments": {}}', ("", [F])),
    # Cut off within a further call, before it was one.
    (JSON_CALLS, '[{"name": "f", "arguments": {}},\n{"name": "', ("", [F])),
    (JSON_CALLS, '[{"name": "f", "arguments": {}}, ', ("", [F])),
    (HERMES, '<tool_call>[{"name": "f"}, {"na', ("", [F])),
    (LLAMA3, '{"name": "f", "parameters": {}}; {"name": "weather"', ("", [F])),
    (HERMES, '<tool_call>{"name": "f"}</tool_call> so <tool_call>{"na', (' so <tool_call>{"na', [F])),
]
WORDS: list[tuple[Markup, str]] = [
    (HERMES, "a <b> <tool <tool_calls> <tool_call"),
    (HERMES, "<tool_call>__import__('os').system('id')</tool_call>"),
    (HERMES, '<tool_call>{"name": "f"'),
    (HERMES, '<tool_call>{"name": "f", "arguments": '),
    (HERMES, '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>'),
    (HERMES, '<tool_call>{"name": "f", "arguments": "{}"}</tool_call>'),
    (HERMES, '<tool_call>{"name": "f", "name": "f", "arguments": {}}</tool_call>'),
    (HERMES, '<tool_call>{"name": 5, "arguments": {}}</tool_call>'),
    (HERMES, '<tool_call>{"name": "f", "evil": {}, "arguments": {}}</tool_call>'),
    (HERMES, '<tool_call>{"arguments": {}}</tool_call>'),
    (HERMES, "<tool_call>{'name': 'f', 'arguments': {}}</tool_call>"),
    (HERMES, "<tool_call>[]</tool_call>"),
    (HERMES, "<tool_call>" + "[" * 10_000),
    (HERMES, '<tool_call>{"name": ' + "{" * 10_000),
    (HERMES, "<tool_call>" * 5000),
    (HERMES, " \n\t" * 5000 + "x" + "\n" * 5000),
    (HERMES, '{"name": "f", "arguments": {}}'),
    (LLAMA3, '{"name": "John", "parameters": {}}'),
    (LLAMA3, '{"city": "Paris"}'),
    (LLAMA3, 'So: {"name": "f", "parameters": {}}'),
    (LLAMA3, "<|python_tag|>brave_search.call(query='x')"),
    (MISTRAL, "[TOOL_CALLS] [1, 2]"),
    (MISTRAL, "[TOOL_CALLS]unknown[ARGS]{}"),
    (MISTRAL, "[TOOL_CALLS]f[NONSENSE]{}"),
    (MISTRAL, "[TOOL_CALLS]" + "f" * 10_000),
    (JSON_CALLS, '[1, 2, {"name": "f"}]'),
]


@pytest.mark.parametrize(("markup", "text", "expected"), FOUND)
def test_calls_are_found(markup: Markup, text: str, expected: Answer) -> None:
    parser, spans = read(markup, text)
    assert answer(spans) == expected
    assert parser.all_complete
    assert all(json.loads(arguments) is not None for _, arguments in expected[1])


@pytest.mark.parametrize(("markup", "text"), WORDS)
def test_text_that_is_not_a_call(markup: Markup, text: str) -> None:
    begun = time.monotonic()
    parser, spans = read(markup, text)
    assert answer(spans) == (text, [])
    assert not parser.all_complete
    assert time.monotonic() - begun < 20  # not quadratic


BROKEN: list[tuple[str, Answer]] = [
    ('{"name": "f", "arguments": {"a": tru}}', ("}}", [("f", '{"a": tru')])),
    ('{"name": "f", "arguments": {"a": [1, ', ("", [("f", '{"a": [1, ')])),
    ('{"name": "f", "arguments": {"a": ' + "[" * 300, ("[" * (301 - 128), [("f", '{"a": ' + "[" * 127)])),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_an_incomplete_call_keeps_its_arguments_so_far(text: str, expected: Answer) -> None:
    parser, spans = read(HERMES, "<tool_call>" + text)
    assert answer(spans) == expected
    assert not parser.all_complete


def test_a_second_call_is_not_parsed_unless_several_are_allowed() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    parser, spans = read(HERMES, text, text, several=False)
    assert parser.finished
    assert answer(spans) == ("", [F])
    assert sum(span.length for span in spans) == text.index("</tool_call>")


def test_a_remainder_is_not_text_with_only_calls() -> None:
    for text in ('[{"name": "f", "argum', '[{"name": "f", "arguments": {}}, {"na', "["):
        assert answer(read(JSON_CALLS, text, only_calls=True)[1])[0] == ""


def test_arguments_stream_and_text_is_held_back_only_while_it_may_be_markup() -> None:
    parser = ToolCallParser(HERMES, NAMES)
    assert answer(parser.push("I say <b>")) == ("I say <b>", [])
    assert parser.push(' <tool_call>{"name": "weather", "arguments": ') == []
    shown = [answer_part(parser.push(piece)) for piece in ('{"ci', 'ty": "Pa', 'ris"}', "}</tool_call>")]
    assert shown == ['{"ci', 'ty": "Pa', 'ris"}', ""]


def answer_part(spans: list[Span]) -> str:
    return "".join(span.text for span in spans if span.kind is SpanKind.ARGUMENTS)


@pytest.mark.parametrize("markup", [HERMES, LLAMA3, MISTRAL])
def test_no_marker_overlaps_itself(markup: Markup) -> None:
    assert all(marker.count(marker[0]) == 1 for marker in (markup.opener, markup.closer) if marker)


fragments = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<|python_tag|>",
        "[TOOL_CALLS]",
        "[ARGS]",
        '{"name": "f", "arguments": ',
        '"arguments"',
        '{"name": "weather"',
        '{"a": [1, "é👍\\n"]}',
        '"name": "f"',
        *'{}[]",:; \n<é👍fx1',
    ]
)
texts = st.lists(fragments, max_size=12).map("".join) | st.sampled_from([text for _, text, _ in FOUND])


@settings(max_examples=400)
@given(st.sampled_from([HERMES, LLAMA3, MISTRAL, JSON_CALLS]), texts, st.booleans(), st.booleans(), st.data())
def test_any_split_gives_the_same_result_and_each_character_is_in_one_span(
    markup: Markup, text: str, several: bool, only_calls: bool, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, spans = read(markup, text, several=several, only_calls=only_calls)
    cut, cut_spans = read(markup, *pieces, several=several, only_calls=only_calls)
    assert answer(cut_spans) == answer(spans)
    assert (cut.finished, cut.all_complete, cut.calls) == (whole.finished, whole.all_complete, whole.calls)
    at = 0
    for span in spans:
        if span.kind is SpanKind.TEXT or span.text != "{}":
            assert span.text in ("", text[at : at + span.length])
        at += span.length
    assert at <= len(text) if whole.finished else at == len(text)
