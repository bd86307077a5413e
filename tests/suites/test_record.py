"""Verdicts on the tests of a suite."""

from __future__ import annotations

from tests.suites.record import Recorder, Refusal, TestRecord, Verdict

EXPECTED = {"POST /v1/a": ["field"], "POST /v1/b": [""]}
FIELD, WHOLE = Refusal("POST /v1/a", "field", "No."), Refusal("POST /v1/b", "", "No.")


def verdict(outcome: str, *refusals: Refusal, requests: int = 1, unknown: str = "") -> Verdict:
    recorder = Recorder()
    recorder.report("test")
    recorder.current.requests += requests
    recorder.current.refusals.update(refusals)
    recorder.current.unknown_answered.update([unknown] if unknown else [])
    recorder.report("test", outcome)
    return recorder.tests["test"].verdict(EXPECTED)


def test_a_passed_test_is_told_apart_by_what_it_did_without() -> None:
    assert verdict("passed") is Verdict.PASSED
    assert verdict("passed", FIELD) is Verdict.WITHOUT_FIELDS
    assert verdict("passed", requests=0) is Verdict.CLIENT_ONLY


def test_a_test_that_failed_is_refused_only_for_an_expected_refusal_of_the_request() -> None:
    assert verdict("failed", WHOLE) is Verdict.REFUSED
    assert verdict("failed", FIELD) is Verdict.FAILED
    assert verdict("failed") is Verdict.FAILED
    assert verdict("failed", Refusal("POST /v1/a", "", "No.")) is Verdict.FAILED


def test_a_right_answer_outside_the_clients_types_is_told_apart() -> None:
    record = TestRecord("file.py::test[strict]", outcome="failed", requests=1)
    assert record.verdict({}, ["file.py::test"]) is Verdict.UNREADABLE
    assert record.verdict({}, ["test"]) is Verdict.FAILED
    record.unknown_answered.add("GET /v1/a/{id}: 200")
    assert record.verdict({}, ["file.py::test"]) is Verdict.FAILED


def test_unexpected_refusals_and_answers_for_unknown_objects_fail_a_passed_test() -> None:
    assert verdict("passed", Refusal("POST /v1/a", "other", "No.")) is Verdict.FAILED
    assert verdict("passed", unknown="GET /v1/a/{id}: 200") is Verdict.FAILED


def test_a_failure_of_the_teardown_stays() -> None:
    recorder = Recorder()
    recorder.report("test", "failed", "call")
    recorder.report("test", "passed")
    assert (recorder.current.outcome, recorder.current.reason) == ("failed", "call")
