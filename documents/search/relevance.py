"""Decides whether the passages that a search has found are relevant, where an answer must say that nothing is.

The ranks of a search do not show it: some passage is always the first, and its fused score is relative to the others.
A cosine and a share of words mean the same in every search, but neither is enough alone: a paraphrase shares no word
with its passage, and a small embedding model that was trained in English gives unrelated Polish texts high cosines,
too. So both are added, with weights and limits that depend on the language of the question. These are calibrated on
half of the questions of a data set (docs/documents.md#when-nothing-fits), so that at most about one in twenty questions
that a passage answers is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from documents.search.question_language import Language

JUDGED_PASSAGES = 8
"""Number of the best passages of a search whose measures decide."""


@dataclass(frozen=True)
class RelevanceLimit:
    """Least evidence for the relevance of passages to questions in a language: share of words plus weighted cosine."""

    cosine_weight: float
    evidence: float


ENGLISH = RelevanceLimit(cosine_weight=1.4, evidence=0.6)
"""Limit of questions in English and in languages that are not recognised."""
POLISH = RelevanceLimit(cosine_weight=0.3, evidence=0.3)
WORDS_ALONE = 0.5
"""Share of words from which passages are relevant in a search without vectors."""
COSINE_ALONE = 0.45
"""Cosine from which passages are relevant in a search without words."""


def is_relevant(language: Language | None, cosine: float | None, words: float | None) -> bool:
    """Return whether passages are relevant to a question in a language, by the highest measures among them.

    `words` is a share of the question's words, by rarity and without function words. A measure is `None` if the search
    does not have it; then the other one decides alone.
    """
    if words is None:
        return cosine is not None and cosine >= COSINE_ALONE
    if cosine is None:
        return words >= WORDS_ALONE
    limit = POLISH if language == "pl" else ENGLISH
    return words + limit.cosine_weight * cosine >= limit.evidence
