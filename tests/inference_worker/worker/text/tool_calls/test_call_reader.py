"""Calls are found in every family's markup, however the text is cut; what is broken is text, and nothing is lost."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_worker.worker.text.tool_calls.call_reader import CallReader
from inference_worker.worker.text.tool_calls.family import FORCED, MARKUPS, Family
from inference_worker.worker.text.tool_calls.markup import Kind, Markup, Span

NAMES = frozenset({"f", "weather"})
HERMES, LLAMA3, MISTRAL = (MARKUPS[family] for family in (Family.HERMES, Family.LLAMA3, Family.MISTRAL))
Answer = tuple[str, list[tuple[str, str]]]
"""The words, and each call's name and arguments."""


def read(markup: Markup, *pieces: str, several: bool = True, only_calls: bool = False) -> tuple[CallReader, list[Span]]:
    reader = CallReader(markup, NAMES, several=several, only_calls=only_calls)
    spans = [span for piece in pieces for span in reader.push(piece)]
    return reader, spans if reader.finished else spans + reader.finish()


def answer(spans: list[Span]) -> Answer:
    words = "".join(span.text for span in spans if span.kind is Kind.TEXT)
    calls: dict[int, list[str]] = {}
    for span in spans:
        if span.kind is Kind.ARGUMENTS:
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
    (FORCED, f'[{{"name": "weather", "arguments": {RAIN[1]}}}, {{"name": "f", "arguments": {{}}}}]', ("", [RAIN, F])),
    (FORCED, '{"name": "f", "arguments": {}}', ("", [F])),
    # Cut off within a further call, before it was one.
    (FORCED, '[{"name": "f", "arguments": {}},\n{"name": "', ("", [F])),
    (FORCED, '[{"name": "f", "arguments": {}}, ', ("", [F])),
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
    (FORCED, '[1, 2, {"name": "f"}]'),
]


@pytest.mark.parametrize(("markup", "text", "expected"), FOUND)
def test_calls_are_found(markup: Markup, text: str, expected: Answer) -> None:
    reader, spans = read(markup, text)
    assert answer(spans) == expected
    assert reader.all_complete
    assert all(json.loads(arguments) is not None for _, arguments in expected[1])


@pytest.mark.parametrize(("markup", "text"), WORDS)
def test_what_is_no_call_is_text(markup: Markup, text: str) -> None:
    begun = time.monotonic()
    reader, spans = read(markup, text)
    assert answer(spans) == (text, [])
    assert not reader.all_complete
    assert time.monotonic() - begun < 20  # not quadratic


BROKEN: list[tuple[str, Answer]] = [
    ('{"name": "f", "arguments": {"a": tru}}', ("}}", [("f", '{"a": tru')])),
    ('{"name": "f", "arguments": {"a": [1, ', ("", [("f", '{"a": [1, ')])),
    ('{"name": "f", "arguments": {"a": ' + "[" * 300, ("[" * (301 - 128), [("f", '{"a": ' + "[" * 127)])),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_a_call_that_breaks_off_stays_as_far_as_it_came(text: str, expected: Answer) -> None:
    reader, spans = read(HERMES, "<tool_call>" + text)
    assert answer(spans) == expected
    assert not reader.all_complete


def test_no_second_call_where_one_is_all() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    reader, spans = read(HERMES, text, text, several=False)
    assert reader.finished
    assert answer(spans) == ("", [F])
    assert sum(span.length for span in spans) == text.index("</tool_call>")


def test_where_there_are_only_calls_a_rest_is_no_text() -> None:
    for text in ('[{"name": "f", "argum', '[{"name": "f", "arguments": {}}, {"na', "["):
        assert answer(read(FORCED, text, only_calls=True)[1])[0] == ""


def test_arguments_stream_as_they_come_and_words_wait_only_while_they_may_be_markup() -> None:
    reader = CallReader(HERMES, NAMES)
    assert answer(reader.push("I say <b>")) == ("I say <b>", [])
    assert reader.push(' <tool_call>{"name": "weather", "arguments": ') == []
    shown = [answer_part(reader.push(piece)) for piece in ('{"ci', 'ty": "Pa', 'ris"}', "}</tool_call>")]
    assert shown == ['{"ci', 'ty": "Pa', 'ris"}', ""]


def answer_part(spans: list[Span]) -> str:
    return "".join(span.text for span in spans if span.kind is Kind.ARGUMENTS)


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
@given(st.sampled_from([HERMES, LLAMA3, MISTRAL, FORCED]), texts, st.booleans(), st.booleans(), st.data())
def test_any_cut_gives_the_same_and_each_character_is_in_one_span(
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
        if span.kind is Kind.TEXT or span.text != "{}":
            assert span.text in ("", text[at : at + span.length])
        at += span.length
    assert at <= len(text) if whole.finished else at == len(text)
