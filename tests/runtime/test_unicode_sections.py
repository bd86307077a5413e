"""Normal forms by sections."""

from __future__ import annotations

import unicodedata
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.unicode_sections import NormalForm, normal_sections

MARKS = "a" + "\u0327\u0301" * 200_000


@given(st.sampled_from(get_args(NormalForm)), st.text(max_size=400))
def test_joined_sections_have_the_same_characters(form: NormalForm, text: str) -> None:
    joined = "".join(normal_sections(form, text))
    assert unicodedata.normalize(form, joined) == unicodedata.normalize(form, text)
    assert len(joined.encode()) >= len(unicodedata.normalize(form, text).encode())
    if len(text) <= 128:
        assert joined == unicodedata.normalize(form, text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("form", get_args(NormalForm))
def test_a_long_run_of_marks_does_not_take_minutes(form: NormalForm) -> None:
    assert sum(map(len, normal_sections(form, MARKS))) > 0
