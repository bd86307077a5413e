"""Grammar checks in the sandbox process: results, limits, restart and cache."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from multiprocessing import Pipe

import msgspec
import pytest

from inference_worker.errors import GrammarRejected
from inference_worker.structured import sandbox, sandbox_process
from inference_worker.structured.sandbox import GrammarSandbox
from router.messages import Grammar, GrammarKind
from tests.fakes.bad_compilers import Crashing, Endless, Greedy
from tests.inference_worker.structured.test_matchers import JSON_OF_SCHEMA, VOCABULARY, grammar


@pytest.fixture
def sandboxed() -> Iterator[GrammarSandbox]:
    made = GrammarSandbox(VOCABULARY)
    made.start()
    yield made
    made.close()


async def rejection(sandboxed: GrammarSandbox, of: Grammar) -> str | None:
    try:
        await sandboxed.check(of)
    except GrammarRejected as error:
        return str(error)
    return None


async def test_valid_and_invalid_grammars(sandboxed: GrammarSandbox) -> None:
    good = [JSON_OF_SCHEMA, grammar("regex", "a+"), grammar("choice", ["a", "b"]), grammar("json_object")]
    bad = [grammar("regex", "("), grammar("lark", "start: missing"), grammar("json_schema", {"not": {}})]
    assert await asyncio.gather(*(rejection(sandboxed, each) for each in good)) == [None] * 4
    reasons = await asyncio.gather(*(rejection(sandboxed, each) for each in bad))
    assert all(reasons)
    assert await rejection(sandboxed, bad[0]) == reasons[0]  # cached


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


async def test_bombs_do_not_delay_other_checks(sandboxed: GrammarSandbox) -> None:
    await sandboxed.check(grammar("regex", "aa"))
    waiting = [asyncio.create_task(rejection(sandboxed, bomb)) for bomb in BOMBS]
    await sandboxed.check(grammar("regex", "ab"))
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)


@pytest.mark.parametrize("compiler", [Endless, Greedy, Crashing])
def test_a_check_that_exceeds_a_limit_is_killed(compiler: type[Endless]) -> None:
    ours, theirs = Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=sandbox_process.run_checks, args=(compiler(), theirs), daemon=True)
    process.start()
    theirs.close()
    for number in range(2):
        request = sandbox_process.CheckRequest(number, Grammar(kind=GrammarKind.JSON_OBJECT))
        ours.send_bytes(msgspec.msgpack.encode(request))
    results = [msgspec.msgpack.decode(ours.recv_bytes(), type=sandbox_process.CheckResult) for _ in range(2)]
    assert sorted(one.number for one in results) == [0, 1]
    assert {one.reason for one in results} == {sandbox_process.TOO_COMPLEX}
    ours.close()
    process.join(60)
    assert process.exitcode == 0


async def test_a_killed_process_is_restarted(sandboxed: GrammarSandbox) -> None:
    await sandboxed.check(grammar("regex", "a"))
    assert sandboxed._process is not None
    sandboxed._process.kill()
    assert await rejection(sandboxed, grammar("regex", "b")) in (None, "it could not be checked")
    assert await rejection(sandboxed, grammar("regex", "c")) is None


async def test_the_result_cache_is_bounded(sandboxed: GrammarSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "CACHE_SIZE", 5)
    for count in range(1, 20):
        await sandboxed.check(grammar("regex", f"a{{{count}}}"))
    assert len(sandboxed._results) == 5


@pytest.mark.parametrize("level", ["tenant", "requester"])
async def test_one_clients_grammars_do_not_delay_anothers(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For two tenants, and for two requesters of one."""
    started: list[str] = []
    may_end = asyncio.Semaphore(0)

    async def slow(grammar: Grammar) -> None:
        started.append(grammar.source)
        await may_end.acquire()

    sandboxed = GrammarSandbox(VOCABULARY)
    monkeypatch.setattr(sandboxed, "_request_check", slow)

    def check(client: str, number: int) -> asyncio.Task[None]:
        tenant, requester = (client, "r") if level == "tenant" else ("t", client)
        return asyncio.create_task(sandboxed.check(grammar("regex", f"{client}{number}"), tenant, requester))

    flood = [check("flood", number) for number in range(50)]
    await asyncio.sleep(0.01)
    other = [check("other", number) for number in range(10)]
    await asyncio.sleep(0.01)
    assert [name[:5] for name in started] == ["flood"] * 3 + ["other"] * (3 if level == "tenant" else 1)
    left = [flood.pop() for _ in range(20)]
    for task in left:
        task.cancel()
    for _ in range(24):  # in order of arrival it would be 42
        may_end.release()
        await asyncio.sleep(0.01)
    assert {f"other{number}" for number in range(10)} <= set(started)
    for _ in range(100):
        may_end.release()
    async with asyncio.timeout(10):
        await asyncio.gather(*flood, *other)
    assert (sandboxed._slots._of_tenant.total(), len(sandboxed._slots._waiting)) == (0, 0)
