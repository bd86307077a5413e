"""Metrics of steps, tools and jobs."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from assistant.metrics import AssistantMetrics
from router.messages import Cancelled, Failed, FailureCode, Finished, Step, StepState, Usage

USAGE = Usage(prompt_tokens=7, completion_tokens=3)


def value(registry: CollectorRegistry, metric: str, /, **labels: str) -> float | None:
    return registry.get_sample_value(metric, labels)


def test_ended_steps_are_counted_and_tools_timed() -> None:
    registry = CollectorRegistry()
    metrics = AssistantMetrics(registry)
    tool: dict[str, Any] = {"number": 0, "kind": "tool", "name": "math"}
    metrics.step(Step(**tool, state=StepState.RUNNING))
    metrics.step(Step(**tool, state=StepState.DONE, data={"seconds": 0.2}))
    metrics.step(Step(**tool, state=StepState.FAILED, data={"seconds": 3.0}))
    metrics.step(Step(number=1, kind="route", name="none", state=StepState.DONE))
    counter = "headrace_assistant_steps_total"
    assert value(registry, counter, kind="tool", name="math", state="done") == 1
    assert value(registry, counter, kind="tool", name="math", state="failed") == 1
    assert value(registry, counter, kind="tool", name="math", state="running") is None
    assert value(registry, counter, kind="route", name="none", state="done") == 1
    assert value(registry, "headrace_tool_call_seconds_count", tool="math") == 2
    assert value(registry, "headrace_tool_call_seconds_sum", tool="math") == 3.2


def test_jobs_are_counted_by_their_end() -> None:
    registry = CollectorRegistry()
    metrics = AssistantMetrics(registry)
    ids: dict[str, Any] = {"job_id": "j", "attempt_id": "a"}
    metrics.ended("helper", Finished(**ids, usage=USAGE), USAGE, 2.0)
    metrics.ended("helper", Cancelled(**ids, usage=USAGE), USAGE, 1.0)
    metrics.ended("helper", Failed(**ids, code=FailureCode.ENGINE_ERROR, message=""), USAGE, 1.0)
    for reason in ("stop", "abort", "error"):
        name = "headrace_request_success_total"
        assert value(registry, name, model_name="helper", finished_reason=reason) == 1
    assert value(registry, "headrace_prompt_tokens_total", model_name="helper") == 21
    assert value(registry, "headrace_generation_tokens_total", model_name="helper") == 9
    assert value(registry, "headrace_e2e_request_latency_seconds_count", model_name="helper") == 1


def test_load_and_rejected_control_messages() -> None:
    registry = CollectorRegistry()
    metrics = AssistantMetrics(registry)
    metrics.load("helper", 2, 3)
    metrics.control_refused("forged")
    assert value(registry, "headrace_num_requests_running", model_name="helper") == 2
    assert value(registry, "headrace_num_requests_waiting", model_name="helper") == 3
    assert value(registry, "headrace_control_messages_refused_total", reason="forged") == 1
