"""Splits the generated text of one choice into its reasoning, the markup around it, and the answer that follows.

Works on text that arrives in pieces: what may be the beginning of a marker is undecided until more text arrives.
Decided text can be taken in any amounts, so that a token's part of the reasoning is sent with the token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from enum import Enum, auto

from inference_worker.worker.text.reasoning.markup import ReasoningMarkup


class Section(Enum):
    """The part of a choice's text that comes next."""

    UNDECIDED = auto()
    """The beginning of the text: reasoning if the text begins with its marker, else the answer."""
    HEADER = auto()
    """The header of a message, in markups that have messages."""
    REASONING = auto()
    GAP = auto()
    """Line breaks between reasoning and answer, which belong to neither."""
    ANSWER = auto()


class ReasoningSplitter:
    """Splitter of one choice's text, which begins with `section`."""

    def __init__(self, markup: ReasoningMarkup, section: Section, tokens: Set[int]) -> None:
        """`tokens`: ids of the control tokens that are part of the markup."""
        self.tokens = tokens
        """Ids of the control tokens whose text must be passed to `push` before the answer begins."""
        self.decided = 0
        """Number of characters before the answer that `take` can return."""
        self._markup = markup
        self._section = section
        self._undecided = ""
        self._begun = False
        """Whether the present message of reasoning has any text but line breaks."""
        self._spans: deque[tuple[int, str]] = deque()
        """Lengths of raw text, each with its reasoning: the same text, or "" for markup."""
        self._already_sent = 0
        """Undecided characters that the client already has."""

    @property
    def answers(self) -> bool:
        """Whether the text so far ends in the answer, so that what follows is all answer."""
        return self._section is Section.ANSWER

    @property
    def reasons(self) -> bool:
        """Whether the text so far ends in reasoning or its markup."""
        return self._section in (Section.HEADER, Section.REASONING)

    def push(self, text: str) -> str:
        """Add generated text; return what it adds to the answer, which may begin with text that was undecided."""
        if self.answers:
            return text
        self._undecided += text
        while self._advance():
            pass
        if not self.answers:
            return ""
        answer, self._undecided = self._undecided, ""
        return answer

    def mark_sent(self) -> None:
        """Record that the client already has the undecided text, from an earlier attempt: `take` does not return it."""
        self._already_sent = len(self._undecided)

    def finish(self) -> None:
        """End the text: undecided text is decided to be reasoning, markup or the answer."""
        if self._section is Section.UNDECIDED:
            self._section, self._undecided = Section.ANSWER, ""
        elif self._section is not Section.ANSWER:
            self._decide(len(self._undecided), shown=self._section is Section.REASONING)

    def take(self, length: int) -> tuple[str, int]:
        """Remove up to `length` decided characters of the raw text; return their reasoning and their number."""
        reasoning: list[str] = []
        left = min(length, self.decided)
        taken = left
        self.decided -= taken
        while left:
            size, text = self._spans.popleft()
            if size > left:
                self._spans.appendleft((size - left, text[left:]))
                size, text = left, text[:left]
            left -= size
            reasoning.append(text)
        return "".join(reasoning), taken

    def _advance(self) -> bool:
        """Decide as much of the undecided text as one section allows; return whether the next section has begun."""
        text = self._undecided
        match self._section:
            case Section.UNDECIDED:
                return self._begin(text)
            case Section.HEADER:
                return self._read_header(text)
            case Section.REASONING:
                return self._read_reasoning(text)
            case Section.GAP:
                self._decide(len(text) - len(text.lstrip("\n")))
                return bool(self._undecided) and self._enter(Section.ANSWER)
        return False

    def _begin(self, text: str) -> bool:
        start = self._markup.start
        if text.startswith(start):
            self._decide(len(start))
            return self._enter(Section.REASONING)
        return bool(text) and not start.startswith(text) and self._enter(Section.ANSWER)

    def _read_header(self, text: str) -> bool:
        end = text.find(self._markup.message)
        if end < 0:
            return False
        end += len(self._markup.message)
        final = self._markup.end.removesuffix(self._markup.message) in text[:end]
        self._decide(end)
        return self._enter(Section.GAP if final else Section.REASONING)

    def _read_reasoning(self, text: str) -> bool:
        ends = self._markup.message_ends or (self._markup.end,)
        at, end = min(((at, end) for end in ends if (at := text.find(end)) >= 0), default=(-1, ""))
        if at >= 0:
            self._decide(at, shown=True)
            self._decide(len(end))
            return self._enter(Section.HEADER if self._markup.message else Section.GAP)
        self._decide(len(text) - max(_overlap(text, end) for end in ends), shown=True)
        return False

    def _enter(self, section: Section) -> bool:
        self._section, self._begun = section, False
        return True

    def _decide(self, length: int, *, shown: bool = False) -> None:
        """Decide the next `length` undecided characters: reasoning if `shown`, without its first line breaks."""
        text, self._undecided = self._undecided[:length], self._undecided[length:]
        if shown and not self._begun:
            blank = len(text) - len(text.lstrip("\n"))
            self._begun = blank < len(text)
            self._add(blank, "")
            text = text[blank:]
        self._add(len(text), text if shown else "")

    def _add(self, length: int, reasoning: str) -> None:
        known = min(self._already_sent, length)
        self._already_sent -= known
        if length > known:
            self._spans.append((length - known, reasoning[known:]))
            self.decided += length - known


def _overlap(text: str, marker: str) -> int:
    """Return the length of the longest end of `text` that is a beginning of `marker`, but not all of it."""
    lengths = range(min(len(text), len(marker) - 1), 0, -1)
    return next((length for length in lengths if marker.startswith(text[-length:])), 0)
