"""Keeps a worker's recent replies of each attempt, to send them again if a broker restart lost them in flight.

Bounded by bytes per attempt, oldest first, and by bytes of all ended attempts. The first reply (`Started`) and the
latest one are kept in any case, since one image may exceed the bound.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from router.messages import Delta, Drawn, Reply, Terminal

ATTEMPT_BYTES = 256 * 1024
ENDED_BYTES = 16 * 1024 * 1024
ENDED_ATTEMPTS = 4096


class _SentReplies:
    """Recent replies of one attempt."""

    def __init__(self) -> None:
        self.replies: deque[tuple[int, Reply]] = deque()
        self.size = 0
        self.evicted_positions: dict[int, int] = {}
        """By choice: number of leading positions whose replies were evicted; an image has one position."""
        self.evicted_others = False
        """Whether a reply other than a delta or an image was evicted."""

    def add(self, reply: Reply, size: int) -> None:
        """Store one sent reply of about `size` bytes; drop the oldest replies above the limit."""
        self.replies.append((size, reply))
        self.size += size
        while self.size > ATTEMPT_BYTES and len(self.replies) > 2:
            size, oldest = self.replies[1]
            del self.replies[1]
            self.size -= size
            match oldest:
                case Delta():
                    self.evicted_positions[oldest.choice] = oldest.start + oldest.positions
                case Drawn():
                    self.evicted_positions.update(dict.fromkeys(oldest.indexes, 1))
                case _:
                    self.evicted_others = True

    def replies_after(self, received: Sequence[int]) -> list[Reply] | None:
        """Return the replies after `received[choice]` tokens per choice; `None` if any of them was dropped."""
        if self.evicted_others and not any(received):
            return None
        if any(
            choice >= len(received) or received[choice] < evicted for choice, evicted in self.evicted_positions.items()
        ):
            return None
        return [each for _, each in self.replies if _is_missing(each, received)]


def _is_missing(reply: Reply, received: Sequence[int]) -> bool:
    match reply:
        case Delta():
            return reply.start >= _received_of(reply.choice, received)
        case Drawn():
            return not all(_received_of(index, received) for index in reply.indexes)
    return True


def _received_of(choice: int, received: Sequence[int]) -> int:
    return received[choice] if choice < len(received) else 0


class ReplayBuffer:
    """Recent replies by attempt id, kept to be sent again on request."""

    def __init__(self) -> None:
        self._running: dict[str, _SentReplies] = {}
        self._ended: OrderedDict[str, _SentReplies] = OrderedDict()
        self._ended_bytes = 0

    def add(self, reply: Reply, size: int) -> None:
        """Store one sent reply of about `size` bytes with its attempt; a terminal reply is the attempt's last."""
        sent = self._running.get(reply.attempt_id)
        if sent is None:
            sent = self._running[reply.attempt_id] = _SentReplies()
        sent.add(reply, size)
        if isinstance(reply, Terminal):
            self._ended[reply.attempt_id] = self._running.pop(reply.attempt_id)
            self._ended_bytes += sent.size
            while self._ended_bytes > ENDED_BYTES or len(self._ended) > ENDED_ATTEMPTS:
                self._ended_bytes -= self._ended.popitem(last=False)[1].size

    def __contains__(self, attempt_id: str) -> bool:
        return attempt_id in self._running or attempt_id in self._ended

    def drop(self, attempt_id: str) -> None:
        """Forget all replies of one attempt, because another worker continues its job."""
        self._running.pop(attempt_id, None)
        if (ended := self._ended.pop(attempt_id, None)) is not None:
            self._ended_bytes -= ended.size

    def replies_after(self, attempt_id: str, received: Sequence[int]) -> list[Reply] | None:
        """Return the stored replies of one attempt that come after `received[choice]` tokens.

        Return `None` if any was dropped.
        """
        sent = self._running.get(attempt_id) or self._ended.get(attempt_id)
        return sent.replies_after(received) if sent is not None else None
