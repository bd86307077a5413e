"""`python -m benchmarks.test_time_compute.speed`: times a beam search as one request, and as a client's loop.

Ways, in turns: one request with `test_time_compute`; a client's loop of requests to Headrace; the same loop on vLLM's
servers of generator and verifier, as they are, and with the verifier's prefix cache forced on. Both models have the
same sizes; paths never end early, so every way generates the same number of tokens. Writes `search-speed.json`, or with
`--fast` (8-bit activations, and an int8 verifier, on Headrace) `search-speed-fast.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import aiohttp
from rich.console import Console
from transformers import AutoTokenizer

from benchmarks.client import Endpoint, open_session
from benchmarks.peers.peer import DTYPE, PeerWorkspace
from benchmarks.peers.vllm import Vllm
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, make_result, write
from benchmarks.servers import vllm_server
from benchmarks.test_time_compute.client_loop import SearchSize, post, search
from benchmarks.test_time_compute.platform import VERIFIER, searching_platform
from benchmarks.test_time_compute.random_verifier import STEP_TAG, write_verifier
from infra.home import environment
from infra.home.settings import LauncherSettings
from runtime import logging

SEPARATOR = "\u241e\u241e"
"""Separator of steps that no model writes, so that each step has all its tokens."""
QUESTION = (
    "A shop sells pens for 3 crowns and books for 17 crowns. What do 12 pens and 5 books cost? Think step by step."
)

Way = Callable[[SearchSize], Awaitable[str]]
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
    seconds: dict[tuple[str, int], list[float]] = {}
    for number in range(arguments.rounds):
        for name, ways in _servers(workspace, verifier, arguments.ways.split(","), fast=arguments.fast):
            asyncio.run(_timed(name, ways, sizes, number, seconds))
    rows: list[Row] = [
        {
            "way": way,
            "paths": size.paths,
            "expansions": size.expansions,
            "seconds": median(seconds[way, size.paths]),
            "generated_tokens_per_second": size.generated / median(seconds[way, size.paths]),
            "times_of_one_request": median(seconds[way, size.paths])
            / median(seconds.get(("one request", size.paths), [float("nan")])),
        }
        for way in dict.fromkeys(way for way, _ in seconds)
        for size in sizes
    ]
    described = {"steps": arguments.steps, "step_tokens": arguments.step_tokens, "rounds": arguments.rounds}
    name = "search-speed-fast" if arguments.fast else "search-speed"
    result = make_result(name, described, rows, {"vllm": peer.version()})
    print_result(result, write(result, arguments.out))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.test_time_compute.speed")
    parser.add_argument("--paths", default="4,16,64", help="numbers of paths after each step, separated by commas")
    parser.add_argument("--expansions", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--step-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default="headrace,vllm,vllm-cached", help="servers to run, separated by commas")
    parser.add_argument("--fast", action="store_true", help="8-bit activations, and an int8 verifier, on Headrace")
    parser.add_argument("--folder", type=Path, help="folder of vLLM's environment; default: .headrace/peers")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    return parser


def _servers(
    workspace: PeerWorkspace, verifier: Path, chosen: Sequence[str], *, fast: bool
) -> Iterator[tuple[str, dict[str, Way]]]:
    """Start each chosen server in turn; yield its name and its ways while it runs."""
    prompt = AutoTokenizer.from_pretrained(workspace.safetensors).apply_chat_template(
        [{"role": "user", "content": QUESTION}], tokenize=False, add_generation_prompt=True
    )
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
        with searching_platform(workspace.model, verifier, options, variables) as platform:
            yield "headrace", _headrace_ways(platform.endpoint, prompt)
    for name in ("vllm", "vllm-cached"):
        if name in chosen:
            with _vllm(workspace, verifier, cached=name == "vllm-cached") as ways:
                yield name, ways(prompt)


def _headrace_ways(endpoint: Endpoint, prompt: str) -> dict[str, Way]:
    async def score(http: aiohttp.ClientSession, question: str, answers: list[list[str]]) -> list[float]:
        body = {"model": VERIFIER, "messages": [{"role": "user", "content": question}], "candidates": answers}
        found = await post(http, f"{endpoint.base_url}/score", body)
        return [each["score"] for each in found["data"]]

    async def one_request(size: SearchSize) -> str:
        body = {
            "model": endpoint.model,
            "messages": [{"role": "user", "content": QUESTION}],
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

    async def loop(size: SearchSize) -> str:
        return await search(endpoint, score, QUESTION, prompt, size)

    return {"one request": one_request, "loop on Headrace": loop}


@contextmanager
def _vllm(workspace: PeerWorkspace, verifier: Path, *, cached: bool) -> Iterator[Callable[[str], dict[str, Way]]]:
    """Run vLLM's servers of generator and verifier; the generator's prefix cache is on, as it is by default."""
    tag = AutoTokenizer.from_pretrained(verifier).convert_tokens_to_ids(STEP_TAG)
    pooler = json.dumps({"step_tag_id": tag, "tok_pooling_type": "STEP"})
    options = ["--runner", "pooling", "--pooler-config", pooler]
    options += ["--enable-prefix-caching", "--enable-chunked-prefill"] if cached else []
    with (
        vllm_server(workspace, "--enable-prefix-caching") as generator,
        vllm_server(workspace, *options, model=verifier) as scorer,
    ):

        async def score(http: aiohttp.ClientSession, question: str, answers: list[list[str]]) -> list[float]:
            asked = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
            texts = [asked + "".join(f"{step}{STEP_TAG}" for step in steps) for steps in answers]
            body = {"model": scorer.model, "input": texts, "task": "token_classify"}
            found = await post(http, f"{scorer.base_url.removesuffix('/v1')}/pooling", body)
            return [each["data"][-1][1] for each in found["data"]]

        name = "loop on vLLM, verifier's prefix cache on" if cached else "loop on vLLM"

        def ways(prompt: str) -> dict[str, Way]:
            async def loop(size: SearchSize) -> str:
                return await search(generator, score, QUESTION, prompt, size)

            return {name: loop}

        yield ways


async def _timed(
    server: str,
    ways: dict[str, Way],
    sizes: Sequence[SearchSize],
    number: int,
    seconds: dict[tuple[str, int], list[float]],
) -> None:
    for name, way in ways.items():
        await way(SearchSize(2, 2, 2, 8))  # warm-up
        for size in sizes:
            started = time.perf_counter()
            await way(size)
            took = time.perf_counter() - started
            seconds.setdefault((name, size.paths), []).append(took)
            console.print(f"round {number + 1}, {server}: {name}, {size.paths} paths: {took:.1f} s")


if __name__ == "__main__":
    main()
