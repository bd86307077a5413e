"""Decides whether a passage is relevant to a question, where an answer must say that nothing is.

The ranks of a search do not show it: some passage is always the first, and its fused score is relative to the others.
A cosine and a share of words mean the same in every search, but neither is enough alone. A small embedding model that
was trained in English gives unrelated Polish texts high cosines, too; and a question in other words than the passage
shares none with it. The limits are measured (docs/documents.md#when-nothing-fits), and let a near miss pass rather than
refuse a question that a passage answers.
"""

from __future__ import annotations

from documents.search.question_language import Language

SURE_COSINE = 0.45
"""Cosine from which a passage is relevant without any word of the question, unless that is in Polish."""
LIKELY_COSINE, LIKELY_WORDS = 0.25, 0.16
"""Cosine and share of words that together make a passage relevant."""
SURE_WORDS = 0.5
"""Share of the question's words, by rarity and without function words, that makes a passage relevant alone."""


def is_relevant(language: Language | None, cosine: float | None, words: float | None) -> bool:
    """Return whether a passage is relevant to a question in a language, by the measures of a search.

    A measure is `None` if the search does not have it.

    A search without words trusts the cosine alone, as there is nothing else.
    """
    near = 0.0 if cosine is None else cosine
    if words is None:
        return near >= SURE_COSINE
    if words >= SURE_WORDS or (near >= LIKELY_COSINE and words >= LIKELY_WORDS):
        return True
    return near >= SURE_COSINE and language != "pl"
