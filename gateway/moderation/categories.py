"""Categories of moderation: OpenAI's names, and the labels of published text classifiers that mean them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CATEGORIES = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/intent",
    "self-harm/instructions",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
"""OpenAI's categories, which every result has."""
THRESHOLD = 0.5
"""Score from which a category is flagged, unless the operator's file says otherwise."""

_PUBLISHED = {
    # unitary/toxic-bert, unitary/unbiased-toxic-roberta
    "toxic": "harassment",
    "toxicity": "harassment",
    "severe_toxic": "harassment",
    "severe_toxicity": "harassment",
    "insult": "harassment",
    "threat": "harassment/threatening",
    "identity_hate": "hate",
    "identity_attack": "hate",
    "obscene": "sexual",
    "sexual_explicit": "sexual",
    # KoalaAI/Text-Moderation
    "s": "sexual",
    "s3": "sexual/minors",
    "h": "hate",
    "h2": "hate/threatening",
    "hr": "harassment",
    "sh": "self-harm",
    "v": "violence",
    "v2": "violence/graphic",
    # facebook/roberta-hate-speech-dynabench-r4-target, eliasalbouzidi/distilbert-nsfw-text-classifier
    "nsfw": "sexual",
    "hate_speech": "hate",
}


def label_key(label: str) -> str:
    """Return the form of a label by which labels are compared: `Self Harm`, `self-harm` and `SELF_HARM` are one."""
    return label.strip().lower().replace(" ", "_").replace("-", "_").replace("/", "_")


DEFAULT_LABELS: Mapping[str, str] = {label_key(each): each for each in CATEGORIES} | _PUBLISHED
"""Categories by the keys of the labels that mean them. An operator's file adds labels, and changes these."""


def highest(scores: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the highest score of each category among (category, score) pairs."""
    found: dict[str, float] = {}
    for category, score in scores:
        found[category] = max(score, found.get(category, 0.0))
    return found
