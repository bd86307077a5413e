"""Answers survive the death of their process: another one continues, and an expired writer stores nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from auth_billing.errors import NoSuchRecord
from chat_ui.conversations import Conversations, Question
from chat_ui.generations import answer_writer
from chat_ui.generations.answer_events import AnswerEvents, StreamEvent
from chat_ui.generations.generations import Generations
from chat_ui.generations.model_client import AnswerFailed, ContinuationUnsupported, ShuttingDown
from chat_ui.generations.titles import clean_title
from chat_ui.history.records import Message, ModelSettings, Owner, QueueStatus, State
from router.timings import Timings
from tests.chat_ui.chat_clients import eventually
from tests.fakes.chat import ChatHouse
from tests.fakes.scripted_engine import MODEL, ScriptedEngine

ADA = Owner("org-acme", "user-ada")
SETTINGS = ModelSettings(MODEL, max_tokens=50)


QUICK = Timings(answer_lease=1.0, answer_progress_interval=0.01, answer_scan_interval=0.05)
"""Short intervals of storing and scanning; a lease of one second is long in comparison."""


class Gateways:
    """Gateway processes on the same stores."""

    def __init__(self) -> None:
        self.house = ChatHouse(timings=QUICK)
        self.running: dict[Generations, asyncio.Task[None]] = {}

    def start(
        self, *words: str | Exception, patient: bool = False
    ) -> tuple[Conversations, Generations, ScriptedEngine]:
        engine = ScriptedEngine(list(words), patient=patient)
        made = self.house.generations(engine)
        self.running[made] = asyncio.create_task(made.run())
        return self.house.conversations(made), made, engine

    def kill(self, made: Generations) -> None:
        """Simulate `kill -9`: the process stores nothing any more."""
        self.running.pop(made).cancel()
        for task in made._tasks.values():
            task.cancel()
        made._context.answers.release = made._context.answers.renew = made._context.answers.finish = _nothing  # type: ignore

    def stored(self, answer: Message) -> Message:
        return self.house.history.messages[answer.id][1]

    async def close(self) -> None:
        for made, task in self.running.items():
            await made.close()
            task.cancel()


async def _nothing(*_: object) -> None:
    return None


@pytest.fixture
async def gateways() -> AsyncIterator[Gateways]:
    gateways = Gateways()
    yield gateways
    await gateways.close()


async def asked(conversations: Conversations) -> Message:
    conversation = await conversations.create(ADA, SETTINGS)
    return (await conversations.ask(ADA, "proj", conversation.id, Question(None, "Hi"), None))[1]


async def half_written(gateways: Gateways) -> tuple[Conversations, Generations, Message]:
    """Start an answer of which the first word is stored."""
    conversations, first, engine = gateways.start("One ", "two.", patient=True)
    answer = await asked(conversations)
    engine.go.release()
    await eventually(lambda: gateways.stored(answer).text == "One ")
    return conversations, first, answer


async def test_another_gateway_continues_the_answer_of_a_dead_one(gateways: Gateways) -> None:
    _, first, answer = await half_written(gateways)
    gateways.kill(first)
    _, _, engine = gateways.start(" and two.")
    await eventually(lambda: gateways.stored(answer).state is State.DONE)
    stored = gateways.stored(answer)
    assert (stored.text, stored.attempt) == ("One and two.", 1)
    asked_for = engine.asked[0][1]
    assert asked_for.continues
    assert asked_for.turns[-1].text == "One"  # without the trailing space, which models generate again
    assert asked_for.settings.max_tokens == 49
    assert stored.usage is not None
    assert stored.usage.completion_tokens == 2
    assert stored.cost == 11 + 11


async def test_a_model_that_can_not_continue_starts_again(gateways: Gateways) -> None:
    conversations, first, answer = await half_written(gateways)
    events = [
        each async for each in _first(conversations.answer_events(ADA, answer.conversation, answer.id), answer, 1)
    ]
    gateways.kill(first)
    second, _, engine = gateways.start("All of it.")
    heard = engine.answer
    engine.answer = lambda principal, ask: _refused() if ask.continues else heard(principal, ask)  # type: ignore
    following = second.answer_events(ADA, answer.conversation, answer.id)
    message = await second.message(ADA, answer.conversation, answer.id)
    followed = [each async for each in following.stream(message, "") if each is not None]
    assert gateways.stored(answer).text == "All of it."
    assert ("text", (0, "All of it.")) in [(each.name, each.data) for each in followed]
    assert gateways.stored(answer).attempt == 2
    assert isinstance(events[-1], StreamEvent)
    assert events[-1].id == "0.4"


async def _refused() -> AsyncIterator[None]:
    raise ContinuationUnsupported("invalid_prompt", "No.")
    yield


async def _first(follower: AnswerEvents, answer: Message, number: int) -> AsyncIterator[object]:
    async for event in follower.stream(answer, ""):
        if event is None:
            continue
        yield event
        number -= 1
        if not number:
            return


async def test_a_gateway_that_stops_hands_over_at_once(gateways: Gateways) -> None:
    _, first, answer = await half_written(gateways)
    gateways.running.pop(first).cancel()
    await first.close()
    assert gateways.house.history.leases[answer.id] == ("", 0.0)
    gateways.start(" more.")
    await eventually(lambda: gateways.stored(answer).state is State.DONE)
    assert gateways.stored(answer).text == "One more."


async def test_a_model_client_that_shuts_down_is_no_failure(gateways: Gateways) -> None:
    conversations, first, _ = gateways.start(ShuttingDown("server_shutdown", "Stopping."))
    gateways.running.pop(first).cancel()
    answer = await asked(conversations)
    await eventually(lambda: gateways.house.history.leases[answer.id] == ("", 0.0))
    assert gateways.stored(answer).state is State.WAITING


async def test_a_reader_at_another_gateway_gets_all_text(gateways: Gateways) -> None:
    first, _, engine = gateways.start("One ", "two ", "three", patient=True)
    second, _, _ = gateways.start("never")
    answer = await asked(first)

    async def read() -> list[tuple[str, object]]:
        following = second.answer_events(ADA, answer.conversation, answer.id)
        return [(each.name, each.data) async for each in following.stream(answer, "") if each is not None]

    reading = asyncio.create_task(read())
    for _ in range(3):
        engine.go.release()
        await asyncio.sleep(0.02)
    events = await reading
    assert events[-1][0] == "done"
    assert "".join(data[1] for name, data in events if name == "text") == "One two three"  # type: ignore[index]
    assert events[-1][0] == "done"


async def test_a_reader_at_another_gateway_gets_the_queue_position(gateways: Gateways) -> None:
    first, _, engine = gateways.start("One", patient=True)
    engine.line = [QueueStatus(7, 12.5)]
    second, _, _ = gateways.start("never")
    answer = await asked(first)
    following = second.answer_events(ADA, answer.conversation, answer.id).stream(answer, "")
    async with asyncio.timeout(30):
        told = [await anext(following)]
        while (event := told[-1]) is None or event.data != QueueStatus(7, 12.5):
            told.append(await anext(following))
    assert event.name == "waiting"
    engine.go.release()
    ended = [each async for each in following if each is not None][-1]
    assert ended.name == "done"
    assert gateways.stored(answer).waiting is None


async def test_an_answer_can_be_stopped_at_another_gateway(gateways: Gateways) -> None:
    _, _, answer = await half_written(gateways)
    second, _, _ = gateways.start("never")
    await second.stop(ADA, answer.conversation, answer.id)
    await eventually(lambda: gateways.stored(answer).state is State.STOPPED)
    assert gateways.stored(answer).text == "One "


async def test_a_writer_without_a_lease_stores_nothing(gateways: Gateways) -> None:
    _, first, answer = await half_written(gateways)
    store = first._context.answers
    now = time.time() + 100
    assert await store.claim(answer.id, "another", now + 10, now) is not None
    await eventually(lambda: first.live(answer.id) is None or first.live(answer.id).released)  # type: ignore[union-attr]
    assert gateways.stored(answer).state is State.RUNNING
    assert gateways.house.history.leases[answer.id][0] == "another"


async def test_the_end_is_stored_when_the_store_is_back(gateways: Gateways) -> None:
    conversations, _, engine = gateways.start("One.", patient=True)
    answer = await asked(conversations)
    await eventually(lambda: bool(engine.asked))
    gateways.house.history.absence.away = True
    engine.go.release()
    await asyncio.sleep(0.1)
    gateways.house.history.absence.away = False
    await eventually(lambda: gateways.stored(answer).state is State.DONE)
    assert gateways.stored(answer).text == "One."


async def test_an_owner_who_left_the_organisation_gets_no_answer(gateways: Gateways) -> None:
    conversations, made, engine = gateways.start("never")

    async def gone(_owner: Owner, _project: str) -> object:
        raise NoSuchRecord("no member")

    made._principals = gone  # type: ignore[assignment]
    answer = await asked(conversations)
    await eventually(lambda: gateways.stored(answer).state is State.FAILED)
    assert engine.asked == []


async def test_an_unexpected_error_ends_the_answer_with_a_message(gateways: Gateways) -> None:
    conversations, _, _ = gateways.start("One ", RuntimeError("secret"))
    answer = await asked(conversations)
    await eventually(lambda: gateways.stored(answer).state is State.FAILED)
    error = gateways.stored(answer).error
    assert error is not None
    assert error.code == "internal_error"
    assert "secret" not in error.message


async def test_very_long_answers_are_truncated(gateways: Gateways, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_writer, "MAX_ANSWER_CHARS", 10)
    conversations, _, engine = gateways.start("12345678", "90123", "never")
    answer = await asked(conversations)
    await eventually(lambda: gateways.stored(answer).state is State.DONE)
    assert (gateways.stored(answer).text, gateways.stored(answer).finish_reason) == ("1234567890123", "length")
    assert engine.closed == 1


async def test_failures_have_a_retry_after(gateways: Gateways) -> None:
    conversations, _, _ = gateways.start(AnswerFailed("overloaded", "Busy.", 7))
    answer = await asked(conversations)
    await eventually(lambda: gateways.stored(answer).state is State.FAILED)
    assert vars(gateways.stored(answer).error) == {"code": "overloaded", "message": "Busy.", "retry_after": 7}


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ('\n  "Ships and birds."\nMore', "Ships and birds"),
        ("**Title**", "Title"),
        ("1. A list of things\n2. More", "A list of things"),
        ("word " * 40, f"{'word ' * 15}".strip() + "…"),
        ("\u202etricky\x00", "tricky"),
        ("...", ""),
    ],
)
def test_titles_are_one_clean_line(said: str, title: str) -> None:
    assert clean_title(said) == title
