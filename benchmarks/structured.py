"""`python -m benchmarks.structured`: measures the overhead of structured output (grammars) in a decoding batch.

The same prompts, seeds and numbers of tokens, with and without a grammar: one engine for each, with their steps in
turns, so that other load on the machine affects all alike. The schema can't be completed within the tokens of a round,
so every sequence runs to its end. Writes `structured-output.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, make_result, write
from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import GenerationRequest
from inference_worker.model_files.model_source import resolve
from inference_worker.tokenizer.tokenizer_files import read_text_files
from router.messages import Grammar, GrammarKind, SamplingParams
from runtime import logging

BATCH = 16
TOKENS = 48
"""Number of tokens per sequence and round."""
ROUNDS = 3

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 40},
        "email": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "roles": {"type": "array", "items": {"enum": ["admin", "editor", "reader"]}, "maxItems": 3},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
            "required": ["street", "zip"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "email", "age", "roles", "address"],
    "additionalProperties": False,
}
GRAMMARS: dict[str, Grammar | None] = {
    "none": None,
    "json_schema": Grammar(
        kind=GrammarKind.JSON_SCHEMA,
        source=json.dumps({"type": "array", "items": PERSON, "minItems": 100, "maxItems": 200}),
    ),
    "regex": Grammar(kind=GrammarKind.REGEX, source=r"([A-Z][a-z]{1,12} [0-9]{2,4}; ){1000}"),
}


def add(engine: Engine, prompt: list[int], grammar: Grammar | None, batch: int) -> None:
    """Queue `batch` requests with the same prompt and grammar on an engine: the requests of one round."""
    for i in range(batch):
        sampling = SamplingParams(seed=i, temperature=1.0, max_tokens=TOKENS, ignore_eos=True)
        engine.add(GenerationRequest(id=str(i), prompt_ids=prompt, sampling=sampling, grammar=grammar))


def seconds(engine: Engine, batch: int) -> float | None:
    """Run one step of an engine and return its seconds; `None` unless all `batch` sequences decoded in it."""
    started = time.perf_counter()
    events = engine.step()
    taken = time.perf_counter() - started
    return taken if len(events) == batch and all(event.position for event in events) else None


def rows(engines: dict[str, Engine], prompt: list[int], batch: int) -> list[Row]:
    """Run `ROUNDS` batches on the engine of each grammar, in turns, and return a row of step times per grammar.

    `throughput_lost` is the share that a grammar costs, compared with the engine that has none.
    """
    times: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(ROUNDS + 1):
        for name, engine in engines.items():
            add(engine, prompt, GRAMMARS[name], batch)
        while any(engine.has_work() for engine in engines.values()):
            for name, engine in engines.items():
                taken = seconds(engine, batch) if engine.has_work() else None
                if taken is not None and number:  # the first round warms up
                    times[name].append(taken)
    median = {name: statistics.median(of) for name, of in times.items()}
    return [
        {
            "grammar": name,
            "batch": batch,
            "steps": len(of),
            "step_median_ms": 1000 * median[name],
            "step_mean_ms": 1000 * statistics.fmean(of),
            "tokens_per_second": batch / median[name],
            "throughput_lost": 1 - median["none"] / median[name],
        }
        for name, of in times.items()
    ]


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.structured`: measure the overhead of grammars, and write `structured-output.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structured", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    add_engine_arguments(parser)
    arguments = parser.parse_args(words)
    logging.configure("benchmark", level="warning")
    under_test = engine_under_test(arguments, BATCH)
    engines = {name: under_test() for name in GRAMMARS}
    tokenizer = read_text_files(resolve(arguments.model).path).tokenizer
    table = rows(engines, tokenizer.encode("A list of people as JSON:\n"), BATCH)
    settings = {**under_test.described(engines["none"]), "tokens": TOKENS, "rounds": ROUNDS, "temperature": 1.0}
    result = make_result("structured-output", settings, table)
    print_result(result, write(result, arguments.out))


if __name__ == "__main__":
    main()
