"""`python -m benchmarks.test_time_compute.shared_memory`: compares one KV memory for two models with two fixed halves.

Generator and verifier run in one engine process that divides the memory by need, or in two with half of it each, by
turns. Three loads: long contexts that are generated, answers that are scored, and beam searches that do both in turn.
Writes `search-memory.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console

from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, make_result, write
from inference_worker.engine.engine_main import run, run_engines
from inference_worker.engine_protocol import (
    EngineLoad,
    GenerationRequest,
    ScoreEvent,
    ScoreInput,
    ScoreRequest,
    TokenEvent,
)
from inference_worker.settings import EngineSettings
from inference_worker.worker.engine_process import EngineProcess, ProcessEngine
from infra.home import environment
from infra.home.settings import LauncherSettings
from router.messages import SamplingParams
from runtime import logging

POOL, HALVES = "one pool", "fixed halves"
SAMPLE_SECONDS = 0.02
"""Seconds between two samples of the resident memory."""
TOKEN_IDS = range(100, 40_000)
"""Token ids of prompts, which both models have."""

console = Console(highlight=False)


@dataclass
class Client:
    """A client of one engine: sends requests, and collects what the engine reports of each."""

    engine: ProcessEngine
    load: EngineLoad = field(default_factory=EngineLoad)
    _waiting: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    _events: dict[str, list[TokenEvent | ScoreEvent]] = field(default_factory=dict)
    _outstanding: dict[str, int] = field(default_factory=dict)

    async def follow(self) -> None:
        """Read the engine's reports until it is stopped."""
        async for report in self.engine.reports():
            self.load = report.load
            if report.failed:
                raise RuntimeError(report.failed[0].message)
            for event in report.events:
                if not isinstance(event, TokenEvent | ScoreEvent):
                    continue
                self._events[event.request].append(event)
                if isinstance(event, ScoreEvent) or event.finish_reason:
                    self._outstanding[event.request] -= 1
                if not self._outstanding[event.request]:
                    self._waiting[event.request].set_result(None)

    async def generate(self, prompt: list[int], tokens: int, *, n: int = 1, seed: int = 1) -> list[list[int]]:
        """Generate `n` continuations of `tokens` tokens; return their ids."""
        name = f"g{len(self._waiting)}"
        sampling = SamplingParams(seed=seed, temperature=0.8, max_tokens=tokens, ignore_eos=True)
        answers: list[list[int]] = [[] for _ in range(n)]
        for event in await self._ask(GenerationRequest(id=name, prompt_ids=prompt, sampling=sampling, n=n), n):
            if isinstance(event, TokenEvent):
                answers[event.choice] += event.token_ids
        return answers

    async def score(self, answers: Sequence[list[int]]) -> list[float]:
        """Score each answer, given with its conversation, at its end."""
        inputs = [ScoreInput(ids, len(ids), [len(ids) - 1]) for ids in answers]
        scores = [0.0] * len(inputs)
        for event in await self._ask(ScoreRequest(id=f"s{len(self._waiting)}", inputs=inputs), len(inputs)):
            if isinstance(event, ScoreEvent):
                scores[event.index] = event.scores[-1]
        return scores

    async def _ask(self, request: GenerationRequest | ScoreRequest, ends: int) -> list[TokenEvent | ScoreEvent]:
        self._waiting[request.id] = asyncio.get_running_loop().create_future()
        self._events[request.id], self._outstanding[request.id] = [], ends
        self.engine.submit(request)
        await self._waiting[request.id]
        return self._events.pop(request.id)


Load = Callable[[Client, Client, float], Awaitable[None]]
"""Runs a load on generator and verifier; the number scales how many requests it has."""


async def mostly_generation(generator: Client, verifier: Client, scale: float) -> None:
    """Generate from 16 long prompts at once, and score two answers meanwhile."""
    prompts = _prompts(16, 512, scale)
    await asyncio.gather(
        *(generator.generate(prompt, 256, seed=seed) for seed, prompt in enumerate(prompts)),
        *(verifier.score([prompt[:256]]) for prompt in prompts[:2]),
    )


async def mostly_scoring(generator: Client, verifier: Client, scale: float) -> None:
    """Score two growing answers to each of eight conversations, six times in turn, and generate meanwhile."""
    prompts, words = _prompts(8, 512, scale), random.Random(2)

    async def score() -> None:
        answers = [[prompt[:] for _ in range(2)] for prompt in prompts]
        for _ in range(6):
            for each in answers:
                for answer in each:
                    answer.extend(words.choices(TOKEN_IDS, k=32))
            for each in answers:
                await verifier.score(each)

    await asyncio.gather(score(), *(generator.generate(prompt[:64], 64) for prompt in prompts[:2]))


async def searches(generator: Client, verifier: Client, scale: float) -> None:
    """Run four beam searches at once, of 2 paths with 4 expansions each and 5 steps of 48 tokens."""

    async def search(prompt: list[int], seed: int) -> None:
        paths = [prompt]
        for step in range(5):
            found = await asyncio.gather(
                *(
                    generator.generate(path, 48, n=8 // len(paths), seed=seed + 100 * step + 10 * number)
                    for number, path in enumerate(paths)
                )
            )
            extended = [path + ids for path, answers in zip(paths, found, strict=True) for ids in answers]
            scores = await verifier.score(extended)
            best = sorted(range(len(extended)), key=lambda index: scores[index], reverse=True)[:2]
            paths = [extended[index] for index in best]

    await asyncio.gather(*(search(prompt, seed) for seed, prompt in enumerate(_prompts(4, 512, scale))))


LOADS: dict[str, Load] = {
    "mostly generation": mostly_generation,
    "mostly scoring": mostly_scoring,
    "searches": searches,
}


def _prompts(count: int, tokens: int, scale: float) -> list[list[int]]:
    words = random.Random(1)
    return [words.choices(TOKEN_IDS, k=tokens) for _ in range(max(2, round(count * scale)))]


@asynccontextmanager
async def running(
    way: str, generator: EngineSettings, verifier: EngineSettings
) -> AsyncIterator[tuple[Client, Client]]:
    """Run both models while the context lasts, in one process with a pool or in two with halves of its memory."""
    if way == POOL:
        engines = EngineProcess([generator, verifier], target=partial(run_engines, log_level="warning")).engines
    else:
        memory = (generator.kv_cache_memory or 0) // 2
        target = partial(run, log_level="warning")
        engines = [
            ProcessEngine.alone(replace(each, kv_cache_memory=memory), target=target) for each in (generator, verifier)
        ]
    await asyncio.gather(*(engine.start() for engine in engines))
    clients = [Client(engine) for engine in engines]
    following = [asyncio.create_task(client.follow()) for client in clients]
    try:
        yield clients[0], clients[1]
    finally:
        for engine in engines:
            await engine.stop()
        await asyncio.gather(*following)


async def measure(way: str, load: Load, generator: EngineSettings, verifier: EngineSettings, scale: float) -> Row:
    """Run a load on new engines; return its figures."""
    async with running(way, generator, verifier) as (writer, reader):
        prompt = _prompts(1, 16, 1)[0]
        await asyncio.gather(writer.generate(prompt, 4), reader.score([prompt]))
        processes = {
            process.pid: psutil.Process(process.pid)
            for client in (writer, reader)
            if client.engine._child is not None and (process := client.engine._child.process).pid is not None
        }
        before, started = (writer.load, reader.load), time.perf_counter()
        base = peak = _resident(processes.values())
        running_load = asyncio.ensure_future(load(writer, reader, scale))
        while not running_load.done():
            await asyncio.wait({running_load}, timeout=SAMPLE_SECONDS)
            peak = max(peak, _resident(processes.values()))
        await running_load
        seconds = time.perf_counter() - started
        return {
            "seconds": seconds,
            "generated_tokens_per_second": (writer.load.generation_tokens - before[0].generation_tokens) / seconds,
            "scored_tokens_per_second": (reader.load.prompt_tokens - before[1].prompt_tokens) / seconds,
            "computed_by_verifier": reader.load.step_tokens - before[1].step_tokens,
            "preemptions": writer.load.preemptions,
            "peak_mib": (peak - base) / 2**20,
        }


def _resident(processes: Iterable[psutil.Process]) -> int:
    return sum(process.memory_info().rss for process in processes)


def main(words: Sequence[str] | None = None) -> None:
    """Run each load on both ways in turns, print the table and write `search-memory.json`."""
    arguments = _parser().parse_args(words)
    logging.configure("benchmark", level="warning")
    settings = environment.load(LauncherSettings)
    cores = os.cpu_count() or 1
    generator = EngineSettings(
        model=str(arguments.model or settings.model_or_default),
        quantization="auto",
        max_model_len=1024,
        max_num_seqs=32,
        max_num_batched_tokens=512,
        kv_cache_memory=arguments.memory_mib * 2**20,
        threads=cores,
    )
    verifier = replace(generator, model=str(arguments.verifier), quantization="none")
    found: dict[tuple[str, str], list[Row]] = {}
    for number in range(arguments.rounds):
        for name, load in ((name, LOADS[name]) for name in arguments.loads):
            for way in (POOL, HALVES) if number % 2 == 0 else (HALVES, POOL):
                row = asyncio.run(measure(way, load, generator, verifier, arguments.scale))
                found.setdefault((name, way), []).append(row)
                console.print(f"round {number + 1}, {name}, {way}: {row['seconds']:.1f} s")
    rows: list[Row] = [
        {
            "load": name,
            "memory": way,
            **{column: median(float(row[column] or 0) for row in measured) for column in measured[0]},
        }
        for (name, way), measured in found.items()
    ]
    described = {
        "model": Path(generator.model).name,
        "verifier": Path(verifier.model).name,
        "memory_mib": arguments.memory_mib,
        "context": generator.max_model_len,
        "threads_of_each_process": cores,
        "rounds": arguments.rounds,
        "scale": arguments.scale,
    }
    result = make_result("search-memory", described, rows)
    print_result(result, write(result, arguments.out))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.test_time_compute.shared_memory")
    parser.add_argument("--model", type=Path, help="the generator; default: that of the home")
    parser.add_argument("--verifier", type=Path, required=True, help="folder of a reward model")
    parser.add_argument("--memory-mib", type=int, default=192, help="memory of both KV caches together")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS), help="loads to run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the number of requests")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    return parser


if __name__ == "__main__":
    main()
