from __future__ import annotations

import pytest

from inference_worker.search.regular_expressions import SEARCHED_CHARACTERS, is_supported, last_match


@pytest.mark.parametrize(
    "pattern",
    [
        "answer: (.+)",
        r"\\1",
        "(?i)x",
        r"[a-z]+\{",
        r"\d{1,3}(?:,\d{3})*",
        "(?P<n>a)",
        "a{1,}",
        r"(?:\s+\d+)+ (\w+)+",
        r"(?:\d{3} ?)+(?:,\d+)+(?:\.\d+)+ a{20}",
        r"[\[(]x",
        "[^]a]{2}",
        "",
    ],
)
def test_supported_patterns(pattern: str) -> None:
    assert is_supported(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "(?R)",
        r"(a)\1",
        "(?P<a>x)(?P=a)",
        "(?=a)",
        "(?<!a)b",
        "(?>a)",
        "a{1001}",
        "a{100000000}",
        "(?:a{50}){50}",
        "(?:" * 80 + "a" + "){1,2}" * 80,
        "(?:" * 60 + "a" + "b)+c" * 60,
        "(?:" * 60 + "a" + "){1,}" * 60,
        "(" * 90 + "a?" + ")" * 90 + "{1000}",
        f"(?:[{'a-f' * 40}]b)" + "{1000}",
        "(?:x){e<=1}",
        "[[a]--[b]]",
        r"\p{L}",
        r"\K",
    ],
)
def test_patterns_with_unbounded_cost_are_rejected(pattern: str) -> None:
    assert not is_supported(pattern)
    assert last_match(pattern, "aaaa") is None


@pytest.mark.parametrize("bomb", ["(a+)+$", "(?:a|aa)+$", "(.*a){9}$"])
def test_a_pattern_that_backtracks_is_stopped(bomb: str) -> None:
    assert is_supported(bomb)
    with pytest.raises(TimeoutError):
        last_match(bomb, "a" * 5000 + "!")


def test_the_first_group_of_the_last_match_is_found() -> None:
    assert last_match(r"answer: (\w+)", "answer: a, no, answer: b") == "b"
    assert last_match(r"a\w", "ab ac") == "ac"
    assert last_match(r"x(y)?", "x") is None


def test_only_the_end_of_a_text_is_searched() -> None:
    assert last_match("a", "a" + "b" * (SEARCHED_CHARACTERS - 1)) == "a"
    assert last_match("a", "a" + "b" * SEARCHED_CHARACTERS) is None
