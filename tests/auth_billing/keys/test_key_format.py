"""The format of API keys: generation, parsing, and offline rejection of garbage."""

import re
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth_billing.keys import key_format


def test_a_key_has_the_documented_form_and_parses() -> None:
    key = key_format.generate()
    assert re.fullmatch(r"hr_live_[0-9A-Za-z]{10}_[0-9A-Za-z_-]{43}_[0-9A-Za-z]{6}", key.text)
    assert key_format.parse(key.text) == key


def test_keys_differ_in_id_and_secret() -> None:
    keys = [key_format.generate() for _ in range(100)]
    assert len({key.key_id for key in keys}) == len({key.secret for key in keys}) == 100


def test_the_format_is_pinned_by_a_known_key() -> None:
    key = key_format.ApiKey("0123456789", "A" * 43)
    assert key_format.parse(key.text) == key
    assert key.text == PINNED


PINNED = "hr_live_0123456789_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_1CD8pc"


@given(st.integers(0, 77), st.sampled_from(string.ascii_letters + string.digits + "_-"))
def test_each_single_typo_fails_the_checksum(position: int, letter: str) -> None:
    text = key_format.ApiKey("0123456789", "q8-_Zk" * 7 + "x").text
    position %= len(text)
    typo = text[:position] + letter + text[position + 1 :]
    assert key_format.parse(typo) == (key_format.parse(text) if typo == text else None)


@given(st.text())
def test_garbage_is_rejected(text: str) -> None:
    assert key_format.parse(text) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t + "x",
        lambda t: t[:-1],
        lambda t: t + "\n",
        lambda t: " " + t,
        lambda t: t.upper(),
        lambda t: t.replace("hr_live_", "hr_test_"),
        lambda t: t + "\0",
        lambda t: t * 20_000,
        lambda t: t[:8] + "é" + t[9:],
    ],
)
def test_modified_keys_are_rejected(change: Callable[[str], str]) -> None:
    assert key_format.parse(change(key_format.generate().text)) is None


def test_the_secret_is_not_in_the_repr() -> None:
    key = key_format.generate()
    assert key.secret not in repr(key)


def test_the_scanning_pattern_finds_a_key_in_a_file() -> None:
    key = key_format.generate().text
    assert re.findall(key_format.SCANNING_PATTERN, f'OPENAI_API_KEY="{key}"\nother=hr_live_short') == [key]


def test_the_digest_depends_on_pepper_and_secret() -> None:
    digests = {key_format.digest(pepper, secret) for pepper in (b"a" * 32, b"b" * 32) for secret in ("x", "y")}
    assert len(digests) == 4
    assert {len(digest) for digest in digests} == {32}
