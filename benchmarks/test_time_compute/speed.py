"""`python -m benchmarks.test_time_compute.speed`: measures a beam search as one request, and as a client's loop.

Ways, in turns, each on servers of its own: one request with `test_time_compute`; a client's loop of requests to
Headrace; the same loop on vLLM's servers of generator and verifier, as they are, and with the verifier's prefix cache
forced on. Both models have the same sizes; paths never end early, so every way generates the same number of tokens.
Beside the time it reads the peak of each model's KV memory, and how many tokens the verifier computed. Writes
`search-speed.json`, or with `--fast` (8-bit activations, and an int8 verifier, on Headrace) `search-speed-fast.json`;
with several `--searches` at once `search-speed-concurrent.json` or `search-speed-fast-concurrent.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from rich.console import Console
from transformers import AutoTokenizer

from benchmarks.client import Endpoint, open_session
from benchmarks.measures import medians
from benchmarks.peers.peer import DTYPE, PeerWorkspace
from benchmarks.peers.vllm import Vllm
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, make_result, write
from benchmarks.servers import vllm_server
from benchmarks.test_time_compute.client_loop import SearchSize, post, search
from benchmarks.test_time_compute.platform import VERIFIER, searching_platform
from benchmarks.test_time_compute.random_verifier import STEP_TAG, write_verifier
from benchmarks.test_time_compute.search_metrics import read_metrics
from infra.home import environment
from infra.home.settings import LauncherSettings
from runtime import logging

SEPARATOR = "\u241e\u241e"
"""Separator of steps that no model writes, so that each step has all its tokens."""
QUESTION = (
    "A shop sells pens for 3 crowns and books for 17 crowns. What do 12 pens and 5 books cost? Think step by step."
)

ONE_REQUEST = "one request"
SCHEDULER = "benchmarks.peers.runners.vllm_scheduler.PeakScheduler"

Search = Callable[[SearchSize, str], Awaitable[str]]
"""Runs a search of a size for the answer of a question, and returns the best path's text."""


@dataclass(frozen=True)
class Way:
    """A way to run a search on servers that run now.

    Attributes:
        generator_metrics, verifier_metrics: addresses of the servers' Prometheus metrics.
    """

    name: str
    search: Search
    generator_metrics: str
    verifier_metrics: str


console = Console(highlight=False)


def main(words: Sequence[str] | None = None) -> None:
    """Install vLLM, run each way in turns, print the table and write `search-speed.json`."""
    arguments = _parser().parse_args(words)
    logging.configure("benchmark", level="warning")
    settings = environment.load(LauncherSettings)
    workspace = PeerWorkspace(
        (arguments.folder or settings.folder.path / "peers").resolve(),
        Path(settings.model_or_default),
        os.cpu_count() or 1,
    )
    peer = Vllm(workspace)
    peer.install()
    verifier = workspace.folder / "models" / "verifier"
    write_verifier(workspace.safetensors, verifier)
    sizes = [
        SearchSize(int(paths), arguments.expansions, arguments.steps, arguments.step_tokens)
        for paths in arguments.paths.split(",")
    ]
    rounds: list[list[Row]] = []
    for number in range(arguments.rounds):
        rows: list[Row] = []
        for way in _ways(workspace, verifier, arguments.ways.split(","), fast=arguments.fast):
            for row in asyncio.run(_measured(way, sizes, arguments.searches)):
                rows.append(row)
                console.print(f"round {number + 1}: {row}")
        rounds.append(rows)
    described = {"steps": arguments.steps, "step_tokens": arguments.step_tokens, "rounds": arguments.rounds}
    name = "search-speed" + "-fast" * arguments.fast + "-concurrent" * (arguments.searches > 1)
    result = make_result(name, described, _compared(medians(rounds)), {"vllm": peer.version()})
    print_result(result, write(result, arguments.out))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.test_time_compute.speed")
    parser.add_argument("--paths", default="4,16,64", help="numbers of paths after each step, separated by commas")
    parser.add_argument("--expansions", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--step-tokens", type=int, default=32)
    parser.add_argument("--searches", type=int, default=1, help="number of searches at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default="headrace,vllm,vllm-cached", help="servers to run, separated by commas")
    parser.add_argument("--fast", action="store_true", help="8-bit activations, and an int8 verifier, on Headrace")
    parser.add_argument("--folder", type=Path, help="folder of vLLM's environment; default: .headrace/peers")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    return parser


def _ways(workspace: PeerWorkspace, verifier: Path, chosen: Sequence[str], *, fast: bool) -> Iterator[Way]:
    """Start the servers of each chosen way in turn; yield the way while they run."""
    if "headrace" in chosen:
        variables = {
            "HEADRACE_SPECULATION": "off",
            "HEADRACE_MAX_SEARCH_TOKENS": "10000000",
            "HEADRACE_MAX_CHOICES": "128",  # the loop's first request has all continuations
        }
        options = ["--dtype", DTYPE]
        if fast:
            variables["HEADRACE_ACTIVATION_BITS"] = "8"
            options += ["--quantization", "int8", "--activation-bits", "8"]
        for name in (ONE_REQUEST, "loop on Headrace"):
            with searching_platform(workspace.model, verifier, options, variables) as platform:
                endpoint = platform.endpoint
                one = name == ONE_REQUEST
                run = _one_request(endpoint) if one else _headrace_loop(endpoint, _chat_template(workspace))
                yield Way(name, run, *platform.metrics)
    for name in ("vllm", "vllm-cached"):
        if name in chosen:
            with _vllm(workspace, verifier, cached=name == "vllm-cached") as way:
                yield way


def _chat_template(workspace: PeerWorkspace) -> Callable[[str], str]:
    """Return a function that writes a question in the generator's chat template."""
    tokenizer = AutoTokenizer.from_pretrained(workspace.safetensors)

    def prompt(question: str) -> str:
        conversation = [{"role": "user", "content": question}]
        text: str = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
        return text

    return prompt


def _one_request(endpoint: Endpoint) -> Search:
    async def one_request(size: SearchSize, question: str) -> str:
        body = {
            "model": endpoint.model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": size.steps * size.step_tokens,
            "temperature": 0.8,
            "ignore_eos": True,
            "test_time_compute": {
                "method": "beam_search",
                "n": size.paths,
                "expansions": size.expansions,
                "max_steps": size.steps,
                "step_tokens": size.step_tokens,
                "separator": SEPARATOR,
                "verifier": VERIFIER,
                "budget_tokens": 2_000_000,
            },
        }
        async with open_session(endpoint) as http:
            answer = await post(http, f"{endpoint.base_url}/chat/completions", body)
        text: str = answer["choices"][0]["message"]["content"]
        return text

    return one_request


def _headrace_loop(endpoint: Endpoint, prompt: Callable[[str], str]) -> Search:
    async def score(http: aiohttp.ClientSession, question: str, answers: list[list[str]]) -> list[float]:
        body = {"model": VERIFIER, "messages": [{"role": "user", "content": question}], "candidates": answers}
        found = await post(http, f"{endpoint.base_url}/score", body)
        return [each["score"] for each in found["data"]]

    async def loop(size: SearchSize, question: str) -> str:
        return await search(endpoint, score, question, prompt(question), size)

    return loop


@contextmanager
def _vllm(workspace: PeerWorkspace, verifier: Path, *, cached: bool) -> Iterator[Way]:
    """Run vLLM's servers of generator and verifier; the generator's prefix cache is on, as it is by default."""
    tag = AutoTokenizer.from_pretrained(verifier).convert_tokens_to_ids(STEP_TAG)
    pooler = json.dumps({"step_tag_id": tag, "tok_pooling_type": "STEP"})
    options = ["--runner", "pooling", "--pooler-config", pooler, "--scheduler-cls", SCHEDULER]
    options += ["--enable-prefix-caching", "--enable-chunked-prefill"] if cached else []
    prompt = _chat_template(workspace)
    with (
        vllm_server(workspace, "--enable-prefix-caching", "--scheduler-cls", SCHEDULER) as generator,
        vllm_server(workspace, *options, model=verifier) as scorer,
    ):
        metrics = [f"{each.base_url.removesuffix('/v1')}/metrics" for each in (generator, scorer)]

        async def score(http: aiohttp.ClientSession, question: str, answers: list[list[str]]) -> list[float]:
            asked = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
            texts = [asked + "".join(f"{step}{STEP_TAG}" for step in steps) for steps in answers]
            body = {"model": scorer.model, "input": texts, "task": "token_classify"}
            found = await post(http, f"{scorer.base_url.removesuffix('/v1')}/pooling", body)
            return [each["data"][-1][1] for each in found["data"]]

        async def loop(size: SearchSize, question: str) -> str:
            return await search(generator, score, question, prompt(question), size)

        yield Way("loop on vLLM, verifier's prefix cache on" if cached else "loop on vLLM", loop, *metrics)


async def _measured(way: Way, sizes: Sequence[SearchSize], searches: int) -> list[Row]:
    """Run `searches` searches of each size at once, with a question each; return a row for each size.

    Sizes come in ascending order, because the servers report the peak of the KV memory since they started.
    """
    rows: list[Row] = []
    await way.search(SearchSize(2, 2, 2, 8), QUESTION)  # warm-up
    for size in sorted(sizes, key=lambda size: size.paths):
        before = read_metrics(way.verifier_metrics)
        started = time.perf_counter()
        await asyncio.gather(*(way.search(size, f"{QUESTION} Case {number + 1}.") for number in range(searches)))
        seconds = time.perf_counter() - started
        generator, verifier = read_metrics(way.generator_metrics), read_metrics(way.verifier_metrics)
        generated = searches * size.generated
        rows.append(
            {
                "way": way.name,
                "searches": searches,
                "paths": size.paths,
                "expansions": size.expansions,
                "seconds": seconds,
                "generated_tokens_per_second": generated / seconds,
                "generator_kv_mib": generator.kv_peak / 2**20,
                "verifier_kv_mib": verifier.kv_peak / 2**20,
                "verifier_tokens_per_new": (verifier.computed - before.computed) / generated,
            }
        )
    return rows


def _compared(rows: Sequence[Row]) -> list[Row]:
    """Add to each row its time as a multiple of that of one request of the same size, if that was measured."""
    one = {row["paths"]: float(row["seconds"] or 0) for row in rows if row["way"] == ONE_REQUEST}
    return [
        row | {"times_of_one_request": float(row["seconds"] or 0) / one[row["paths"]] if row["paths"] in one else None}
        for row in rows
    ]


if __name__ == "__main__":
    main()
