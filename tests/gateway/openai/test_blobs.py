"""Query parameters of signed addresses: missing ones are empty, others are refused."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.blobs import AddressQuery


def test_parameters_of_an_address() -> None:
    query = AddressQuery.parse_query([("expires", "1"), ("signature", "ab")])
    assert (query.expires, query.signature) == ("1", "ab")
    assert AddressQuery.parse_query([]).signature == ""


@pytest.mark.parametrize("items", [[("expires", "1"), ("expires", "2")], [("other", "1")], [("expires", "9" * 257)]])
def test_other_parameters_are_refused(items: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequest):
        AddressQuery.parse_query(items)
