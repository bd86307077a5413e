"""The checker finds no violation in a correct run, and each violated invariant in an incorrect one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.chaos.checker import Limits, Run, check, longest_pause, look_at_text
from tests.chaos.evidence import Account, Counted, Evidence, Job, Row, Struck
from tests.chaos.history import Arrival, End, Request, Told

TOKENS = 5
PRICE = (10, 1, 100)


def request(**fields: Any) -> Request:
    """A stream of five numbers, as it should be."""
    plain = Request(
        number=0,
        act="stream",
        asked=TOKENS,
        gateway="gateway-1",
        began=100.0,
        head=100.1,
        status=200,
        id="job-0",
        arrivals=[Arrival(101.0 + at, 0, f"{at} ") for at in range(TOKENS)],
        finish={0: "length"},
        usage=Told(7, TOKENS, 2),
        end=End.FINISHED,
        ended=106.0,
    )
    return msgspec.structs.replace(plain, **fields)


def refused(**fields: Any) -> Request:
    return request(
        **{
            "status": 503,
            "code": "service_unavailable",
            "retry_after": 5.0,
            "id": "",
            "arrivals": [],
            "finish": {},
            "usage": None,
            "end": End.REFUSED,
            "ended": 100.05,
            **fields,
        }
    )


def job(**fields: Any) -> Job:
    cost = 5 * 10 + 2 * 1 + TOKENS * 100
    plain = Job("job-0", "org", "settled", "receipt", Told(7, TOKENS, 2), cost, 10_000, PRICE)
    return replace(plain, **fields)


def counted(**fields: Any) -> Counted:
    plain = Counted("attempt-0", 0, [100.5], {0: set(range(TOKENS))}, [101.0 + at for at in range(TOKENS)])
    return replace(plain, **fields)


def evidence(**fields: Any) -> Evidence:
    own = fields.pop("jobs", [job()])
    rows = [
        Row(f"{each.id}:settle:0", each.id, "settle", "customer:org", "revenue", each.cost) for each in own if each.cost
    ]
    plain = Evidence(
        jobs={each.id: each for each in own},
        rows=rows,
        accounts=[Account("org", 10**9, sum(each.cost for each in own), {})],
        job_of_attempt={"attempt-0": "job-0"},
        counted=[counted()],
    )
    return replace(plain, **fields)


def found(requests: list[Request], evidence: Evidence, limits: Limits | None = None) -> set[str]:
    return {violation.invariant for violation in check(Run(requests, evidence, limits or Limits()))}


def test_a_run_that_is_right() -> None:
    assert found([request()], evidence()) == set()


def test_a_request_that_was_refused_when_it_may_be_and_cost_nothing() -> None:
    limits = Limits(refusals=frozenset({"service_unavailable"}), refusal_seconds=(0.1, 0.5))
    nothing = evidence(jobs=[job(billed=Told(0, 0, 0), cost=0, source="void")], counted=[], job_of_attempt={})
    assert found([refused()], nothing, limits) == set()


def test_a_stream_may_begin_with_a_refusal_and_not_end_with_one() -> None:
    limits = Limits(refusals=frozenset({"model_unavailable"}))
    nothing = evidence(jobs=[job(billed=Told(0, 0, 0), cost=0)])
    failed = request(end=End.FAILED, code="model_unavailable", arrivals=[], usage=None)
    assert found([failed], nothing, limits) == set()
    assert found([request(end=End.FAILED, code="model_unavailable")], evidence(), limits) == {"lost"}


def test_a_client_that_left_pays_what_it_got_and_perhaps_a_little_more() -> None:
    left = request(end=End.LEFT, arrivals=[Arrival(101, 0, "0 1 ")], finish={}, usage=None)
    assert found([left], evidence()) == set()
    few = job(billed=Told(7, 1, 2), cost=5 * 10 + 2 + 100)
    assert found([left], evidence(jobs=[few])) == {"I3"}  # it got two


def _retried(first_cost: int, **first: Any) -> tuple[list[Request], Evidence]:
    """A request with a key whose gateway was killed, and its repetition, which finished."""
    fields = {"finish": {}, "usage": None, "end": End.BROKEN, "arrivals": [Arrival(101, 0, "0 1 ")], **first}
    broken = request(number=1, id="job-1", key="k", **fields)
    struck = [Struck("gateway_kill", "gateway-1", 102.0, 103.0)]
    dead = job(id="job-1", billed=Told(0, first_cost // 100, 0), cost=first_cost, source="swept")
    return [broken, request(key="k")], evidence(jobs=[job(), dead], struck=struck)


def test_of_two_runs_of_a_key_one_is_billed() -> None:
    assert found(*_retried(0)) == set()
    assert found(*_retried(200)) == {"I3"}


def test_a_copied_stream_may_break_off_with_the_gateway_that_it_is_copied_from() -> None:
    copied = {"end": End.FAILED, "code": "server_shutdown", "gateway": "gateway-2"}
    assert found(*_retried(0, **copied)) == set()
    assert found(*_retried(200, **copied)) == {"I3"}
    assert found(*_retried(0, **copied | {"began": 104.5})) == {"lost"}


WRONG: dict[str, tuple[str, Callable[[], tuple[list[Request], Evidence]]]] = {
    "double delivery": ("I2", lambda: ([request(arrivals=_texts("0 1 ", "1 ", "2 3 4 "))], evidence())),
    "a lost token": ("I2", lambda: ([request(arrivals=_texts("0 1 ", "3 4 "))], evidence())),
    "a cut end": ("I2", lambda: ([request(arrivals=_texts("0 1 2 "))], evidence())),
    "disorder": ("I2", lambda: ([request(arrivals=_texts("0 2 1 3 4 "))], evidence())),
    "text that is no number": ("I2", lambda: ([request(arrivals=_texts("0 1 x 3 4 "))], evidence())),
    "tokens that no engine made": ("I2", lambda: ([request()], evidence(counted=[counted(positions={0: {0, 1}})]))),
    "no end": ("I1", lambda: ([request(end=End.UNFINISHED)], evidence())),
    "a broken connection": ("I1", lambda: ([request(end=End.BROKEN)], evidence())),
    "no reason": ("I1", lambda: ([request(finish={})], evidence())),
    "an early ack: the job is lost": ("lost", lambda: ([request(end=End.FAILED, code="worker_lost")], evidence())),
    "an early ack: a long silence": ("pause", lambda: ([request(arrivals=_texts("0 1 2 3 ", late="4 "))], evidence())),
    "a refusal that was not called for": ("lost", lambda: ([refused()], evidence(jobs=[], counted=[]))),
    "two settlements": ("I3", lambda: ([request()], evidence(rows=_twice()))),
    "another bill than was told": ("I3", lambda: ([request(usage=Told(7, 4, 2))], evidence())),
    "a bill without a ledger": ("I3", lambda: ([request()], evidence(rows=[]))),
    "a wrong sum": ("I3", lambda: ([request()], evidence(accounts=[Account("org", 10**9, 1, {})]))),
    "more billed than was made": ("I3", lambda: ([request(end=End.LEFT)], evidence(counted=[counted(positions={})]))),
    "what an audit finds": ("I3", lambda: ([request()], evidence(audit="one cent"))),
    "a refused request that is charged": ("I4", lambda: ([refused()], evidence())),
    "a job without a client that is charged": ("I4", lambda: ([], evidence(job_of_attempt={}))),
    "an unsettled hold": ("I5", lambda: ([request()], evidence(accounts=[_holding()]))),
    "an unsettled job": ("I5", lambda: ([request()], evidence(jobs=[job(state="held")]))),
    "an overdrawn account": ("I6", lambda: ([request()], evidence(lowest_available=-1))),
    "a poison job that goes on killing": ("I7", lambda: ([_poison()], evidence(counted=[counted(submitted=[1] * 4)]))),
    "a poison job that was answered": ("I7", lambda: ([request(innocent=False)], evidence())),
    "a refusal without a time": ("I8", lambda: ([refused(retry_after=None)], evidence(jobs=[], counted=[]))),
    "an error of another shape": ("I8", lambda: ([refused(shaped=False)], evidence(jobs=[], counted=[]))),
    "a 500": ("I8", lambda: ([refused(status=500)], evidence(jobs=[], counted=[]))),
    "a slow refusal": ("I8", lambda: ([refused(ended=101.0)], evidence(jobs=[], counted=[]))),
    "a secret in a log": ("I9", lambda: ([request()], evidence(leaks=["gateway-1.log has the API key"]))),
    "a ghost job": ("ghost", lambda: ([refused()], evidence(jobs=[], counted=[counted(times=[130.0])]))),
}


def _texts(*texts: str, late: str = "") -> list[Arrival]:
    arrivals = [Arrival(101.0, 0, text) for text in texts]
    return [*arrivals, Arrival(131.0, 0, late)] if late else arrivals


def _twice() -> list[Row]:
    [row] = evidence().rows
    return [row, replace(row, id="job-0:settle:1")]


def _holding() -> Account:
    return Account("org", 10**9, job().cost, {"job-9": 5})


def _poison() -> Request:
    return refused(innocent=False, status=500, code="job_failed_repeatedly", retry_after=None)


@pytest.mark.parametrize(("invariant", "make"), WRONG.values(), ids=WRONG.keys())
def test_each_broken_promise_is_found(invariant: str, make: Callable[[], tuple[list[Request], Evidence]]) -> None:
    requests, facts = make()
    assert invariant in found(requests, facts, Limits(pause=20, refusal_seconds=(0.1, 0.5)))


def test_a_connection_may_break_with_its_gateway_only() -> None:
    broken = request(end=End.BROKEN)
    killed = Struck("gateway_kill", "gateway-1", 103.0, 108.0)
    assert found([broken], evidence(struck=[killed])) == set()
    assert found([broken], evidence(struck=[replace(killed, target="gateway-2")])) == {"I1"}
    assert found([broken], evidence(struck=[replace(killed, began=120.0, ended=125.0)])) == {"I1"}


def test_a_worker_that_was_cut_off_can_not_know_that_nobody_waits() -> None:
    left = request(end=End.LEFT, ended=101.0)
    late = counted(times=[101.0, 125.0])
    assert found([left], evidence(counted=[late])) == {"ghost"}
    cut = Struck("worker_partition", "worker-1", 100.0, 120.0)
    assert found([left], evidence(counted=[late], struck=[cut])) == set()
    healed = replace(cut, ended=112.0)
    assert found([left], evidence(counted=[late], struck=[healed])) == {"ghost"}


def test_answers_to_one_idempotency_key_are_one_answer() -> None:
    first = request(key="k", act="keyed")
    again = request(key="k", act="keyed", number=1)
    assert found([first, again], evidence()) == set()
    other = request(key="k", act="keyed", number=1, id="job-1")
    assert "I3" in found([first, other], evidence(jobs=[job(), job(id="job-1")]))


def test_text_that_is_cut_off_may_end_inside_a_number() -> None:
    assert look_at_text("8 9 1", whole=False).garbled is False
    assert look_at_text("0 1", whole=True).garbled is True
    assert look_at_text("", whole=True).numbers == 0
    looked = look_at_text("0 1 1 2 5 ", whole=True)
    assert (looked.numbers, looked.duplicates, looked.gaps) == (5, 1, 1)


def test_the_longest_pause_is_between_two_pieces() -> None:
    assert longest_pause(request()) == 1.0
    assert longest_pause(request(act="slow")) == 0.0
    assert longest_pause(request(arrivals=[])) == 0.0


def test_the_steps_of_an_assistant_come_once_and_are_billed_as_they_came() -> None:
    told = Told(7, TOKENS, 2, 1)
    good = request(act="calculate", steps=["route done", "tool done"], usage=told)
    books = evidence(jobs=[job(billed=told)])
    assert not check(Run([good], books))
    for steps, usage in ((["route done"] * 2, told), (["tool done"], told), (good.steps, Told(7, TOKENS, 2, 2))):
        wrong = msgspec.structs.replace(good, steps=steps, usage=usage)
        assert any("steps" in each.detail for each in check(Run([wrong], books)))
