"""Tracks how far the output of one choice has come in its grammar, and which tokens the grammar allows next.

A matcher does not raise because of a model's or a client's mistake: it sets `error`, and only its own request fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import llguidance

NOTHING_LEFT = "no token is left that the grammar and the request's other fields allow"


@dataclass(frozen=True, eq=False, weakref_slot=True, slots=True)
class CompiledGrammar:
    """A grammar compiled for one vocabulary, from which the matchers of any number of choices are made."""

    inner: llguidance.LLMatcher
    end_token_ids: frozenset[int]
    """End-of-sequence token ids, allowed once the output is complete."""

    def matcher(self) -> Matcher:
        """Return a new matcher at the start of this grammar, for one choice; matchers share the compiled automaton."""
        return Matcher(self, self.inner.deep_copy())


def error_summary(message: str) -> str:
    """Return llguidance's error message as a phrase for the client, without positions and quotes of the grammar."""
    complaint = re.split(r"\n\s*\d+ \| ", message.replace("<non-verbose/>", ""))[0]
    complaint = re.sub(r"^at \d+\(\d+\): ", "", complaint)
    return " ".join(complaint.split())[:300].rstrip(".") or "it can't be compiled"


class Matcher:
    """State of one choice's output in its grammar: which tokens are allowed next."""

    def __init__(self, compiled: CompiledGrammar, inner: llguidance.LLMatcher) -> None:
        self._compiled = compiled
        self.inner = inner
        self.error: str | None = None
        """Why the choice can't continue, in one line for the client; `None` if it can."""

    def fork(self) -> Matcher:
        """Return an independent copy of this matcher at the same place in the grammar, for another choice."""
        return Matcher(self._compiled, self.inner.deep_copy())

    def accept(self, tokens: Iterable[int]) -> None:
        """Advance in the grammar by generated `tokens` (ids).

        A token that the grammar does not allow sets `error`; nothing is raised.
        """
        if self.error is not None:
            return
        spent = self.inner.is_error()  # a limit was exceeded while the mask was computed
        if not self.inner.consume_tokens(list(tokens)):
            self.error = error_summary(self.inner.get_error()) if spent else NOTHING_LEFT

    @property
    def end_token_ids(self) -> frozenset[int]:
        """End-of-sequence token ids, which the grammar allows once the output is complete."""
        return self._compiled.end_token_ids

    @property
    def ended(self) -> bool:
        """Whether the output is complete and the grammar allows no further token."""
        return self.error is None and self.inner.is_stopped()
