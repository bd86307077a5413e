"""Addresses and names as users type them."""

from __future__ import annotations

import pytest

from auth_billing.errors import UnacceptableValue
from auth_billing.people.input_normalisation import checked_email, checked_name, fold_email


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "@b", "a@", "a@b\r\nBcc: c@d", "a b@c", "a@b c", "a@@b", "a@b@c", "a@-b", "a@b..c", ".a@b", "a\0@b"),
        *("<a@b>", '"a b"@c', "a@[127.0.0.1]", "x" * 255 + "@b", "a@" + "b" * 300, "ﷺ" * 250 + "@b", "a@b\u202e.org"),
        *(
            "=?utf-8?q?a=0D=0ABcc=3A=20b?=@c",
            "x.＝？utf-8？b？YQ0KQmNj？＝@c",
        ),  # encoded words (RFC 2047) of a mail's header
    ],
)
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(UnacceptableValue) as caught:
        checked_email(text)
    assert caught.value.param == "email"


def test_addresses_are_compared_case_folded_and_normalised() -> None:
    assert checked_email(" ＡＤＡ@example.org ") == "ADA@example.org"
    assert fold_email("Straße@EXAMPLE.org") == fold_email("STRASSE@example.org")
    assert checked_email("zażółć.o'neill+x@żółw.example") == "zażółć.o'neill+x@żółw.example"


@pytest.mark.parametrize("text", ["", "  ", "x" * 101, "x" * 10_000, "a\nb", "a\0", "a\u202eb", "\u200b", "a\ud800"])
def test_invalid_names_are_refused(text: str) -> None:
    with pytest.raises(UnacceptableValue):
        checked_name(text)


def test_unusual_names_are_accepted() -> None:
    for name in ("<script>alert(1)</script>", "=HYPERLINK()", "李雷", "O'Brien"):
        assert checked_name(name) == name
