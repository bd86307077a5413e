"""How far a choice has come in its grammar.

A matcher never raises for what a model or a client did: it goes wrong, says why in `error`, and only the request that
it belongs to fails. Knows token ids, not scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import llguidance

NOTHING_LEFT = "no token is left that the grammar and the request's other fields allow"


@dataclass(frozen=True, eq=False, weakref_slot=True, slots=True)
class Compiled:
    """A compiled grammar, at its beginning."""

    inner: llguidance.LLMatcher
    ends: frozenset[int]
    """Tokens that say that the output is complete."""

    def matcher(self) -> Matcher:
        """One that begins here; all of them share the automaton."""
        return Matcher(self, self.inner.deep_copy())


def one_line(message: str) -> str:
    """What the library complains of, as a part of a sentence: without its place in, and a quotation of, our source."""
    complaint = re.split(r"\n\s*\d+ \| ", message.replace("<non-verbose/>", ""))[0]
    complaint = re.sub(r"^at \d+\(\d+\): ", "", complaint)
    return " ".join(complaint.split())[:300].rstrip(".") or "it can't be compiled"


class Matcher:
    """The state of one choice."""

    def __init__(self, compiled: Compiled, inner: llguidance.LLMatcher) -> None:
        self._compiled = compiled
        self.inner = inner
        self.error: str | None = None
        """Why it can't go on; one line, fit for the client."""

    def fork(self) -> Matcher:
        """Another one in the same state."""
        return Matcher(self._compiled, self.inner.deep_copy())

    def accept(self, tokens: Iterable[int]) -> None:
        """Go on by these tokens; what is not allowed leaves an `error`."""
        if self.error is not None:
            return
        spent = self.inner.is_error()  # by a limit, while the mask was computed
        if not self.inner.consume_tokens(list(tokens)):
            self.error = one_line(self.inner.get_error()) if spent else NOTHING_LEFT

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that say that the output is complete."""
        return self._compiled.ends

    @property
    def ended(self) -> bool:
        """What was generated is complete, and nothing can follow."""
        return self.error is None and self.inner.is_stopped()
