"""Defines sentences for people in English and Polish, and lists the error messages that all tools share.

Sentences that all tools share are here; a tool keeps its own beside its code.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_VALUE_CHARACTERS = 80
"""Characters of an inserted value; longer ones are cut."""


@dataclass(frozen=True)
class Sentence:
    """A sentence in every language of the product, with named places for values, as in `str.format`."""

    en: str
    pl: str

    def text(self, language: str, **values: object) -> str:
        """Return the sentence for `language` (a BCP 47 tag), Polish or else English, with `values` inserted."""
        template = self.pl if language.lower().split("-")[0] == "pl" else self.en
        return template.format(**{name: _short(str(value)) for name, value in values.items()})


NOT_FOUND = Sentence("Nothing was found.", "Nic nie znaleziono.")
UNAVAILABLE = Sentence(
    "The tool does not answer at the moment. Please try again later.",
    "Narzędzie chwilowo nie odpowiada. Spróbuj ponownie później.",
)
TIMED_OUT = Sentence(
    "The tool took longer than {seconds} s and was stopped.",
    "Narzędzie działało dłużej niż {seconds} s i zostało zatrzymane.",
)
TOO_LARGE = Sentence("The result is too large.", "Wynik jest zbyt duży.")
REFUSED = Sentence("This is not allowed.", "To jest niedozwolone.")
INVALID_ARGUMENTS = Sentence("The question could not be understood.", "Nie udało się zrozumieć pytania.")
WRONG_ARGUMENTS = Sentence(
    "The tool “{tool}” was called with wrong arguments: {problem}",
    "Narzędzie „{tool}” wywołano z błędnymi argumentami: {problem}",
)
CONSENT_REQUIRED = Sentence(
    "The tool “{tool}” of the server “{server}” is called only if you allow it.",
    "Narzędzie „{tool}” serwera „{server}” zostanie użyte tylko za Twoją zgodą.",
)
TOOL_OFF = Sentence("This tool is switched off.", "To narzędzie jest wyłączone.")
UNKNOWN_TOOL = Sentence("There is no tool “{tool}”.", "Nie ma narzędzia „{tool}”.")


def _short(value: str) -> str:
    one_line = " ".join(value.split())
    return one_line if len(one_line) <= MAX_VALUE_CHARACTERS else f"{one_line[: MAX_VALUE_CHARACTERS - 1]}…"
