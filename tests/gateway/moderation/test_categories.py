"""The labels that mean OpenAI's categories."""

from __future__ import annotations

import pytest

from gateway.moderation.categories import CATEGORIES, DEFAULT_LABELS, highest, label_key


@pytest.mark.parametrize(
    ("label", "category"),
    [
        ("Self Harm", "self-harm"),
        ("SELF_HARM/INTENT", "self-harm/intent"),
        (" hate-threatening ", "hate/threatening"),
        ("severe_toxicity", "harassment"),
        ("V2", "violence/graphic"),
    ],
)
def test_spellings_of_a_label(label: str, category: str) -> None:
    assert DEFAULT_LABELS[label_key(label)] == category


def test_every_label_means_a_category_of_openai_and_each_can_be_meant() -> None:
    assert set(DEFAULT_LABELS.values()) == set(CATEGORIES)
    assert all(label_key(label) == label for label in DEFAULT_LABELS)


def test_the_highest_score_counts() -> None:
    assert highest([("hate", 0.1), ("hate", 0.4), ("sexual", 0.0), ("hate", 0.2)]) == {"hate": 0.4, "sexual": 0.0}
