"""Refresh tokens: parsed strictly, stored as digests, and their successors sealed."""

from __future__ import annotations

import pytest

from auth_billing.errors import InvalidSession
from auth_billing.people.refresh_tokens import MAX_LENGTH, RefreshToken, new_token, parse

TOKEN = RefreshToken("sess-1", bytes(range(32)))


def test_a_token_is_parsed_from_its_text() -> None:
    for token in (TOKEN, new_token("sess-2")):
        assert parse(token.text) == token


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sess-1",
        "sess-1.",
        TOKEN.text[:-1],
        TOKEN.text + "A",
        TOKEN.text.removeprefix("sess-1"),
        TOKEN.text.replace("A", "!", 1),
        "é" + TOKEN.text,
        "s" * MAX_LENGTH + TOKEN.text,
    ],
)
def test_malformed_tokens_are_refused(text: str) -> None:
    with pytest.raises(InvalidSession):
        parse(text)


def test_only_the_used_token_unseals_its_successor() -> None:
    successor = new_token("sess-1")
    sealed = TOKEN.seal(successor)
    assert successor.secret not in sealed
    assert TOKEN.unseal(sealed) == successor
    assert new_token("sess-1").unseal(sealed) != successor


def test_the_secret_is_neither_in_the_text_of_the_record_nor_in_the_digest() -> None:
    assert str(TOKEN.secret) not in repr(TOKEN)
    assert TOKEN.digest != TOKEN.secret
    assert len({TOKEN.digest, new_token("sess-1").digest}) == 2
