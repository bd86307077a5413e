"""The field `test_time_compute`: its defaults, and each wrong combination by the name of its field."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.test_time_compute import SearchOptions
from router.messages import CONFIDENCE, Aggregate, EarlyStopping, Extraction, ExtractionKind, Search, SearchMethod

HI = {"role": "user", "content": "hi"}
BEST = {"method": "best_of_n", "verifier": "rm"}
BEAM = {"method": "beam_search", "verifier": "prm"}
VOTE = {"method": "self_consistency"}
LIKELY = {"method": "likelihood_beam_search"}


def parse(search: Any, **fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.parse({"model": "m", "messages": [HI], "test_time_compute": search, **fields})


def wire(search: dict[str, Any], *, prompt: int = 10, answer: int = 100, most: int = 10**6) -> Search:
    options = parse(search).test_time_compute
    assert options is not None
    return options.to_wire(options.verifier or "", prompt_tokens=prompt, answer_tokens=answer, max_budget=most)


def refused(search: Any, **fields: Any) -> str | None:
    with pytest.raises(InvalidRequest) as caught:
        parse(search, **fields)
    return caught.value.param


def test_defaults_follow_from_the_method() -> None:
    assert wire(VOTE) == Search(method=SearchMethod.SELF_CONSISTENCY, n=8, budget_tokens=8 * 100)
    assert wire(BEST) == Search(method=SearchMethod.BEST_OF_N, n=8, budget_tokens=8 * 165, verifier="rm")
    assert wire(BEAM) == Search(
        method=SearchMethod.BEAM_SEARCH, n=4, expansions=4, budget_tokens=16 * 165 * 64, verifier="prm"
    )
    assert wire(LIKELY) == Search(
        method=SearchMethod.LIKELIHOOD_BEAM_SEARCH, n=4, budget_tokens=4 * 100, step_tokens=32
    )
    assert wire({**BEAM, "method": "lookahead"}) == Search(
        method=SearchMethod.LOOKAHEAD,
        n=4,
        expansions=4,
        lookahead_steps=1,
        budget_tokens=2 * 16 * 165 * 64,
        verifier="prm",
    )


def test_every_field_reaches_the_wire() -> None:
    fields = {
        "method": "dvts",
        "n": 3,
        "expansions": 5,
        "max_steps": 6,
        "step_tokens": 7,
        "separator": "\n",
        "verifier": "prm",
        "aggregate": "min",
        "budget_tokens": 99,
        "return_candidates": True,
    }
    assert wire(fields) == Search(
        method=SearchMethod.DVTS,
        n=3,
        expansions=5,
        max_steps=6,
        step_tokens=7,
        separator="\n",
        verifier="prm",
        aggregate=Aggregate.MIN,
        budget_tokens=99,
        return_candidates=True,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("boxed", Extraction(kind=ExtractionKind.BOXED)),
        ("text", Extraction(kind=ExtractionKind.TEXT)),
        ("model", Extraction(kind=ExtractionKind.MODEL)),
        ({"regex": "answer: (.+)"}, Extraction(kind=ExtractionKind.REGEX, pattern="answer: (.+)")),
        ({"json_path": "results.0"}, Extraction(kind=ExtractionKind.JSON_PATH, pattern="results.0")),
    ],
)
def test_results_are_extracted_as_requested(given: Any, expected: Extraction) -> None:
    assert wire({**VOTE, "extract": given}).extract == expected


def test_a_template_says_how_results_are_found_unless_the_request_does() -> None:
    assert wire({**VOTE, "template": "qwen2.5_math"}).extract == Extraction(kind=ExtractionKind.BOXED)
    assert wire({**VOTE, "template": "steps"}).extract.pattern.startswith("Result:")
    given = wire({**VOTE, "template": "qwen2.5_math", "extract": "last_number"}).extract
    assert given == Extraction(kind=ExtractionKind.LAST_NUMBER)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 1])
def test_the_confidence_of_a_vote_reaches_the_wire(confidence: float) -> None:
    assert wire({**VOTE, "confidence": confidence}).confidence == confidence
    assert wire(VOTE).confidence == CONFIDENCE


def test_a_default_budget_is_capped_and_allows_a_token_for_each_path() -> None:
    assert wire(BEAM, most=500).budget_tokens == 500
    assert wire({**VOTE, "n": 64}, answer=0).budget_tokens == 64
    assert wire({**VOTE, "n": 2, "extract": "model"}).budget_tokens == 2 * (100 + 32)
    assert wire({**VOTE, "n": 2, "extract": "model"}, most=5).budget_tokens == 2 * (1 + 32)
    assert wire({**BEAM, "budget_tokens": 17}, most=500).budget_tokens == 17


@pytest.mark.parametrize(
    ("search", "field"),
    [
        ({**LIKELY, "n": 17}, "n"),
        ({**LIKELY, "verifier": "rm"}, "verifier"),
        ({**LIKELY, "expansions": 2}, "expansions"),
        ({**LIKELY, "step_tokens": 2}, "step_tokens"),
        ({**LIKELY, "extract": "boxed"}, "extract"),
        ({**LIKELY, "budget_tokens": 3}, "budget_tokens"),
        *(({**LIKELY, "length_penalty": each}, "length_penalty") for each in (10.1, -11, "1", float("inf"))),
        *(({**LIKELY, "early_stopping": each}, "early_stopping") for each in ("always", 1)),
        ({**BEAM, "length_penalty": 1.0}, "length_penalty"),
        ({**VOTE, "early_stopping": False}, "early_stopping"),
        *(({**VOTE, "confidence": each}, "confidence") for each in (0.49, 1.01, 95, "0.9", True, float("nan"))),
        ({**BEST, "method": "weighted_best_of_n", "confidence": 0.9}, "confidence"),
        ({**VOTE, "template": "cot"}, "template"),
        ({}, "method"),
        ({"method": "mcts"}, "method"),
        ({"method": "best_of_n"}, "verifier"),
        ({"method": "weighted_best_of_n"}, "verifier"),
        ({"method": "beam_search", "verifier": None}, "verifier"),
        ({**VOTE, "verifier": "rm"}, "verifier"),
        ({**VOTE, "aggregate": "last"}, "aggregate"),
        ({**VOTE, "separator": "\n"}, "separator"),
        ({**VOTE, "expansions": 2}, "expansions"),
        ({**BEST, "expansions": 1}, "expansions"),
        ({**BEST, "max_steps": 2}, "max_steps"),
        ({**BEST, "step_tokens": 2}, "step_tokens"),
        ({**BEAM, "lookahead_steps": 1}, "lookahead_steps"),
        ({**BEAM, "method": "lookahead", "lookahead_steps": 0}, "lookahead_steps"),
        ({**BEAM, "method": "lookahead", "lookahead_steps": 9}, "lookahead_steps"),
        ({**BEAM, "method": "lookahead", "budget_tokens": 31}, "budget_tokens"),
        ({**BEST, "extract": "boxed"}, "extract"),
        ({**BEAM, "extract": "boxed"}, "extract"),
        ({**BEAM, "n": 64, "expansions": 5}, "expansions"),
        ({**BEAM, "budget_tokens": 15}, "budget_tokens"),
        ({**BEST, "n": 8, "budget_tokens": 7}, "budget_tokens"),
        ({**VOTE, "n": 8, "budget_tokens": 8 * 33 - 1, "extract": "model"}, "budget_tokens"),
        *(({**BEST, "n": n}, "n") for n in (0, -1, 65, 10**9, True, "3", 2.0)),
        *(({**BEAM, "expansions": n}, "expansions") for n in (0, 257, 2**63, 1.5)),
        *(({**BEAM, "max_steps": n}, "max_steps") for n in (0, 65)),
        *(({**BEAM, "step_tokens": n}, "step_tokens") for n in (0, 2**31)),
        *(({**BEAM, "separator": text}, "separator") for text in ("", "x" * 65)),
        ({**BEAM, "aggregate": "median"}, "aggregate"),
        ({**BEAM, "beam_width": 4}, "beam_width"),
        ({**BEAM, "return_candidates": "yes"}, "return_candidates"),
        ({**VOTE, "extract": "last_word"}, "extract"),
        ({**VOTE, "extract": {}}, "extract"),
        ({**VOTE, "extract": {"regex": "a", "json_path": "a"}}, "extract"),
        ({**VOTE, "extract": {"regex": "(a+)+$"}}, "extract.regex"),
        ({**VOTE, "extract": {"regex": ""}}, "extract.regex"),
        ({**VOTE, "extract": {"regex": "a" * 513}}, "extract.regex"),
        *(({**VOTE, "extract": {"json_path": path}}, "extract.json_path") for path in ("", ".", "a..b", "a.", "\n")),
    ],
)
def test_a_wrong_search_is_refused_by_its_field(search: dict[str, Any], field: str) -> None:
    assert refused(search) == f"test_time_compute.{field}"


@pytest.mark.parametrize("search", [True, "best_of_n", [], 3])
def test_a_search_is_an_object(search: Any) -> None:
    assert refused(search) == "test_time_compute"


TOOL = {"type": "function", "function": {"name": "f"}}
REPLY = {"role": "assistant", "content": "4"}


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("n", {"n": 2}),
        ("best_of", {"best_of": 2}),
        ("logprobs", {"logprobs": True}),
        ("prompt_logprobs", {"prompt_logprobs": 0}),
        ("echo", {"echo": True}),
        ("continue_final_message", {"continue_final_message": True, "messages": [HI, REPLY]}),
        ("tools", {"tools": [TOOL]}),
        ("response_format", {"response_format": {"type": "json_object"}}),
        ("structured_outputs", {"structured_outputs": {"choice": ["a"]}}),
        ("temperature", {"temperature": 0}),
        ("top_k", {"top_k": 1}),
    ],
)
@pytest.mark.parametrize("search", [VOTE, BEAM])
def test_fields_that_contradict_a_search_are_refused(
    search: dict[str, Any], param: str, fields: dict[str, Any]
) -> None:
    assert refused(search, **fields) == param


@pytest.mark.parametrize("param", ["presence_penalty", "frequency_penalty", "min_tokens"])
def test_fields_that_count_tokens_of_the_answer_need_whole_answers(param: str) -> None:
    assert refused(BEAM, **{param: 1}) == param
    assert parse(BEST, **{param: 1}).test_time_compute is not None
    assert parse(BEAM, **{param: 0}).test_time_compute is not None


def test_neutral_values_and_single_paths_are_accepted() -> None:
    neutral = {
        "n": 1,
        "best_of": 1,
        "logprobs": False,
        "echo": False,
        "tools": [TOOL],
        "tool_choice": "none",
        "response_format": {"type": "text"},
    }
    assert parse(BEAM, **neutral).test_time_compute == SearchOptions(method="beam_search", verifier="prm")
    assert parse(BEAM, best_of=0).test_time_compute is not None
    assert parse({**BEST, "n": 1}, temperature=0).test_time_compute is not None


@pytest.mark.parametrize(
    ("fields", "expected", "choices"),
    [
        ({"n": 3}, {"n": 3}, 3),
        ({"best_of": 4}, {"n": 4}, 1),
        ({"n": 2, "best_of": 4, "stream": True}, {"n": 4}, 2),
        ({"length_penalty": -0.5}, {"n": 1, "length_penalty": -0.5}, 1),
        ({"n": 2, "early_stopping": True}, {"n": 2, "early_stopping": EarlyStopping.COMPLETE}, 2),
        ({"n": 2, "early_stopping": "never"}, {"n": 2, "early_stopping": EarlyStopping.NEVER}, 2),
    ],
)
def test_vllms_fields_request_beam_search(fields: dict[str, Any], expected: dict[str, Any], choices: int) -> None:
    body = parse(None, use_beam_search=True, temperature=0, **fields)
    assert body.search is not None
    assert (body.choices, body.candidates) == (choices, choices)
    wanted = Search(
        method=SearchMethod.LIKELIHOOD_BEAM_SEARCH, budget_tokens=expected["n"] * 100, step_tokens=32, **expected
    )
    assert body.search.to_wire("", prompt_tokens=10, answer_tokens=100, max_budget=10**6) == wanted


def test_without_beam_search_its_fields_have_neutral_values_only() -> None:
    assert parse(None, use_beam_search=False, length_penalty=1, early_stopping=False).search is None
    assert refused(None, length_penalty=0.9) == "length_penalty"
    assert refused(None, early_stopping=True) == "early_stopping"


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("temperature", {"temperature": 0.7}),
        ("temperature", {"temperature": 1}),
        ("top_p", {"top_p": 0.9}),
        ("top_k", {"top_k": 5}),
        ("min_p", {"min_p": 0.1}),
        ("presence_penalty", {"presence_penalty": 1}),
        ("frequency_penalty", {"frequency_penalty": 1}),
        ("repetition_penalty", {"repetition_penalty": 1.1}),
        ("logit_bias", {"logit_bias": {"5": 1}}),
        ("allowed_token_ids", {"allowed_token_ids": [5]}),
        ("bad_words", {"bad_words": ["no"]}),
        ("min_tokens", {"min_tokens": 2}),
        ("stop", {"stop": "END"}),
        ("logprobs", {"logprobs": True}),
        ("echo", {"echo": True}),
        ("tools", {"tools": [TOOL]}),
        ("response_format", {"response_format": {"type": "json_object"}}),
    ],
)
@pytest.mark.parametrize("request_", [{"use_beam_search": True}, {"test_time_compute": LIKELY}], ids=["vllm", "own"])
def test_fields_that_contradict_beam_search_are_refused(
    request_: dict[str, Any], param: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ChatCompletionRequest.parse({"model": "m", "messages": [HI], **request_, **fields})
    assert caught.value.param == param
    assert next(iter(request_)) in str(caught.value)


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("use_beam_search", {"test_time_compute": VOTE}),
        ("n", {"n": 17}),
        ("best_of", {"best_of": 17}),
        ("best_of", {"n": 3, "best_of": 2}),
        ("length_penalty", {"length_penalty": 11}),
        ("early_stopping", {"early_stopping": "sometimes"}),
    ],
)
def test_a_wrong_beam_search_is_refused_by_its_field(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ChatCompletionRequest.parse({"model": "m", "messages": [HI], "use_beam_search": True, **fields})
    assert caught.value.param == param
