"""Defaults and derived values of the fields that both generating endpoints share."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.sampling import MAX_LOGIT_BIAS, SamplingRequest


def parse(**fields: Any) -> SamplingRequest:
    return SamplingRequest.parse({"model": "m", **fields})


def test_choices_and_candidates() -> None:
    assert (parse().choices, parse().candidates) == (1, 1)
    assert (parse(n=2).choices, parse(n=2).candidates) == (2, 2)
    assert (parse(n=2, best_of=5).choices, parse(n=2, best_of=5).candidates) == (2, 5)
    assert (parse(n=2, best_of=0).choices, parse(n=2, best_of=0, stream=True).candidates) == (2, 2)


def test_stop_strings_are_a_list() -> None:
    assert [parse(**fields).stop_strings for fields in ({}, {"stop": "a"}, {"stop": ["a", "b"]})] == [
        [],
        ["a"],
        ["a", "b"],
    ]


def test_usage_is_part_of_a_stream_on_request_only() -> None:
    assert not parse(stream=True).include_usage
    assert parse(stream=True, stream_options={"include_usage": True}).include_usage


@pytest.mark.parametrize(
    "bias", [{"-1": 1}, {"x": 1}, {"1": 101}, {"99999999999": 1}, {str(each): 1 for each in range(MAX_LOGIT_BIAS + 1)}]
)
def test_invalid_logit_biases_are_refused(bias: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(logit_bias=bias)
    assert str(caught.value.param).startswith("logit_bias")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ({"stream_options": {}}, "stream_options"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ],
)
def test_conflicting_fields_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param
