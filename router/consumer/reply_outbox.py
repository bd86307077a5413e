"""Sends a worker's replies to each gateway in windows of about 10 ms; keeps windows while the broker is down.

One window per gateway per step or 10 ms, whichever is longer; at the end of the step for `urgent` replies (a first
token, a terminal), at once when `WINDOW_BYTES` are collected. While the broker is down windows are kept up to
`WAITING_BYTES`; a gateway above that is treated as dead. Replies to one gateway stay in order. See
docs/design/queue-topology.md#windows.

Consecutive deltas of a choice in one window are merged into one: when steps are shorter than a window, broker and
gateway have that much less to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import accumulate

import structlog

from router.bus import Bus
from router.consumer.replay_buffer import ReplayBuffer
from router.errors import BrokerUnavailable
from router.messages import (
    AttemptReport,
    Delta,
    Drawn,
    Embedded,
    PromptEcho,
    PromptLogprobs,
    Reply,
    ResumeRequest,
    Scored,
    Tokenised,
    Window,
    encode,
    merge_tool_calls,
)

INTERVAL = 0.010
"""Seconds between two windows to one gateway, unless a reply is urgent."""
WINDOW_BYTES = 16 * 1024
MAX_WINDOW_BYTES = 4 * 1024 * 1024
"""Most bytes of a window with several replies: images that waited for the broker would exceed its largest message."""
RETRY_INTERVAL = 0.2
WAITING_BYTES = 16 * 1024 * 1024
"""Most bytes kept for one gateway while the broker is down."""

_log = structlog.get_logger(__name__)


class _Unsent:
    """Unsent replies to one gateway."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.size = 0
        self.urgent = False
        self.sent_at = float("-inf")


class ReplyOutbox:
    """Sends replies of one worker in windows, one per gateway. Use on the event loop only."""

    def __init__(self, bus: Bus, worker: str, on_overflow: Callable[[str], None]) -> None:
        self._bus = bus
        self._worker = worker
        self._on_overflow = on_overflow
        self._gateways: dict[str, _Unsent] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.replay_buffer = ReplayBuffer()

    def put(self, gateway: str, reply: Reply, *, urgent: bool = False) -> None:
        """Queue one reply to `gateway`, and keep it for `replay`.

        An `urgent` reply is sent by the next `flush_due`, a full window at once, and any other after `INTERVAL`.
        """
        size = _size(reply)
        if not isinstance(reply, ResumeRequest | AttemptReport):
            self.replay_buffer.add(reply, size)
        self._queue(gateway, reply, size, urgent=urgent)

    def replay(self, gateway: str, attempt_id: str, received: Sequence[int]) -> bool:
        """Send one attempt's replies after `received[choice]` tokens to `gateway` again.

        Return false if any is not stored.
        """
        replies = self.replay_buffer.replies_after(attempt_id, received)
        for reply in replies or ():
            self._queue(gateway, reply, _size(reply), urgent=True)
        return replies is not None

    def _queue(self, gateway: str, reply: Reply, size: int, *, urgent: bool) -> None:
        unsent = self._gateways.get(gateway)
        if unsent is None:
            unsent = self._gateways[gateway] = _Unsent()
        unsent.replies.append(reply)
        unsent.size += size
        unsent.urgent = unsent.urgent or urgent
        if unsent.size >= WINDOW_BYTES:
            self._send(gateway, unsent)
        elif urgent:
            asyncio.get_running_loop().call_soon(self.flush_due)
        else:
            self._wake_in(INTERVAL)

    def flush_due(self) -> None:
        """Send the windows that have an urgent reply or are older than `INTERVAL`.

        Call it at the end of each engine step.
        """
        now = asyncio.get_running_loop().time()
        for gateway, unsent in list(self._gateways.items()):
            if unsent.replies and (unsent.urgent or now - unsent.sent_at >= INTERVAL):
                self._send(gateway, unsent)

    def flush(self) -> None:
        """Send all queued replies of all gateways now; while the broker is down they stay queued."""
        self._timer = None
        for gateway, unsent in list(self._gateways.items()):
            if unsent.replies:
                self._send(gateway, unsent)
            else:
                del self._gateways[gateway]

    def drop_gateway(self, gateway: str) -> None:
        """Drop the queued replies to one gateway unsent, because the gateway is dead."""
        self._gateways.pop(gateway, None)

    def _send(self, gateway: str, unsent: _Unsent) -> None:
        unsent.replies = merge_deltas(unsent.replies)
        try:
            while unsent.replies:
                replies = _leading(unsent.replies) if unsent.size > MAX_WINDOW_BYTES else unsent.replies
                self._bus.send_window(gateway, Window(worker_id=self._worker, replies=replies))
                unsent.replies = unsent.replies[len(replies) :]
        except BrokerUnavailable:
            self._keep(gateway, unsent)
            return
        unsent.size, unsent.urgent = 0, False
        unsent.sent_at = asyncio.get_running_loop().time()

    def _keep(self, gateway: str, unsent: _Unsent) -> None:
        unsent.urgent = False  # so that not every step retries
        if unsent.size > WAITING_BYTES:
            _log.error("gateway given up", gateway=gateway, reason="broker down for too long", bytes=unsent.size)
            self.drop_gateway(gateway)
            self._on_overflow(gateway)
        else:
            self._wake_in(RETRY_INTERVAL)

    def _wake_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.flush)


def _leading(replies: Sequence[Reply]) -> list[Reply]:
    """Return the first replies that fit into a window together, at least one."""
    sizes = accumulate(map(_size, replies))
    count = sum(1 for size in sizes if size <= MAX_WINDOW_BYTES)
    return list(replies[: max(1, count)])


def merge_deltas(replies: Sequence[Reply]) -> list[Reply]:
    """Merge contiguous deltas of a choice into one reply, to make a window smaller.

    Return the replies, steps unmerged.
    """
    merged: list[Reply | list[Delta]] = []
    runs: dict[tuple[str, int], list[Delta]] = {}
    for reply in replies:
        if not isinstance(reply, Delta):
            merged.append(reply)
        elif reply.step is not None:
            runs.pop((reply.attempt_id, reply.choice), None)
            merged.append(reply)
        elif (run := runs.get((reply.attempt_id, reply.choice))) and run[-1].start + run[-1].positions == reply.start:
            run.append(reply)
        else:
            runs[reply.attempt_id, reply.choice] = run = [reply]
            merged.append(run)
    return [_merge(each) if isinstance(each, list) else each for each in merged]


def _merge(run: list[Delta]) -> Delta:
    first, last = run[0], run[-1]
    if first is last:
        return first
    return Delta(
        job_id=first.job_id,
        attempt_id=first.attempt_id,
        choice=first.choice,
        start=first.start,
        token_ids=[id_ for each in run for id_ in each.token_ids],
        text="".join([each.text for each in run]),
        reasoning="".join([each.reasoning for each in run]),
        untokenised_positions=sum([each.untokenised_positions for each in run]),
        logprobs=[token for each in run for token in each.logprobs or ()] or None,
        tool_calls=merge_tool_calls(call for each in run for call in each.tool_calls or ()) or None,
        finish_reason=last.finish_reason,
        stop_reason=last.stop_reason,
        cached_tokens=first.cached_tokens,
    )


def _size(reply: Reply) -> int:
    """Estimate the size of a reply as JSON, in bytes."""
    match reply:
        case Delta():
            calls = sum(100 + len(call.arguments) for call in reply.tool_calls or ())
            return (
                120
                + len(reply.text)
                + len(reply.reasoning)
                + calls
                + 7 * len(reply.token_ids)
                + 600 * len(reply.logprobs or ())
                + (0 if reply.step is None else len(encode(reply.step)))
            )
        case PromptEcho():
            size = len(reply.text) + 7 * len(reply.token_ids)
        case PromptLogprobs():
            size = 600 * len(reply.logprobs)
        case Embedded():
            size = 4 * sum(map(len, reply.vectors)) // 3
        case Scored():
            size = 22 * (len(reply.scores) + sum(map(len, reply.step_scores)))
        case Tokenised():
            size = len(reply.text) + 7 * reply.count + sum(4 + len(name) for name in reply.names)
        case Drawn():
            size = len(reply.revised_prompt) + 4 * sum(map(len, reply.images)) // 3
        case _:
            size = 80
    return 120 + size
