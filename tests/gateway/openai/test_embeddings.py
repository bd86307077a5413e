"""Request bodies of embeddings."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.embeddings import MAX_INPUTS, EmbeddingRequest


def parse(**fields: Any) -> EmbeddingRequest:
    return EmbeddingRequest.parse({"model": "m", "input": "a", **fields})


def test_every_form_of_input_becomes_a_list() -> None:
    assert [parse(input=each).input for each in ("a", ["a", "b"], [1, 2], [[1], [2]])] == [
        ["a"],
        ["a", "b"],
        [[1, 2]],
        [[1], [2]],
    ]
    assert len(parse(input=["a"] * MAX_INPUTS).input) == MAX_INPUTS


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"encoding_format": "hex"}, "encoding_format"),
    ],
)
def test_invalid_fields_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param


def test_unsupported_values_are_refused_and_neutral_ones_accepted() -> None:
    assert parse(normalize=True, endianness="native", embed_dtype=None)
    with pytest.raises(UnsupportedParameter):
        parse(normalize=False)
