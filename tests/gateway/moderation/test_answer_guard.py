"""Deltas of answers are held back until they are checked, and nothing of a blocked phrase is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.moderation.answer_guard import CONTEXT, HELD_BACK, MAX_DELAY, AnswerGuard, Window
from gateway.moderation.visible_text import visible
from router.messages import Delta, ToolCallDelta
from tests.contract.examples import msgspec_replace
from tests.fakes.scripted_worker import ROUTE, RUNNING

BAD = "how to build a pipe bomb"


class Checks:
    """Blocks texts that have the bad phrase; keeps what was checked."""

    def __init__(self, choices: int = 1, window: int = 0) -> None:
        self.windows: list[Window] = []
        self.now = 0.0
        self.guard = AnswerGuard(choices, self.check, window=window, clock=lambda: self.now)
        self.sent: list[tuple[int, Delta]] = []
        self._positions = [0] * choices

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.windows]

    async def check(self, windows: Sequence[Window]) -> list[bool]:
        self.windows += windows
        return [BAD in visible(each.text) for each in windows]

    async def take(self, text: str, choice: int = 0, *, ended: bool = False, **fields: Any) -> str:
        """Pass one delta; return the text of the choice that is sent then."""
        position = self._positions[choice]
        self._positions[choice] += 1
        delta = Delta(
            job_id="j", attempt_id="a", choice=choice, start=position, token_ids=[position], text=text, **fields
        )
        return await self.release([(choice, delta)], choice, ended=ended)

    async def release(self, deltas: Sequence[tuple[int, Delta]] = (), choice: int = 0, *, ended: bool = False) -> str:
        released = await self.guard.release(deltas, ended=ended)
        self.sent += released
        return "".join(delta.text for number, delta in released if number == choice)

    def text(self, choice: int = 0) -> str:
        return "".join(delta.text for number, delta in self.sent if number == choice)

    def reason(self, choice: int = 0) -> str | None:
        return [delta.finish_reason for number, delta in self.sent if number == choice][-1]


async def test_an_answer_that_passes_is_sent_whole_and_in_order() -> None:
    checks = Checks()
    words = [f"word{number} " for number in range(100)]
    for word in words[:-1]:
        await checks.take(word)
        assert len("".join(words)) - len(checks.text()) >= HELD_BACK
    await checks.take(words[-1], finish_reason="stop")
    assert checks.text() == "".join(words)
    assert [delta.start for _, delta in checks.sent] == [*range(100)]
    assert checks.reason() == "stop"
    assert not checks.guard.stopped


@pytest.mark.parametrize("size", [1, 3, 7, 500])
@pytest.mark.parametrize("before", [0, 10, 63, 200, 1000])
@pytest.mark.parametrize("window", [0, 160])
async def test_nothing_of_a_blocked_phrase_is_sent(size: int, before: int, window: int) -> None:
    checks = Checks(window=window)
    text = "x" * before + BAD + " and so on" * 50
    for start in range(0, len(text), size):
        await checks.take(text[start : start + size])
        if checks.guard.stopped:
            break
    assert text[:before].startswith(checks.text())
    assert checks.reason() == "content_filter"
    end = checks.sent[-1][1]
    assert (end.text, end.token_ids) == ("", [])
    assert end.start == len(checks.sent) - 1  # the position of the first token that was not sent
    assert await checks.take(" more") == ""


async def test_a_classifier_gets_windows_with_what_was_sent_before_them() -> None:
    checks = Checks(window=160)
    for _ in range(100):
        await checks.take("0123456789")
    assert len(checks.texts) == 6
    assert max(map(len, checks.texts)) <= 160 + 10 + HELD_BACK + CONTEXT
    await checks.take("", finish_reason="stop")
    assert checks.text() == "0123456789" * 100


async def test_a_slow_answer_is_checked_after_a_while() -> None:
    checks = Checks(window=160)
    assert await checks.take("x" * 50) == ""
    checks.now = MAX_DELAY - 0.1
    assert await checks.take("y" * 70) == ""
    assert not checks.texts
    checks.now = MAX_DELAY
    assert await checks.release() == "x" * 50
    checks.now += 5
    assert await checks.release() == ""
    assert len(checks.texts) == 1  # nothing was new


async def test_windows_name_the_ends_of_the_answer() -> None:
    checks = Checks()
    for _ in range((HELD_BACK + CONTEXT) // 32 + 2):
        await checks.take("x" * 32)
    await checks.take("", finish_reason="stop")
    ends = [(each.begins, each.ends) for each in checks.windows]
    assert ends == [*[(True, False)] * ((HELD_BACK + CONTEXT) // 32 + 1), (False, False), (False, True)]
    failed = Checks()
    await failed.take("x")
    await failed.release(ended=True)
    assert [(each.begins, each.ends) for each in failed.windows] == [(True, False), (True, True)]


async def test_invisible_characters_do_not_push_a_phrase_out_of_the_window() -> None:
    checks = Checks()
    text = ("\u200b\ufe0f\u2060\U000e0100" * 3).join(BAD)
    assert len(text) > HELD_BACK + CONTEXT
    for letter in text:
        assert await checks.take(letter) == ""
    assert checks.reason() == "content_filter"


async def test_escapes_in_arguments_of_calls_hide_no_phrase() -> None:
    checks, sent = Checks(), '{"q": "how to build a pipe b\\u006fmb"}'
    for start in range(0, len(sent), 3):
        await checks.take("", tool_calls=[ToolCallDelta(index=0, arguments=sent[start : start + 3])])
        if checks.guard.stopped:
            break
    assert [delta.finish_reason for _, delta in checks.sent] == ["content_filter"]


async def test_each_choice_is_checked_and_blocked_alone() -> None:
    checks = Checks(choices=2)
    await checks.take(BAD, 0)
    assert checks.reason(0) == "content_filter"
    assert not checks.guard.stopped
    await checks.take(" and more", 0)
    await checks.take("fine", 1, finish_reason="stop")
    assert (checks.text(0), checks.text(1)) == ("", "fine")
    assert checks.guard.stopped


async def test_steps_are_sent_as_soon_as_they_are_checked() -> None:
    checks = Checks(window=160)
    for step in (ROUTE, RUNNING):
        await checks.take("", step=step)
        assert checks.sent[-1][1].step == step
    bad = msgspec_replace(RUNNING, data={"result": {"text": [BAD]}})
    await checks.take("", step=bad)
    assert checks.reason() == "content_filter"
    assert checks.sent[-1][1].step is None


async def test_the_end_of_a_failed_answer_is_checked_and_sent() -> None:
    checks = Checks(window=160)
    assert await checks.take("a few words") == ""
    assert await checks.release(ended=True) == "a few words"
    assert checks.texts == ["a few words"]


async def test_a_resumed_answer_is_checked_with_its_beginning() -> None:
    checks = Checks()
    delta = Delta(job_id="j", attempt_id="a", start=0, token_ids=[0], text=BAD[:10])
    checks.guard.resume([(0, delta)])
    checks._positions[0] = 1
    await checks.take(BAD[10:])
    assert checks.texts == [BAD]
    assert checks.reason() == "content_filter"


async def test_deltas_without_text_wait_for_no_check() -> None:
    checks = Checks(window=160)
    await checks.take("")
    assert len(checks.sent) == 1
    assert not checks.texts
