"""Every shared sentence has both languages with the same values."""

from __future__ import annotations

import string

import pytest

from assistant.tools import sentences
from assistant.tools.sentences import Sentence

ALL = {name: each for name, each in vars(sentences).items() if isinstance(each, Sentence)}


def values(template: str) -> set[str | None]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("name", sorted(ALL))
def test_languages_have_the_same_values(name: str) -> None:
    assert values(ALL[name].en) == values(ALL[name].pl)
