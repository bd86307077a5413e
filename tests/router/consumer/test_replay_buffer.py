"""Replies that are kept to be sent again: what a ping gets back, and what is evicted."""

from __future__ import annotations

from router.consumer.replay_buffer import ATTEMPT_BYTES, ReplayBuffer
from router.messages import Delta, Drawn, Finished, Reply, Started, Usage

STARTED = Started(job_id="j", attempt_id="a", worker_id="w", prompt_tokens=0)
FINISHED = Finished(job_id="j", attempt_id="a", usage=Usage(prompt_tokens=0))


def drawn(index: int) -> Drawn:
    return Drawn(job_id="j", attempt_id="a", start=index, images=[b"png"])


def test_tokens_that_were_received_are_not_sent_again() -> None:
    buffer = ReplayBuffer()
    deltas = [Delta(job_id="j", attempt_id="a", start=start, token_ids=[7]) for start in range(3)]
    replies: list[Reply] = [STARTED, *deltas]
    for reply in replies:
        buffer.add(reply, 100)
    assert buffer.replies_after("a", [2]) == [STARTED, deltas[2]]
    assert buffer.replies_after("unknown", []) is None


def test_the_first_and_the_latest_reply_are_kept_however_large_an_image_is() -> None:
    buffer = ReplayBuffer()
    buffer.add(STARTED, 200)
    buffer.add(drawn(0), 2 * ATTEMPT_BYTES)
    assert buffer.replies_after("a", [0, 0]) == [STARTED, drawn(0)]


def test_an_evicted_image_is_lost_only_to_a_gateway_without_it() -> None:
    buffer = ReplayBuffer()
    buffer.add(STARTED, 200)
    buffer.add(drawn(1), 2 * ATTEMPT_BYTES)
    buffer.add(drawn(0), 2 * ATTEMPT_BYTES)
    assert buffer.replies_after("a", [0, 1]) == [STARTED, drawn(0)]
    assert buffer.replies_after("a", [1, 1]) == [STARTED]
    assert buffer.replies_after("a", [1, 0]) is None
    assert buffer.replies_after("a", [0, 0]) is None


def test_an_ended_attempt_keeps_its_terminal_reply() -> None:
    buffer = ReplayBuffer()
    replies: list[Reply] = [STARTED, drawn(0), FINISHED]
    for reply in replies:
        buffer.add(reply, 100)
    assert buffer.replies_after("a", [1]) == [STARTED, FINISHED]
    buffer.drop("a")
    assert "a" not in buffer
