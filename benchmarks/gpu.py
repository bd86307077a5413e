"""`python -m benchmarks.gpu`: measures the generation engine on a GPU, beside `transformers` and the memory bound.

Three shapes with random weights, batches of 1 to 256 and prefills of 512 and 2,048 tokens, compared with the continuous
batching of `transformers` in its default settings, and with the bound of the bytes that a decode step must read.
Both get the same prompts, greedy, all at once, ends of sequence ignored. Each of our figures is the median of the
repeats; `transformers`, which is far slower, runs once after a short warm-up, at some batch sizes only. `gpu.json` is
written after each shape.

    --formats               measures quantised weights and an int8 KV cache instead, without `transformers`: one shape,
                            8B or that of `--shape`, for some minutes; `gpu-formats.json` is written at the end.
    --device cpu --quick    tests the program on a tiny model in Triton's interpreter (TRITON_INTERPRET=1); its figures
                            mean nothing and are not written.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
import triton
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaForCausalLM

from benchmarks.gpu_models import (
    SHAPES,
    STORAGES,
    Shape,
    Storage,
    bandwidth,
    bytes_per_step,
    our_engine,
    their_model,
    weight_dtype,
)
from benchmarks.measures import median
from benchmarks.report import print_rows
from benchmarks.results import RESULTS, Row, Value, make_result, write
from benchmarks.workloads import Request, fixed
from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import GenerationRequest
from router.messages import SamplingParams

CONTEXT, OUTPUTS = 512, 128
PREFILL_TOKENS = 16_384
"""Prompt tokens of one prefill measurement: 32 prompts of 512, 8 of 2,048."""


class Case(NamedTuple):
    """A load: `batch` requests at once, with tokens of each prompt and answer; one output token measures prefill."""

    batch: int
    prompt: int
    outputs: int


@dataclass(frozen=True)
class Plan:
    """The sizes and repeats of the measurements."""

    shapes: list[Shape]
    batches: list[int]
    peer_batches: list[int]
    prompt: int
    outputs: int
    prefills: list[int]
    prefill_tokens: int
    repeats: int

    @property
    def cases(self) -> list[Case]:
        """The loads that are measured with each shape."""
        decode = [Case(batch, self.prompt, self.outputs) for batch in self.batches]
        return decode + [Case(self.prefill_tokens // prompt, prompt, 1) for prompt in self.prefills]

    @property
    def longest(self) -> int:
        """Tokens of the longest context that any measurement of the plan needs."""
        return max(self.prompt + self.outputs, max(self.prefills) + 1)

    @property
    def most(self) -> int:
        """Largest number of concurrent sequences that any measurement of the plan needs."""
        return max(*self.batches, self.prefill_tokens // min(self.prefills))


@dataclass(frozen=True)
class Speed:
    """Throughput of a run in tokens per second.

    Attributes:
        prefill: prompt tokens per second until every sequence has its first token.
        decode: generated tokens per second after that; 0 if there were none.
        whole: generated tokens per second over the whole run.
    """

    prefill: float
    decode: float
    whole: float


FULL = Plan([SHAPES[name] for name in ("135M", "1B", "8B")], [1, 4, 16, 64, 256], [16, 256], CONTEXT, OUTPUTS,
            [512, 2048], PREFILL_TOKENS, repeats=3)  # fmt: skip
FORMATS = Plan([SHAPES["8B"]], [1, 4, 16, 64], [], CONTEXT, OUTPUTS, [512], 8192, repeats=2)
QUICK = Plan([SHAPES["tiny"]], [1, 3], [3], 20, 6, [32, 48], 96, repeats=1)
QUICK_FORMATS = Plan([SHAPES["tiny"]], [2], [], 8, 2, [16], 16, repeats=1)


def main(arguments: list[str] | None = None) -> None:
    """Run `python -m benchmarks.gpu`: measure our engine and `transformers` on a GPU, print, and write `gpu.json`."""
    options = _options(arguments)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("benchmarks.gpu: there is no CUDA device here; `--device cpu --quick` tests the program")
    if device.type == "cpu" and not options.quick:
        sys.exit("benchmarks.gpu: these shapes are for a GPU; on the CPU only `--quick` runs")
    if device.type == "cpu" and not triton.knobs.runtime.interpret:
        sys.exit("benchmarks.gpu: on the CPU set TRITON_INTERPRET=1, for Triton's interpreter")
    full, quick = (FORMATS, QUICK_FORMATS) if options.formats else (FULL, QUICK)
    plan = quick if options.quick else full
    if options.shape:
        plan = replace(plan, shapes=[SHAPES[name] for name in options.shape])
    if options.formats:
        _measure_formats(plan, device, None if options.quick else options.out)
        return
    copied = bandwidth(device, 2**24 if options.quick else 2**31)
    settings = {"prompt": plan.prompt, "outputs": plan.outputs, "repeats": plan.repeats, "bandwidth": copied}
    speeds: dict[tuple[Shape, Case], tuple[Speed, Speed | None]] = {}

    def save() -> None:
        itemsize = weight_dtype(device).itemsize
        rows = [_row(shape, case, *speeds[shape, case], copied, itemsize) for shape, case in speeds]
        print_rows(rows, f"copy bandwidth {copied / 1e12:.3f} TB/s")
        if not options.quick:
            print(write(make_result("gpu", settings, rows), options.out), flush=True)

    # Ours and the peer don't fit on the device together.
    for shape in plan.shapes:
        speeds |= {(shape, case): (speed, None) for case, speed in _our_speeds(shape, plan, device)}
        save()
    for shape in plan.shapes:
        speeds |= {(shape, case): (speeds[shape, case][0], speed) for case, speed in _their_speeds(shape, plan, device)}
        save()


def _measure_formats(plan: Plan, device: torch.device, folder: Path | None) -> None:
    """Measure all formats of weights and cache, print, and write `gpu-formats.json` to `folder`, if there is one."""
    rows = [row for shape in plan.shapes for row in _format_rows(shape, plan, device)]
    print_rows(rows, "weights and KV cache by format")
    if folder is not None:
        settings: dict[str, Value] = {"prompt": plan.prompt, "outputs": plan.outputs, "repeats": plan.repeats}
        print(write(make_result("gpu-formats", settings, rows), folder), flush=True)


def _format_rows(shape: Shape, plan: Plan, device: torch.device) -> list[Row]:
    """Measure our engine with each format of weights and cache; ratios are to the first, which is not quantised."""
    rows: list[Row] = []
    plain: dict[Case, float] = {}
    for storage in STORAGES:
        for case, speed in _our_speeds(shape, plan, device, storage):
            measured = speed.prefill if case.outputs == 1 else speed.decode
            rows.append(
                {
                    "shape": shape.name,
                    "weights": storage.weights,
                    "cache": storage.cache,
                    "batch": case.batch,
                    "prompt": case.prompt,
                    "measure": "prefill" if case.outputs == 1 else "decode",
                    "tokens_per_second": measured,
                    "ratio": measured / plain.setdefault(case, measured),
                }
            )
    return rows


def _our_speeds(
    shape: Shape, plan: Plan, device: torch.device, storage: Storage = STORAGES[0]
) -> list[tuple[Case, Speed]]:
    """Measure our engine with each load of the plan: the median of its repeats, after one for warming up."""
    engine = our_engine(shape, device, plan.most, plan.longest, storage)
    speeds = [_median([_ours(engine, shape, case, i) for i in range(plan.repeats + 1)][1:]) for case in plan.cases]
    del engine
    _free_memory(device)
    return list(zip(plan.cases, speeds, strict=True))


def _their_speeds(shape: Shape, plan: Plan, device: torch.device) -> list[tuple[Case, Speed]]:
    """Measure `transformers` once with the loads of the plan that it gets."""
    cases = [case for case in plan.cases if case.outputs == 1 or case.batch in plan.peer_batches]
    model = their_model(shape, device, plan.longest)
    speeds = [_theirs(model, shape, case) for case in cases]
    del model
    _free_memory(device)
    return list(zip(cases, speeds, strict=True))


def _row(shape: Shape, case: Case, own: Speed, other: Speed | None, copied: float, itemsize: int) -> Row:
    described: Row = {"shape": shape.name, "batch": case.batch, "prompt": case.prompt}
    if case.outputs == 1:
        return {
            **described,
            "measure": "prefill",
            "tokens_per_second": own.prefill,
            "transformers": None if other is None else other.prefill,
            "ratio": None if other is None else own.prefill / other.prefill,
        }
    floor = case.batch * copied / bytes_per_step(shape, case.batch, case.prompt + case.outputs // 2, itemsize)
    return {
        **described,
        "measure": "decode",
        "tokens_per_second": own.decode,
        "floor": floor,
        "share_of_floor": own.decode / floor,
        "whole": own.whole,
        "transformers": None if other is None else other.decode,
        "transformers_whole": None if other is None else other.whole,
        "ratio": None if other is None else own.whole / other.whole,
    }


# --- The two sides --------------------------------------------------------------------------------


def _ours(engine: Engine, shape: Shape, case: Case, repeat: int) -> Speed:
    requests = _requests(shape, case, repeat)
    for number, one in enumerate(requests):
        sampling = SamplingParams(seed=0, temperature=0.0, max_tokens=one.output_tokens, ignore_eos=True)
        engine.add(GenerationRequest(id=str(number), prompt_ids=one.prompt_ids, sampling=sampling))
    begun = time.perf_counter()
    started: set[str] = set()
    seen, first, early = 0, begun, 0
    while engine.has_work():
        for event in engine.step():
            seen += len(event.token_ids)
            started.add(event.request)
        if len(started) == len(requests) and first == begun:
            first, early = time.perf_counter(), seen
    return _speed(case, first - begun, time.perf_counter() - first, seen - early)


def _theirs(model: LlamaForCausalLM, shape: Shape, case: Case) -> Speed:
    """Run `transformers` in its automatic settings, after a warm-up with at most 4 tokens of each answer."""
    _their_run(model, shape, case._replace(outputs=min(case.outputs, 4)), 0)
    return _their_run(model, shape, case, 1)


def _their_run(model: LlamaForCausalLM, shape: Shape, case: Case, repeat: int) -> Speed:
    """Run `transformers` once; the time starts when requests are created."""
    prompts = [request.prompt_ids for request in _requests(shape, case, repeat)]
    config = ContinuousBatchingConfig(allow_block_sharing=False)
    if model.device.type == "cpu":  # the default takes nine tenths of the memory
        config = ContinuousBatchingConfig(allow_block_sharing=False, num_blocks=16, max_batch_tokens=256)
    outputs = model.generate_batch(
        prompts,
        generation_config=GenerationConfig(max_new_tokens=case.outputs, do_sample=False, eos_token_id=-1),
        continuous_batching_config=config,
        record_timestamps=True,
    ).values()
    times = [output.timestamps for output in outputs]
    if len(times) < len(prompts) or any(len(stamps) != case.outputs for stamps in times):
        raise RuntimeError("transformers' continuous batching did not finish all requests")
    begun, first = min(output.created_time for output in outputs), max(stamps[0] for stamps in times)
    late = sum(stamp > first for stamps in times for stamp in stamps)
    return _speed(case, first - begun, max(stamps[-1] for stamps in times) - first, late)


def _speed(case: Case, until_first: float, rest: float, late_tokens: int) -> Speed:
    return Speed(
        prefill=case.batch * case.prompt / until_first,
        decode=late_tokens / rest if late_tokens else 0.0,
        whole=case.batch * case.outputs / (until_first + rest),
    )


def _requests(shape: Shape, case: Case, repeat: int) -> list[Request]:
    return fixed(case.batch, shape.vocab_size, case.prompt, case.outputs, seed=repeat)


# --- Small parts ----------------------------------------------------------------------------------


def _median(speeds: list[Speed]) -> Speed:
    return Speed(*(median([getattr(speed, name) for speed in speeds]) for name in ("prefill", "decode", "whole")))


def _free_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu with --quick")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="a shape to measure; default: all")
    parser.add_argument("--formats", action="store_true", help="measure quantised weights and an int8 KV cache")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--quick", action="store_true", help="run a tiny model once and write no result")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
