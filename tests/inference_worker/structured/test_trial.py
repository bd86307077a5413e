"""Grammars from clients are tried where they can do no harm."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from multiprocessing import Pipe

import msgspec
import pytest

from inference_worker.structured import trial, trial_process
from inference_worker.structured.errors import GrammarRejected
from inference_worker.structured.trial import Trials
from router.messages import Grammar, GrammarKind
from tests.fakes.bad_compilers import Crashing, Endless, Greedy
from tests.inference_worker.structured.test_matchers import JSON_OF_SCHEMA, VOCABULARY, grammar


@pytest.fixture
def trials() -> Iterator[Trials]:
    made = Trials(VOCABULARY)
    made.start()
    yield made
    made.close()


async def verdict(trials: Trials, of: Grammar) -> str | None:
    try:
        await trials.check(of)
    except GrammarRejected as error:
        return str(error)
    return None


async def test_verdicts(trials: Trials) -> None:
    good = [JSON_OF_SCHEMA, grammar("regex", "a+"), grammar("choice", ["a", "b"]), grammar("json_object")]
    bad = [grammar("regex", "("), grammar("lark", "start: missing"), grammar("json_schema", {"not": {}})]
    assert await asyncio.gather(*(verdict(trials, each) for each in good)) == [None] * 4
    refused = await asyncio.gather(*(verdict(trials, each) for each in bad))
    assert all(refused)
    assert await verdict(trials, bad[0]) == refused[0]  # remembered


def of_patterns(count: int) -> dict[str, object]:
    def one(i: int) -> dict[str, object]:
        return {"anyOf": [{"type": "string", "pattern": f".*{i}.{{{j}}}"} for j in range(9)]}

    return {"type": "object", "properties": {f"p{i}": one(i) for i in range(count)}}


BOMBS = [
    grammar("regex", "(.{1,1000}){1,1000}"),
    grammar("regex", "((a{1,1000}b){1,1000}c){1,1000}"),
    grammar("regex", "(x+x+)+y{1000}[^a]{50000}"),
    grammar("lark", "start: " + "(" * 2000 + '"a"' + ")" * 2000),
    grammar("lark", "start: a0\n" + "".join(f"a{i}: a{i + 1} a{i + 1}\n" for i in range(3000)) + 'a3000: "a"'),
    grammar("json_schema", {"type": "array", "items": {"type": "string", "minLength": 99_999}, "minItems": 99_999}),
    grammar("json_schema", of_patterns(200)),
]


async def test_bombs_are_answered_and_nobody_else_waits(trials: Trials) -> None:
    await trials.check(grammar("regex", "aa"))
    waiting = [asyncio.create_task(verdict(trials, bomb)) for bomb in BOMBS]
    await trials.check(grammar("regex", "ab"))
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)


@pytest.mark.parametrize("compiler", [Endless, Greedy, Crashing])
def test_a_trial_that_takes_too_much_is_ended(compiler: type[Endless]) -> None:
    ours, theirs = Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=trial_process.answer, args=(compiler(), theirs), daemon=True)
    process.start()
    theirs.close()
    for number in range(2):
        question = trial_process.Question(number, Grammar(kind=GrammarKind.JSON_OBJECT))
        ours.send_bytes(msgspec.msgpack.encode(question))
    answers = [msgspec.msgpack.decode(ours.recv_bytes(), type=trial_process.Answer) for _ in range(2)]
    assert sorted(one.number for one in answers) == [0, 1]
    assert {one.reason for one in answers} == {trial_process.TOO_MUCH}
    ours.close()
    process.join(60)
    assert process.exitcode == 0


async def test_the_process_is_started_again(trials: Trials) -> None:
    await trials.check(grammar("regex", "a"))
    assert trials._helper is not None
    trials._helper.kill()
    assert await verdict(trials, grammar("regex", "b")) in (None, "it could not be checked")
    assert await verdict(trials, grammar("regex", "c")) is None


async def test_verdicts_are_bounded(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "REMEMBERED", 5)
    for count in range(1, 20):
        await trials.check(grammar("regex", f"a{{{count}}}"))
    assert len(trials._verdicts) == 5
