"""What a worker counts for Prometheus: vLLM's names (its `docs/design/metrics.md`) with the prefix `headrace_`.

So dashboards made for vLLM need one replacement. Knows no jobs: the generator says what happened.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from inference_worker.engine_protocol import EngineLoad

_LABELS = ("model_name",)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)


class WorkerMetrics:
    """The metrics of one worker process."""

    def __init__(self, registry: CollectorRegistry, model: str) -> None:
        self._registry = registry
        self._model = model
        self._seen = EngineLoad()
        self.running = self._gauge("num_requests_running", "Sequences in the engine's current batch")
        self.waiting = self._gauge("num_requests_waiting", "Requests that wait for a place in the batch")
        self.kv_usage = self._gauge("kv_cache_usage_perc", "Part of the KV blocks in use, 0 to 1")
        self.kv_tokens = self._gauge("kv_cache_tokens", "Tokens with keys and values in blocks in use")
        self.kv_waste = self._gauge("kv_cache_waste_perc", "Part of the blocks in use that holds no token, 0 to 1")
        self.steps = self._counter("engine_steps", "Steps computed")
        self.step_tokens = self._counter("engine_step_tokens", "Tokens computed in steps, recomputed ones included")
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens computed or found in the cache")
        self.generation_tokens = self._counter("generation_tokens", "Tokens generated")
        self.preemptions = self._counter("num_preemptions", "Sequences put off to free KV blocks")
        self.cache_queries = self._counter("prefix_cache_queries", "Prompt tokens looked up in the prefix cache")
        self.cache_hits = self._counter("prefix_cache_hits", "Prompt tokens found in the prefix cache")
        self.draft_tokens = self._counter("spec_decode_num_draft_tokens", "Tokens guessed ahead by speculation")
        self.accepted_tokens = self._counter("spec_decode_num_accepted_tokens", "Guessed tokens that were right")
        self.tokens_for_nobody = self._counter(
            "tokens_for_nobody",
            "Tokens of a job that had ended: cancelled, its gateway gone, or by a stop string",
        )
        self.engine_restarts = self._counter("engine_restarts", "Times the engine process died and was started again")
        self.time_to_first_token = self._histogram("time_to_first_token_seconds", "Job taken to first token", _SECONDS)
        self.inter_token_latency = self._histogram(
            "inter_token_latency_seconds", "Between two tokens of one choice", _TOKEN_SECONDS
        )
        self.time_per_output_token = self._histogram(
            "time_per_output_token_seconds", "Mean time of a job's tokens after the first", _TOKEN_SECONDS
        )
        self.latency = self._histogram("e2e_request_latency_seconds", "Job taken to its end", _SECONDS)
        self._control_refused = Counter(
            "headrace_control_messages_refused",
            "Control messages refused, by reason",
            (*_LABELS, "reason"),
            registry=registry,
        )
        self._success = Counter(
            "headrace_request_success",
            "Choices by how they ended",
            (*_LABELS, "finished_reason"),
            registry=registry,
        )

    def control_refused(self, reason: str) -> None:
        """A control message that nobody who may send any has just sent: `unsigned`, `forged`, `old`."""
        self._control_refused.labels(self._model, reason).inc()

    def finished(self, reason: str) -> None:
        """One choice ended: `stop`, `length`, or as an aborted or failed job: `abort`, `error`."""
        self._success.labels(self._model, reason).inc()

    def observe(self, load: EngineLoad, waiting: int) -> None:
        """Take over the engine's load; `waiting` jobs are not in the engine yet."""
        self.running.set(load.running)
        self.waiting.set(load.waiting + waiting)
        self.kv_usage.set(kv_usage(load))
        self.kv_tokens.set(load.kv_tokens_held)
        self.kv_waste.set(kv_waste(load))
        seen, self._seen = self._seen, load
        for counter, now, before in (
            (self.steps, load.steps, seen.steps),
            (self.step_tokens, load.step_tokens, seen.step_tokens),
            (self.prompt_tokens, load.prompt_tokens, seen.prompt_tokens),
            (self.generation_tokens, load.generation_tokens, seen.generation_tokens),
            (self.preemptions, load.preemptions, seen.preemptions),
            (self.cache_queries, load.prefix_cache_queries, seen.prefix_cache_queries),
            (self.cache_hits, load.prefix_cache_hits, seen.prefix_cache_hits),
            (self.draft_tokens, load.draft_tokens, seen.draft_tokens),
            (self.accepted_tokens, load.accepted_tokens, seen.accepted_tokens),
        ):
            # A restarted engine counts from 0 again.
            counter.inc(now - before if now >= before else now)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"headrace_{name}", text, _LABELS, registry=self._registry).labels(self._model)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"headrace_{name}", text, _LABELS, registry=self._registry).labels(self._model)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"headrace_{name}", text, _LABELS, registry=self._registry, buckets=buckets).labels(
            self._model
        )


def kv_usage(load: EngineLoad) -> float:
    """Part of the KV blocks in use, 0 to 1."""
    return min(1.0, load.kv_blocks_used / load.kv_blocks_total) if load.kv_blocks_total else 0.0


def kv_waste(load: EngineLoad) -> float:
    """Part of the KV slots of blocks in use that holds no token, 0 to 1: the ends of last blocks."""
    return 1 - load.kv_tokens_held / load.kv_slots_held if load.kv_slots_held else 0.0
