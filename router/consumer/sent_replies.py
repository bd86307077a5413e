"""What was said of each attempt lately, to be said again: a broker that restarts loses what was under way.

Bounded twice: by bytes an attempt, the oldest going first, and by bytes of all attempts that have ended. Sends nothing.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from router.messages import Delta, Reply, Terminal

ATTEMPT_BYTES = 256 * 1024
ENDED_BYTES = 16 * 1024 * 1024
ENDED_ATTEMPTS = 4096


class _Said:
    """Of one attempt."""

    def __init__(self) -> None:
        self.replies: deque[tuple[int, Reply]] = deque()
        self.size = 0
        self.positions: dict[int, int] = {}
        """By choice, how many leading tokens are not here any more."""
        self.holes = False
        """Whether something else is not."""

    def add(self, reply: Reply, size: int) -> None:
        self.replies.append((size, reply))
        self.size += size
        while self.size > ATTEMPT_BYTES and len(self.replies) > 1:
            size, oldest = self.replies.popleft()
            self.size -= size
            if isinstance(oldest, Delta):
                self.positions[oldest.c] = oldest.s + oldest.positions
            else:
                self.holes = True

    def since(self, have: Sequence[int]) -> list[Reply] | None:
        if self.holes and not any(have):
            return None
        if any(choice >= len(have) or have[choice] < gone for choice, gone in self.positions.items()):
            return None
        return [each for _, each in self.replies if not isinstance(each, Delta) or _is_news(each, have)]


def _is_news(delta: Delta, have: Sequence[int]) -> bool:
    known = have[delta.c] if delta.c < len(have) else 0
    return delta.s >= known


class SentReplies:
    """By attempt."""

    def __init__(self) -> None:
        self._running: dict[str, _Said] = {}
        self._ended: OrderedDict[str, _Said] = OrderedDict()
        self._ended_bytes = 0

    def add(self, reply: Reply, size: int) -> None:
        """Remember a reply of about `size` bytes; a terminal is an attempt's last."""
        said = self._running.get(reply.a)
        if said is None:
            said = self._running[reply.a] = _Said()
        said.add(reply, size)
        if isinstance(reply, Terminal):
            self._ended[reply.a] = self._running.pop(reply.a)
            self._ended_bytes += said.size
            while self._ended_bytes > ENDED_BYTES or len(self._ended) > ENDED_ATTEMPTS:
                self._ended_bytes -= self._ended.popitem(last=False)[1].size

    def __contains__(self, attempt: str) -> bool:
        return attempt in self._running or attempt in self._ended

    def forget(self, attempt: str) -> None:
        """An attempt that somebody else goes on with."""
        self._running.pop(attempt, None)
        if (ended := self._ended.pop(attempt, None)) is not None:
            self._ended_bytes -= ended.size

    def since(self, attempt: str, have: Sequence[int]) -> list[Reply] | None:
        """All replies after so many tokens of each choice; `None`: not all of them are here."""
        said = self._running.get(attempt) or self._ended.get(attempt)
        return said.since(have) if said is not None else None
