"""`python -m benchmarks.draft_model`: measures speculation with the model's own first layers as the draft model.

Acceptance is measured on answers without speculation to the beginnings of documents, sampled at random, which hardly
repeat themselves: the share of their tokens that the draft model ranks first, and that prompt lookup predicts. What
would pay follows from measured step times: a step with one draft takes that of two rows and a step of the draft model.
Writes `draft-model.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, make_result, write
from inference_worker.engine.engine import Engine
from inference_worker.engine.loading.draft_model import load_draft_model
from inference_worker.engine.loading.dtypes import weight_dtype
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.scheduling.prompt_lookup import PromptLookup
from inference_worker.engine_protocol import GenerationRequest
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from router.messages import SamplingParams
from runtime import logging

DOCUMENTS = Path(__file__).parent / "data" / "halden" / "corpus.jsonl"
PROMPTS = 20
PROMPT_CHARACTERS = 300
TOKENS = 64
"""Number of tokens of an answer."""
ROUNDS = 3
SPEED_PROMPTS = 3
"""Number of answers of a round of the speed, one at a time."""


def generate(engine: Engine, prompts: Sequence[list[int]], temperature: float, sequences: int = 1) -> list[list[int]]:
    """Return the answers to `prompts`, `sequences` at a time."""
    answers: list[list[int]] = [[] for _ in prompts]
    for first in range(0, len(prompts), sequences):
        for index, prompt in list(enumerate(prompts))[first : first + sequences]:
            sampling = SamplingParams(seed=index, temperature=temperature, max_tokens=TOKENS, ignore_eos=True)
            engine.add(GenerationRequest(id=str(index), prompt_ids=prompt, sampling=sampling))
        while engine.has_work():
            for event in engine.step():
                answers[int(event.request)] += event.token_ids
    return answers


def step_seconds(engine: Engine, prompt: list[int], sequences: int = 1) -> float:
    """Return the median time of a decode step of `sequences` sequences."""
    times = []
    for index in range(sequences):
        sampling = SamplingParams(seed=index, temperature=1.0, max_tokens=TOKENS, ignore_eos=True)
        engine.add(GenerationRequest(id=str(index), prompt_ids=prompt, sampling=sampling))
    while engine.has_work():
        began = time.perf_counter()
        events = engine.step()
        if len(events) == sequences and events[0].position:
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def ranked_first(draft: Engine, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> float:
    """Return the share of the answers' tokens that the draft model ranks first."""
    first = []
    for prompt, answer in zip(prompts, answers, strict=True):
        sampling = SamplingParams(seed=0, temperature=0.0, max_tokens=0, prompt_logprobs=0)
        draft.add(GenerationRequest(id="r", prompt_ids=prompt + answer, sampling=sampling))
        ranks: list[int] = []
        while draft.has_work():
            ranks += [rank for event in draft.step() if event.prompt is not None for rank in event.prompt.ranks]
        first += [rank == 1 for rank in ranks[-len(answer) :]]
    return statistics.fmean(first)


def looked_up(prompt: list[int], answer: list[int]) -> Iterator[bool]:
    """Yield for each token of an answer whether prompt lookup predicts it."""
    lookup, known = PromptLookup(), array("q", prompt)
    for token in answer:
        lookup.read(known)
        predicted, _ = next(lookup.predictions(known), (None, 0.0))
        yield predicted == token
        known.append(token)


def draft_engine(settings: EngineSettings, layers: int) -> tuple[Engine, float]:
    """Return an engine of the model's first layers alone, and the share of the model's weights that they are."""
    device, source = torch.device(settings.device), resolve(settings.model)
    dtype = weight_dtype(settings.dtype, device)
    draft = load_draft_model(str(layers), load_model(source, dtype, device), source, settings, dtype)
    return Engine.from_model(draft.model, settings, dtype), draft.relative_cost


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.draft_model`: measure acceptance, step times and speed; write `draft-model.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.draft_model", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--layers", type=int, nargs="+", default=[3, 10, 20, 27])
    add_engine_arguments(parser)
    arguments = parser.parse_args(words)
    logging.configure("benchmark", level="warning")
    under_test = engine_under_test(arguments, 2)
    plain = under_test()
    tokenizer = read_text_files(resolve(arguments.model).path).tokenizer
    documents = [json.loads(line)["text"] for line in DOCUMENTS.read_text().splitlines()[:PROMPTS]]
    prompts = [tokenizer.encode(text[:PROMPT_CHARACTERS]) for text in documents]
    answers = {temperature: generate(plain, prompts, temperature, 2) for temperature in (0.7, 1.0)}
    rows: list[Row] = []
    for layers in arguments.layers:
        draft, share = draft_engine(under_test.settings, layers)
        drafting = under_test(draft_model=str(layers))
        steps = ((plain, 1), (plain, 2), (draft, 1))
        turns = [[step_seconds(engine, prompts[0], size) for engine, size in steps] for _ in range(ROUNDS)]
        one, two, took = map(statistics.median, zip(*turns, strict=True))
        for temperature, answered in answers.items():
            rates = [speeds([plain, drafting], prompts[:SPEED_PROMPTS], temperature) for _ in range(ROUNDS)]
            pairs = zip(prompts, answered, strict=True)
            rows.append(
                {
                    "draft_layers": layers,
                    "share_of_weights": share,
                    "draft_step_ms": 1000 * took,
                    "step_ms": 1000 * one,
                    "step_of_2_ms": 1000 * two,
                    "temperature": temperature,
                    "right_by_prompt_lookup": statistics.fmean(r for pair in pairs for r in looked_up(*pair)),
                    "right_by_draft_model": ranked_first(draft, prompts, answered),
                    "right_to_pay": (two + took) / one - 1,
                    "tokens_per_second_without": statistics.median(rate[0] for rate in rates),
                    "tokens_per_second_with": statistics.median(rate[1] for rate in rates),
                }
            )
    settings = {**under_test.described(plain), "answers": len(prompts), "tokens": TOKENS, "rounds": ROUNDS}
    result = make_result("draft-model", settings, rows)
    print_result(result, write(result, arguments.out))


def speeds(engines: Sequence[Engine], prompts: Sequence[list[int]], temperature: float) -> list[float]:
    """Return the tokens per second of each engine, in turns, prompts included."""
    rates = []
    for engine in engines:
        began = time.perf_counter()
        tokens = sum(map(len, generate(engine, prompts, temperature)))
        rates.append(tokens / (time.perf_counter() - began))
    return rates


if __name__ == "__main__":
    main()
