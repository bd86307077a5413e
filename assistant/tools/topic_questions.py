"""Topics of English and Polish questions for an encyclopedia, found without a model."""

from __future__ import annotations

import re

MAX_QUESTION = 500
MAX_WORDS = 10

_POLITE = re.compile(
    r"^(?:(?:please|can you|could you|would you|do you know|hey|hi|hello|proszę|czy możesz|możesz|mógłbyś|mogłabyś"
    r"|czy wiesz|hej|cześć)\b[\s,]*)+",
    re.I,
)
_WIKIPEDIA = re.compile(
    r"\b(?:(?:according to|on|in|from|at|using|w|na|według|z)\s+)?(?:the\s+)?wikipedi\w*\b\s*(?:article|artykuł)?"
    r"\s*(?:about|on|o)?",
    re.I,
)
_LEADING = [
    re.compile(pattern, re.I)
    for pattern in (
        r"^(?:tell|teach|show|give)\s+(?:me|us)\s+(?:(?:something|more|a bit|a summary|information|facts?)\s+)?"
        r"(?:about|on|of)\s+",
        r"^(?:look up|search(?: for)?|find(?: me)?|explain(?: to me)?|describe|define|summari[sz]e|read about)\s+"
        r"(?:(?:information|an? article|the article|something)\s+)?(?:(?:about|on)\s+)?",
        r"^what\s+(?:do you know|can you tell me)\s+about\s+",
        r"^(?:who|what|where|when)\s*(?:'s|’s|s|is|are|was|were)\s+(?:the\s+(?:meaning|definition)\s+of\s+)?",
        r"^(?:when|where|why|how)\s+(?:did|does|do)\s+",
        r"^(?:who|what)\s+(?=(?:invented|discovered|wrote|painted|composed|founded|built|created|won|killed|designed)\b)",
        r"^(?:opowiedz|powiedz|napisz|podaj)\s+(?:(?:mi|nam)\s+)?(?:(?:coś|więcej|trochę|informacje)\s+)*"
        r"(?:o|na temat)\s+",
        r"^(?:opisz|wyjaśnij|wytłumacz|zdefiniuj|streść)[\s,]+(?:(?:mi|nam)[\s,]+)?"
        r"(?:(?:czym|kim|co to)\s+(?:jest|są|był\w*)\s+)?",
        r"^(?:znajdź|wyszukaj|poszukaj|sprawdź)\s+(?:(?:mi|nam|informacje|artykuł|hasło|coś)\s+)*"
        r"(?:(?:o|na temat)\s+)?",
        r"^co\s+(?:wiesz|możesz (?:mi )?powiedzieć)\s+(?:o|na temat)\s+",
        r"^(?:kim|czym)\s+(?:jest|są|był|była|było|byli|były)\s+",
        r"^(?:kto|co)\s+to\s+(?:jest|są|był|była|było|byli|były)?\s*",
        r"^(?:kiedy|gdzie)\s+(?:(?:się\s+)?(?:urodził\w*|zmarł\w*|umarł\w*|powstał\w*|leży|znajduje|żył\w*|jest|był\w*"
        r"|wybuchł\w*|odbył\w*|założono|zbudowano)\s+(?:się\s+)?)",
        r"^(?:kto|co)\s+(?=(?:wynalazł\w*|odkrył\w*|napisał\w*|namalował\w*|skomponował\w*|założył\w*|zbudował\w*)\b)",
        r"^(?:the|a|an)\s+(?=\S)",
    )
]
_TRAILING = re.compile(
    r"\s+(?:and (?:why|what|how)\b.*|born|die|live|located|founded|famous for|known for|mean|please|proszę|for me)$",
    re.I,
)
_EMPTY = frozenset({
    "who", "what", "when", "where", "why", "how", "is", "are", "it", "that", "this", "he", "she", "they", "me", "you",
    "kto", "co", "kim", "czym", "kiedy", "gdzie", "jak", "to", "jest", "on", "ona", "ono", "oni", "nim", "niej", "tym",
    "mi", "był", "była", "było", "są",
})  # fmt: skip
"""Words that are no topic by themselves."""


def topic_arguments(question: str) -> dict[str, str] | None:
    """Return the topic that a question asks about, without the words of the question; `None`: it names none."""
    text = re.sub(r"\s+", " ", question[:MAX_QUESTION]).strip(" ?!.…\"'„”“")
    text = _POLITE.sub("", text)
    text = re.sub(r"\s+", " ", _WIKIPEDIA.sub(" ", text)).strip(" ,:")
    for pattern in _LEADING:
        text = pattern.sub("", text, count=1)
    text = _TRAILING.sub("", text).strip(" ,:;?!.\"'„”“")
    words = text.split()[:MAX_WORDS]
    if all(word.lower().strip(",.") in _EMPTY for word in words):
        return None
    return {"topic": " ".join(words)}
