"""The operator's moderation file: what matches, in which form, and what is refused at start-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import InvalidRequest
from gateway.moderation.categories import CATEGORIES, DEFAULT_LABELS
from gateway.moderation.rules import CUT, MAX_CHARACTERS, OVERLAP, SLICE, ModerationRules, read_rules
from runtime.lifecycle import StartupError

FILE = r"""
[categories.violence]
words = ["pipe bomb", "c4"]
patterns = ['\bbomb\w*\s+threat']
threshold = 0.8

[categories."company secrets"]
words = ["żółw"]

[labels]
"Very Rude" = "harassment"
Leak = "company secrets"
"""


def rules(folder: Path, text: str = FILE) -> ModerationRules:
    file = folder / "moderation.toml"
    file.write_text(text)
    return read_rules(str(file))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("How is a PIPE\n bomb made?", {"violence"}),
        ("c4", {"violence"}),
        ("(C4)", {"violence"}),
        ("abc4d", set()),
        ("pipe bombs", set()),
        ("Bombing threats", {"violence"}),
        ("ｐｉｐｅ ｂｏｍｂ", {"violence"}),  # full width
        ("pi\u200bpe bomb", {"violence"}),  # an invisible character
        ("pi\ufe0fpe\u115f bo\u034fmb\ud800", {"violence"}),  # invisible ones of other categories
        ("z\u034f\u0307o\u0301łw", {"company secrets"}),  # one that keeps a letter apart from its accent
        (f"{CUT}c4", set()),  # the end of a word
        (f"c4{CUT}", set()),
        (f"{CUT} c4 {CUT}", {"violence"}),
        ("\u200b" * (SLICE + 1) + "c4", {"violence"}),
        ("ŻÓŁW", {"company secrets"}),
        ("z\u0307o\u0301łw", {"company secrets"}),  # decomposed
        ("", set()),
    ],
)
async def test_what_matches(tmp_path: Path, text: str, found: set[str]) -> None:
    read = rules(tmp_path)
    [scores] = await read.match([text])
    assert {category for category, score in scores.items() if score} == found == read.flagged(scores)


async def test_an_expression_takes_linear_time(tmp_path: Path) -> None:
    read = rules(tmp_path, "[categories.violence]\npatterns = ['^(a+)+$', '(a|a)*b']\n")
    [scores] = await read.match(["a" * 300_000 + "c"])
    assert scores["violence"] == 0.0  # a backtracking engine would not return


@pytest.mark.parametrize("before", [*range(SLICE - 12, SLICE + 2), 3 * SLICE - OVERLAP, 3 * SLICE - 4])
async def test_a_phrase_is_found_at_every_place_of_a_long_text(tmp_path: Path, before: int) -> None:
    read = rules(tmp_path)
    texts = ["x" * (before - 1) + f"{left}pipe bomb{right}" + "y" * SLICE for left in " x" for right in " y"]
    assert [scores["violence"] for scores in await read.match(texts)] == [1, 0, 0, 0]
    ideographs = rules(tmp_path, "[categories.violence]\npatterns = ['炸弹']\n")  # no white space anywhere
    [scores] = await ideographs.match(["水" * before + "炸弹" + "水" * SLICE])
    assert scores["violence"] == 1


async def test_texts_that_are_too_long_are_refused(tmp_path: Path) -> None:
    text = "\ufdfa" * (MAX_CHARACTERS // 2 // 18)  # 18 characters in its normal form
    read = rules(tmp_path, "[categories.violence]\nwords = ['c4']\n")
    for each in (f"{text} c4", f"c4 {text}{text}{text}"):
        [scores] = await read.match([each])
        assert scores["violence"] == 1
    with pytest.raises(InvalidRequest, match="too long") as caught:
        await read.match([f"{text} c4", text], "input")
    assert caught.value.param == "input"


def test_thresholds_labels_and_categories_of_the_operator(tmp_path: Path) -> None:
    read = rules(tmp_path)
    assert read.flagged({"violence": 0.79, "hate": 0.5}) == {"hate"}
    assert read.flagged({"violence": 0.8, "hate": 0.49}) == {"violence"}
    assert read.meaning(["very-rude", "LEAK", "toxic", "self-harm/intent", "SELF HARM", "male"]) == [
        "harassment",
        "company secrets",
        "harassment",
        "self-harm/intent",
        "self-harm",
        None,
    ]
    assert read.categories == (*CATEGORIES, "company secrets")


def test_without_a_file_labels_have_their_published_meaning() -> None:
    assert read_rules("") == ModerationRules()
    assert not read_rules("").matchers
    assert set(DEFAULT_LABELS.values()) <= set(CATEGORIES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[categories", "can't read"),
        ("[other]\n", "other"),
        ("[categories.hate]\nwords = [1]", "categories.hate.words.0"),
        ("[categories.hate]\nwords = ['\u200b']", "no visible characters"),
        ("[categories.hate]\nthreshold = 0", "threshold"),
        (r"categories.hate.patterns = ['(a)\1']", "backreferences"),
        ("categories.hate.patterns = ['(?=a)']", "look-around"),
        (r"categories.hate.patterns = ['(\w{500}){500}']", "exceeds size limit"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StartupError, match=message):
        rules(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="can't read the moderation rules"):
        read_rules(str(tmp_path / "none.toml"))
