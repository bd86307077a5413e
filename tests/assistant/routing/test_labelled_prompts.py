"""The training prompts: over 1,000, about half in each language, all labels, no near-duplicates; other files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from assistant.routing.labelled_prompts import LABELS, InvalidPrompts, read_prompts
from assistant.routing.language import Language
from assistant.turn import Turn
from tests.assistant.routing.similarity import most_similar

LANGUAGES: tuple[Language, ...] = ("en", "pl")
MOST_ALIKE = 0.7


def test_there_are_many_in_two_languages() -> None:
    counts = Counter(each.lang for each in read_prompts())
    assert all(counts[lang] >= 500 for lang in LANGUAGES)


def test_every_label_has_prompts_in_both_languages() -> None:
    counts = Counter((each.lang, each.tool) for each in read_prompts())
    assert all(counts[lang, label] >= 60 for lang in LANGUAGES for label in LABELS)


def test_there_are_follow_ups() -> None:
    assert sum(bool(each.history) for each in read_prompts()) >= 20


def test_no_two_are_nearly_alike() -> None:
    texts = [each.text for each in read_prompts() if not each.history]
    for number, text in enumerate(texts):
        others = texts[:number] + texts[number + 1 :]
        assert most_similar(text, others)[0] <= MOST_ALIKE, (text, most_similar(text, others))


def test_a_history_becomes_turns(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text(
        '{"lang": "en", "text": "and on Sunday?", "tool": "weather", "history":'
        ' [{"role": "user", "content": "Rain in Bath?"}, {"role": "assistant", "content": "No."}]}\n\n'
    )
    (prompt,) = read_prompts(file)
    assert prompt.turns == [Turn("user", "Rain in Bath?"), Turn("assistant", "No.")]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"lang": "en", "text": "a"}',
        '{"lang": "de", "text": "a", "tool": "math"}',
        '{"lang": "en", "text": "a", "tool": "maths"}',
        '{"lang": "en", "text": "a", "tool": "math", "label": "math"}',
        "\xff",
    ],
)
def test_invalid_lines_are_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text('{"lang": "en", "text": "a", "tool": "none"}\n' + line, encoding="latin-1")
    with pytest.raises(InvalidPrompts, match=r"some\.jsonl, line 2"):
        read_prompts(file)
