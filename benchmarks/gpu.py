"""`python -m benchmarks.gpu`: measures the generation engine on a GPU, beside `transformers` and the memory bound.

Three shapes with random weights, batches of 1 to 256 and prefills of 512 and 2,048 tokens, compared with the continuous
batching of `transformers` in its default settings, and with the bound of the bytes that a decode step must read.
Both get the same prompts, greedy, all at once, ends of sequence ignored. Each figure is the median of the repeats.

    --device cpu --quick    tests the program on a tiny model; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaForCausalLM

from benchmarks.gpu_models import SHAPES, Shape, bandwidth, bytes_per_step, our_engine, their_model, weight_dtype
from benchmarks.measures import median
from benchmarks.report import print_rows
from benchmarks.results import Row, make_result, write
from benchmarks.workloads import Request, fixed
from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import GenerationRequest
from router.messages import SamplingParams

CONTEXT, OUTPUTS = 512, 128
PREFILL_TOKENS = 16_384
"""Prompt tokens of one prefill measurement: 32 prompts of 512, 8 of 2,048."""


@dataclass(frozen=True)
class Plan:
    """The sizes and repeats of the measurements."""

    shapes: list[Shape]
    batches: list[int]
    prompt: int
    outputs: int
    prefills: list[int]
    prefill_tokens: int
    repeats: int

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


FULL = Plan([SHAPES[name] for name in ("135M", "1B", "8B")], [1, 4, 16, 64, 256], CONTEXT, OUTPUTS, [512, 2048],
            PREFILL_TOKENS, repeats=3)  # fmt: skip
QUICK = Plan([SHAPES["tiny"]], [1, 3], 20, 6, [32, 48], 96, repeats=1)


def main() -> None:
    """Run `python -m benchmarks.gpu`: measure our engine and `transformers` on a GPU, print, and write `gpu.json`."""
    options = _options()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("benchmarks.gpu: there is no CUDA device here; `--device cpu --quick` tests the program")
    if device.type == "cpu" and not options.quick:
        sys.exit("benchmarks.gpu: these shapes are for a GPU; on the CPU only `--quick` runs")
    plan = QUICK if options.quick else FULL
    copied = bandwidth(device, 2**24 if options.quick else 2**31)
    rows = [row for shape in plan.shapes for row in _rows(shape, plan, device, copied)]
    print_rows(rows, f"copy bandwidth {copied / 1e12:.3f} TB/s")
    if not options.quick:
        settings = {"prompt": plan.prompt, "outputs": plan.outputs, "repeats": plan.repeats, "bandwidth": copied}
        print(write(make_result("gpu", settings, rows)))


def _rows(shape: Shape, plan: Plan, device: torch.device, copied: float) -> Iterator[Row]:
    """Yield a shape's rows: ours is measured first, then the peer, as both don't fit on the device together."""
    cases = [(batch, plan.prompt, plan.outputs) for batch in plan.batches]
    cases += [(plan.prefill_tokens // prompt, prompt, 1) for prompt in plan.prefills]
    engine = our_engine(shape, device, plan.most, plan.longest)
    ours = [_median([_ours(engine, shape, case, i) for i in range(plan.repeats + 1)][1:]) for case in cases]
    del engine
    _free_memory(device)
    model = their_model(shape, device, plan.longest)
    theirs = [_median([_theirs(model, shape, case, i) for i in range(plan.repeats + 1)][1:]) for case in cases]
    del model
    _free_memory(device)
    for case, own, other in zip(cases, ours, theirs, strict=True):
        yield (
            _prefill_row(shape, case, own, other)
            if case[2] == 1
            else _decode_row(shape, case, own, other, copied, weight_dtype(device).itemsize)
        )


def _decode_row(
    shape: Shape, case: tuple[int, int, int], own: Speed, other: Speed, copied: float, itemsize: int
) -> Row:
    batch, prompt, outputs = case
    floor = batch * copied / bytes_per_step(shape, batch, prompt + outputs // 2, itemsize)
    return {
        "shape": shape.name,
        "measure": "decode",
        "batch": batch,
        "prompt": prompt,
        "tokens_per_second": own.decode,
        "floor": floor,
        "share_of_floor": own.decode / floor,
        "whole": own.whole,
        "transformers": other.decode,
        "transformers_whole": other.whole,
        "ratio": own.whole / other.whole,
    }


def _prefill_row(shape: Shape, case: tuple[int, int, int], own: Speed, other: Speed) -> Row:
    return {
        "shape": shape.name,
        "measure": "prefill",
        "batch": case[0],
        "prompt": case[1],
        "tokens_per_second": own.prefill,
        "transformers": other.prefill,
        "ratio": own.prefill / other.prefill,
    }


# --- The two sides --------------------------------------------------------------------------------


def _ours(engine: Engine, shape: Shape, case: tuple[int, int, int], repeat: int) -> Speed:
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


def _theirs(model: LlamaForCausalLM, shape: Shape, case: tuple[int, int, int], repeat: int) -> Speed:
    """Run `transformers` in its automatic settings; the time starts when requests are created."""
    prompts = [request.prompt_ids for request in _requests(shape, case, repeat)]
    config = ContinuousBatchingConfig(allow_block_sharing=False)
    if model.device.type == "cpu":  # the default takes nine tenths of the memory
        config = ContinuousBatchingConfig(allow_block_sharing=False, num_blocks=16, max_batch_tokens=256)
    outputs = model.generate_batch(
        prompts,
        generation_config=GenerationConfig(max_new_tokens=case[2], do_sample=False, eos_token_id=-1),
        continuous_batching_config=config,
        record_timestamps=True,
    ).values()
    times = [output.timestamps for output in outputs]
    if len(times) < len(prompts) or any(len(stamps) != case[2] for stamps in times):
        raise RuntimeError("transformers' continuous batching did not finish all requests")
    begun, first = min(output.created_time for output in outputs), max(stamps[0] for stamps in times)
    late = sum(stamp > first for stamps in times for stamp in stamps)
    return _speed(case, first - begun, max(stamps[-1] for stamps in times) - first, late)


def _speed(case: tuple[int, int, int], until_first: float, rest: float, late_tokens: int) -> Speed:
    batch, prompt, outputs = case
    return Speed(
        prefill=batch * prompt / until_first,
        decode=late_tokens / rest if late_tokens else 0.0,
        whole=batch * outputs / (until_first + rest),
    )


def _requests(shape: Shape, case: tuple[int, int, int], repeat: int) -> list[Request]:
    batch, prompt, outputs = case
    return fixed(batch, shape.vocab_size, prompt, outputs, seed=repeat)


# --- Small parts ----------------------------------------------------------------------------------


def _median(speeds: list[Speed]) -> Speed:
    return Speed(*(median([getattr(speed, name) for speed in speeds]) for name in ("prefill", "decode", "whole")))


def _free_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu with --quick")
    parser.add_argument("--quick", action="store_true", help="run a tiny model once and write no result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
