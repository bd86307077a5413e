"""Sentences of the mathematics tool."""

from __future__ import annotations

import string

import pytest

from assistant.tools.mathematics import sentences
from assistant.tools.sentences import Sentence

ALL = {name: each for name, each in vars(sentences).items() if isinstance(each, Sentence)}


@pytest.mark.parametrize("name", sorted(ALL))
def test_both_languages_have_the_same_values(name: str) -> None:
    fields = [
        {field for _, field, _, _ in string.Formatter().parse(text) if field} for text in (ALL[name].en, ALL[name].pl)
    ]
    assert fields[0] == fields[1]
    assert ALL[name].en != ALL[name].pl
