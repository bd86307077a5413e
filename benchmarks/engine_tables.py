"""Measures each table of the engine benchmark: a function per table that runs an engine (`Bench`) and returns rows.

Prompts differ in every repeat, so that the prefix cache, which is on as in production, only helps in its own table.
A figure is the median of its repeats, with the lowest and highest beside it.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numpy.random import default_rng

from benchmarks import engine_driver, workloads
from benchmarks.measures import Timeline, median, milliseconds, percentile, throughput
from benchmarks.results import Row
from inference_worker.engine.engine import Engine

Build = Callable[..., Engine]
"""A function that builds an engine; keywords replace fields of its settings."""

LENGTH_RANGES = ((1, 32), (33, 64), (65, 128), (129, 256), (257, 512), (513, 1024))


@dataclass(frozen=True)
class Scale:
    """The sizes and repeats of the measurements: `QUICK` takes minutes on two cores, `FULL` some more."""

    repeats: int
    batches: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    probes: int
    tenants: int
    conversations: int
    length: int = 128
    """Number of prompt tokens, and of output tokens, in the fixed workload."""
    prompts: tuple[int, ...] = (128, 512, 1024, 2048)
    """Prompt lengths of the prefill table in tokens."""
    streams: int = 16
    chats: int = 32


QUICK = Scale(3, (1, 4, 16, 64), LENGTH_RANGES[:4], probes=10, tenants=4, conversations=2)
FULL = Scale(3, (1, 4, 16, 64, 256), LENGTH_RANGES, probes=30, tenants=8, conversations=2)


@dataclass
class Bench:
    """The engine under test, reused between tables, and the scale. Seeds are never used twice."""

    build: Build
    scale: Scale
    _engine: Engine | None = None
    _seed: int = 0

    @property
    def engine(self) -> Engine:
        """The engine under test, which is loaded and warmed up on first access."""
        if self._engine is None:
            self._engine = warm_up(self.build())
        return self._engine

    def seed(self) -> int:
        """Return a seed that no earlier call returned, so that no two workloads have the same prompts."""
        self._seed += 1
        return self._seed

    def fixed(self, count: int, inputs: int, outputs: int) -> list[workloads.Request]:
        """Return `count` new requests, each with `inputs` random prompt tokens and `outputs` tokens to generate."""
        return workloads.fixed(count, self.engine.ready().vocab_size, inputs, outputs, self.seed())


def warm_up(engine: Engine) -> Engine:
    """Run small batches on an engine and return it: memory is then allocated and kernels are compiled."""
    for count in (1, 4, 16):
        engine_driver.run_batch(engine, workloads.fixed(count, engine.ready().vocab_size, 64, 8, seed=10_000 + count))
    return engine


# --- I: speed by output length --------------------------------------------------------------------


def lengths(bench: Bench) -> list[Row]:
    """Measure the engine's tokens/s for 16 sequences of 128 prompt tokens with random output lengths.

    Returns a result row for each range of lengths.
    """
    rows: list[Row] = []
    for low, high in bench.scale.ranges:
        outputs = default_rng(bench.seed()).integers(low, high + 1, bench.scale.streams)
        prompts = bench.fixed(bench.scale.streams, bench.scale.length, 1)
        requests = [workloads.Request(r.prompt_ids, int(n)) for r, n in zip(prompts, outputs, strict=True)]
        timelines = list(engine_driver.run_batch(bench.engine, requests).timelines.values())
        rows.append(
            {
                "output_tokens": f"{low}-{high}",
                "tokens_per_second": throughput(timelines),
                "tpot_p50_ms": milliseconds(percentile([t.tpot for t in timelines if t.tpot is not None], 50)),
            }
        )
    return rows


# --- II: batch ------------------------------------------------------------------------------------


def batch(bench: Bench) -> list[Row]:
    """Measure the engine's tokens/s by batch size: sequences of 128 prompt and 128 generated tokens, sent at once.

    Returns a result row for each batch size.
    """
    return [_batch(bench, size) for size in bench.scale.batches]


def _batch(bench: Bench, size: int) -> Row:
    rates, decoding, first = [], [], []
    for _ in range(bench.scale.repeats):
        run = engine_driver.run_batch(bench.engine, bench.fixed(size, bench.scale.length, bench.scale.length))
        timelines = list(run.timelines.values())
        rates.append(throughput(timelines))
        decoding.append(decode_rate(timelines))
        first.append(max(t.ttft for t in timelines))
    return {
        "batch": size,
        **spread("tokens_per_second", rates),
        "decode_tokens_per_second": median(decoding),
        "last_first_token_ms": milliseconds(median(first)),
    }


def decode_rate(timelines: Sequence[Timeline]) -> float:
    """Return the generated tokens per second of a batch, from when every sequence had its first token."""
    begin, end = max(t.chunks[0] for t in timelines), max(t.chunks[-1] for t in timelines)
    return sum(sum(seen > begin for seen in t.chunks) for t in timelines) / (end - begin)


def spread(name: str, values: Sequence[float]) -> Row:
    """Return result columns of repeated measurements: `name` (median), `name_low` and `name_high`."""
    return {name: median(values), f"{name}_low": min(values), f"{name}_high": max(values)}


# --- Prefill, and first tokens under load ---------------------------------------------------------


def prefill(bench: Bench) -> list[Row]:
    """Measure the engine's prompt tokens per second by prompt length: single prompts with one output token.

    Returns a result row for each length.
    """
    rows: list[Row] = []
    for inputs in bench.scale.prompts:
        runs = [engine_driver.run_batch(bench.engine, bench.fixed(1, inputs, 1)) for _ in range(bench.scale.repeats)]
        times = [timeline.ttft for run in runs for timeline in run.timelines.values()]
        rows.append({"prompt_tokens": inputs, **spread("tokens_per_second", [inputs / t for t in times])})
    return rows


def first_token_under_load(bench: Bench) -> list[Row]:
    """Measure the engine's TTFT for prompts of 128 tokens that arrive at random moments while 16 long streams run.

    Returns one result row.
    """
    scale = bench.scale
    streams = bench.fixed(scale.streams, scale.length, 1800)
    probes = bench.fixed(scale.probes, scale.length, 4)
    gaps = [float(gap) for gap in default_rng(bench.seed()).uniform(0.05, 0.25, len(probes))]
    seen = list(engine_driver.under_load(bench.engine, streams, probes, gaps).timelines.values())
    times = [timeline.ttft for timeline in seen]
    row: Row = {"streams": scale.streams, "prompt_tokens": scale.length, "probes": len(times)}
    return [row | {f"ttft_p{q}_ms": milliseconds(percentile(times, q)) for q in (50, 99)}]


# --- Prefix cache, memory -------------------------------------------------------------------------


def prefix_cache(bench: Bench) -> list[Row]:
    """Measure conversations of tenants with system prompts of 1,024 tokens, with the prefix cache and without.

    Returns a result row for each.
    """
    return [_prefix_cache(bench, enabled) for enabled in (True, False)]


def _prefix_cache(bench: Bench, enabled: bool) -> Row:
    engine = bench.engine if enabled else warm_up(bench.build(enable_prefix_caching=False))
    scale, before = bench.scale, engine.load()
    work = workloads.shared_prefix(scale.tenants, scale.conversations, engine.ready().vocab_size, seed=1)
    begin = time.perf_counter()
    timelines = list(engine_driver.run_conversations(engine, work, scale.streams).timelines.values())
    seconds, load = time.perf_counter() - begin, engine.load()
    queries = load.prefix_cache_queries - before.prefix_cache_queries
    return {
        "prefix_cache": enabled,
        "requests": len(timelines),
        "requests_per_second": len(timelines) / seconds,
        "tokens_per_second": throughput(timelines),
        "ttft_p50_ms": milliseconds(percentile([t.ttft for t in timelines], 50)),
        "hit_rate": (load.prefix_cache_hits - before.prefix_cache_hits) / queries if queries else 0.0,
    }


def memory(bench: Bench) -> list[Row]:
    """Measure the unused share of allocated KV cache slots over all steps of a load, and the process's peak memory.

    Returns result rows.
    """
    vocab_size, scale = bench.engine.ready().vocab_size, bench.scale
    loads = {
        "one sequence": bench.fixed(1, scale.length, scale.length),
        "a full batch": bench.fixed(scale.streams, scale.length, scale.length),
        "chat": workloads.chat(scale.chats, vocab_size, bench.seed()),
    }
    rows: list[Row] = []
    for name, requests in loads.items():
        cache = engine_driver.run_batch(bench.engine, requests).cache
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        rows.append(
            {
                "load": name,
                "sequences": len(requests),
                "kv_waste": cache.waste,
                "kv_waste_worst_step": cache.worst,
                "peak_rss": peak,
            }
        )
    return rows


# --- Activation bits ------------------------------------------------------------------------------


def activation_bits(bench: Bench) -> list[Row]:
    """Measure a decoding step by batch size, and a prefill of 512 tokens, with each number of bits of activations.

    Engines take turns. Returns a result row for each load, with the median milliseconds of each engine.
    """
    engines = {bits: warm_up(bench.build(activation_bits=bits)) for bits in (16, "auto", 8)}
    rows: list[Row] = []
    for size in bench.scale.batches:
        times: dict[int | str, list[float]] = {bits: [] for bits in engines}
        for _ in range(_TURNS):
            for bits, engine in engines.items():
                run = engine_driver.run_batch(engine, bench.fixed(size, bench.scale.length, _STEPS))
                times[bits].append(size / decode_rate(list(run.timelines.values())))
        rows.append({"load": "decoding", "sequences": size, **_by_bits(times)})
    times = {bits: [] for bits in engines}
    for _ in range(_TURNS):
        for bits, engine in engines.items():
            run = engine_driver.run_batch(engine, bench.fixed(1, _PREFILL, 1))
            times[bits].extend(timeline.ttft for timeline in run.timelines.values())
    return [*rows, {"load": f"prefill of {_PREFILL} tokens", "sequences": 1, **_by_bits(times)}]


_TURNS, _STEPS, _PREFILL = 7, 33, 512
"""Number of turns; tokens generated per sequence in a turn; prompt tokens of the prefill."""


def _by_bits(times: dict[int | str, list[float]]) -> Row:
    names = {bits: "auto" if bits == "auto" else f"{bits}_bits" for bits in times}
    return {f"{names[bits]}_ms": milliseconds(median(took)) for bits, took in times.items()}


TABLES: dict[str, Callable[[Bench], list[Row]]] = {
    "batch": batch,
    "prefill": prefill,
    "first-token-under-load": first_token_under_load,
    "prefix-cache": prefix_cache,
    "memory": memory,
    "lengths": lengths,
    "activation-bits": activation_bits,
}
