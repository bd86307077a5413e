"""Defines the Prometheus metrics of an assistant process, with a worker's names where they mean the same."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from router.messages import Cancelled, Failed, Step, StepState, Terminal, Usage

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
_MODEL = "model_name"


class AssistantMetrics:
    """Metrics of one assistant process, over all its models."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._running = Gauge(
            "headrace_num_requests_running", "Requests that are being answered", (_MODEL,), registry=registry
        )
        self._waiting = Gauge(
            "headrace_num_requests_waiting", "Requests that wait for a slot", (_MODEL,), registry=registry
        )
        self._steps = Counter(
            "headrace_assistant_steps", "Ended steps of answers", ("kind", "name", "state"), registry=registry
        )
        self._tool_seconds = Histogram(
            "headrace_tool_call_seconds", "Duration of tool calls", ("tool",), registry=registry, buckets=_SECONDS
        )
        self._success = Counter(
            "headrace_request_success", "Answers by finish reason", (_MODEL, "finished_reason"), registry=registry
        )
        self._prompt_tokens = Counter(
            "headrace_prompt_tokens", "Prompt tokens of ended jobs", (_MODEL,), registry=registry
        )
        self._generation_tokens = Counter(
            "headrace_generation_tokens", "Completion tokens of ended jobs", (_MODEL,), registry=registry
        )
        self._latency = Histogram(
            "headrace_e2e_request_latency_seconds",
            "Time from a job's delivery to its end",
            (_MODEL,),
            registry=registry,
            buckets=_SECONDS,
        )
        self._control_refused = Counter(
            "headrace_control_messages_refused", "Control messages rejected", ("reason",), registry=registry
        )

    def control_refused(self, reason: str) -> None:
        """Count one control message that the assistant rejected for its signature or timestamp.

        `reason` is `unsigned`, `forged` or `old`.
        """
        self._control_refused.labels(reason).inc()

    def load(self, model: str, running: int, waiting: int) -> None:
        """Set the gauges of the requests of the assistant `model` that are being answered, and that wait for a slot."""
        self._running.labels(model).set(running)
        self._waiting.labels(model).set(waiting)

    def step(self, step: Step) -> None:
        """Count an ended step of an answer, and record the duration of a tool call; running steps are ignored."""
        if step.state is StepState.RUNNING:
            return
        self._steps.labels(step.kind, step.name, step.state.value).inc()
        if step.kind == "tool":
            self._tool_seconds.labels(step.name).observe(step.data["seconds"])

    def ended(self, model: str, terminal: Terminal, usage: Usage, seconds: float) -> None:
        """Count an ended job and its tokens by its terminal reply; if finished, record its latency, `seconds`."""
        self._prompt_tokens.labels(model).inc(usage.prompt_tokens)
        self._generation_tokens.labels(model).inc(usage.completion_tokens)
        if isinstance(terminal, Failed | Cancelled):
            self._success.labels(model, "error" if isinstance(terminal, Failed) else "abort").inc()
        else:
            self._success.labels(model, "stop").inc()
            self._latency.labels(model).observe(seconds)
