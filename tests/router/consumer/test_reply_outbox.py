"""Windows: deltas are batched, urgent replies are sent early, and order survives broker failures."""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec
import pytest

from router.bus import Bus
from router.consumer import reply_outbox
from router.consumer.reply_outbox import ReplyOutbox, merge_deltas
from router.errors import BrokerUnavailable
from router.messages import (
    Delta,
    Drawn,
    Finished,
    Reply,
    Started,
    Step,
    StepState,
    TokenAlternative,
    TokenLogprob,
    ToolCallDelta,
    Usage,
    Window,
)


class Post:
    """A bus that records windows."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Window]] = []
        self.away = False

    def send_window(self, gateway: str, window: Window) -> None:
        if self.away:
            raise BrokerUnavailable("away")
        self.sent.append((gateway, window))

    @property
    def positions(self) -> list[list[int]]:
        """Of the tokens in each window."""
        deltas = [[reply for reply in window.replies if isinstance(reply, Delta)] for _, window in self.sent]
        return [[each.start + number for each in window for number in range(len(each.token_ids))] for window in deltas]


def outbox(post: Post, given_up: list[str] | None = None) -> ReplyOutbox:
    return ReplyOutbox(cast(Bus, post), "worker-1", (given_up if given_up is not None else []).append)


def delta(position: int, text: str = "x") -> Delta:
    return Delta(job_id="j", attempt_id="a", start=position, token_ids=[1], text=text)


async def test_a_step_is_one_window_per_gateway() -> None:
    post = Post()
    out = outbox(post)
    for position in range(5):
        out.put("g1", delta(position))
        out.put("g2", delta(position))
    out.flush_due()
    assert [gateway for gateway, _ in post.sent] == ["g1", "g2"]
    assert post.positions == [[0, 1, 2, 3, 4]] * 2


async def test_images_that_waited_for_the_broker_are_sent_in_windows_that_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reply_outbox, "MAX_WINDOW_BYTES", 5_000)
    post = Post()
    out = outbox(post)
    post.away = True
    images = [Drawn(job_id="j", attempt_id="a", start=index, images=[b"x" * 3_000]) for index in range(3)]
    small = [Drawn(job_id="j", attempt_id="a", start=index, images=[b"x" * 30]) for index in range(3, 5)]
    for image in [*images, *small]:
        out.put("g", image)
    post.away = False
    out.flush()
    assert [window.replies for _, window in post.sent] == [[images[0]], [images[1]], [images[2], *small]]
    out.flush()
    assert len(post.sent) == 3


async def test_steps_shorter_than_the_interval_share_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_outbox, "INTERVAL", 3600.0)
    post = Post()
    out = outbox(post)
    out.put("g", delta(0))
    out.flush_due()
    out.put("g", delta(1))
    out.flush_due()
    out.put("g", delta(2), urgent=True)
    assert post.positions == [[0]]
    out.flush_due()
    assert post.positions == [[0], [1, 2]]


def test_deltas_of_a_choice_are_merged_and_other_replies_keep_their_order() -> None:
    alternative = TokenAlternative(1, "x", -0.5)
    lp = [TokenLogprob(alternative, [alternative])]
    started = Started(job_id="j", attempt_id="a", worker_id="w", prompt_tokens=1)
    finished = Finished(job_id="j", attempt_id="a", usage=Usage(prompt_tokens=1, completion_tokens=3))
    replies: list[Reply] = [
        started,
        Delta(job_id="j", attempt_id="a", choice=0, start=0, token_ids=[1], text="a", logprobs=lp),
        Delta(job_id="j", attempt_id="a", choice=1, start=0, token_ids=[7], text="b"),
        Delta(job_id="k", attempt_id="b", choice=0, start=4, token_ids=[9, 9], text="other"),
        Delta(job_id="j", attempt_id="a", choice=0, start=1, token_ids=[2, 3], text="cd", logprobs=lp * 2),
        Delta(
            job_id="j", attempt_id="a", choice=0, start=3, token_ids=[], text="e", finish_reason="stop", stop_reason="!"
        ),
        finished,
    ]
    assert merge_deltas(replies) == [
        started,
        Delta(
            job_id="j",
            attempt_id="a",
            choice=0,
            start=0,
            token_ids=[1, 2, 3],
            text="acde",
            logprobs=lp * 3,
            finish_reason="stop",
            stop_reason="!",
        ),
        Delta(job_id="j", attempt_id="a", choice=1, start=0, token_ids=[7], text="b"),
        Delta(job_id="k", attempt_id="b", choice=0, start=4, token_ids=[9, 9], text="other"),
        finished,
    ]


def test_texts_without_ids_and_parts_of_calls_are_merged_too() -> None:
    replies = [
        Delta(job_id="j", attempt_id="a", start=0, token_ids=[], untokenised_positions=1, text="a"),
        Delta(
            job_id="j",
            attempt_id="a",
            start=1,
            token_ids=[],
            untokenised_positions=2,
            tool_calls=[ToolCallDelta(index=0, id="c", name="f")],
        ),
        Delta(
            job_id="j",
            attempt_id="a",
            start=3,
            token_ids=[],
            untokenised_positions=1,
            tool_calls=[ToolCallDelta(index=0, arguments="{")],
        ),
    ]
    calls = [ToolCallDelta(index=0, id="c", name="f", arguments="{")]
    assert merge_deltas(replies) == [
        Delta(job_id="j", attempt_id="a", start=0, token_ids=[], untokenised_positions=4, text="a", tool_calls=calls)
    ]


def test_a_step_is_never_merged_with_what_surrounds_it() -> None:
    running = Delta(
        job_id="j",
        attempt_id="a",
        start=0,
        token_ids=[],
        step=Step(number=0, kind="tool", name="weather", state=StepState.RUNNING),
    )
    done = msgspec.structs.replace(
        running, untokenised_positions=1, step=Step(number=0, kind="tool", name="weather", state=StepState.DONE)
    )
    tokens = [Delta(job_id="j", attempt_id="a", start=start, token_ids=[start], text="x") for start in (1, 2)]
    merged = Delta(job_id="j", attempt_id="a", start=1, token_ids=[1, 2], text="xx")
    assert merge_deltas([running, done, *tokens]) == [running, done, merged]


async def test_the_timer_sends_remaining_replies() -> None:
    post = Post()
    out = outbox(post)
    out.put("g", delta(0))
    async with asyncio.timeout(5):
        while not post.sent:
            await asyncio.sleep(0.001)
    assert post.positions == [[0]]


async def test_a_full_window_is_sent_at_once() -> None:
    post = Post()
    outbox(post).put("g", delta(0, "x" * reply_outbox.WINDOW_BYTES))
    assert post.positions == [[0]]


async def test_order_is_kept_while_the_broker_is_down() -> None:
    post = Post()
    out = outbox(post)
    post.away = True
    for position in range(3):
        out.put("g", delta(position), urgent=True)
        out.flush_due()
    assert post.sent == []
    post.away = False
    out.put("g", delta(3), urgent=True)
    out.flush_due()
    assert post.positions == [[0, 1, 2, 3]]


async def test_a_gateway_with_too_many_unsent_bytes_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_outbox, "WAITING_BYTES", 1000)
    post, given_up = Post(), list[str]()
    out = outbox(post, given_up)
    post.away = True
    out.put("g", delta(0, "x" * 2000), urgent=True)
    out.flush_due()
    assert given_up == ["g"]
    post.away = False
    out.flush()
    assert post.sent == []
