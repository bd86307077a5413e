"""`python -m benchmarks.routing FILE.jsonl`: scores the ways of choosing tools on labelled prompts, by language.

A line is `{"lang", "text", "tool"}`, optionally with `history`, a list of messages before the question; tools are
`image`, `weather`, `wikipedia`, `math`, `documents` and `none`. `classifier` needs no model, `classifier-embeddings` an
embedding model (`--embeddings`); the other ways, and the answers whose first tokens are measured, have `--model`, which
runs in this process without a queue. The rewriting of follow-ups is scored on `--follow-ups` (`follow_up_set.py` has
the format). Writes `routing.json` and `routing-rewriting.json`; `python -m benchmarks.document` publishes them.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from assistant.model_port import ModelPort
from assistant.routing.labelled_prompts import LabelledPrompt, read_prompts
from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.report import print_lines, print_rows
from benchmarks.results import RESULTS, ROOT, Row, Value, make_result, write
from benchmarks.routing.engine_models import EngineModels
from benchmarks.routing.first_token import added_seconds, chosen_prompts
from benchmarks.routing.follow_up_set import EVALUATION_FOLLOW_UPS, FOLLOW_UPS, read_follow_ups
from benchmarks.routing.rewriting import score_rewriting
from benchmarks.routing.ways import MODEL_WAYS, WAYS, NoModels, score_way, way_of
from inference_worker.model_files.model_source import resolve
from runtime import logging

EVALUATION = FOLLOW_UPS.with_name("evaluation.jsonl")
EMBEDDINGS = ROOT / ".headrace" / "models" / "all-minilm-l6-v2"


async def routing_rows(
    arguments: argparse.Namespace, ways: Sequence[str], models: ModelPort, model: str | None
) -> list[Row]:
    """Score each way of choosing tools on the labelled prompts; return a result row for each way and language.

    With `--wrong` prints confusion and wrong decisions. `model` is the model that answers, for the added time until the
    first token; `None`: that is not measured.
    """
    prompts = read_prompts(arguments.file)[: arguments.limit]
    rows: list[Row] = []
    for name in ways:
        way = await way_of(name, model or "", models, arguments.embeddings)
        for language, each in (await score_way(way, prompts)).items():
            row: Row = {"way": name, "model": way.model, "lang": language, **each.row()}
            if model is not None:
                measured = chosen_prompts(prompts, language)
                added = await added_seconds(way, measured, model, models)
                row["added_ttft_ms_p50"] = float(np.percentile(added, 50)) * 1000
            rows.append(row)
            if arguments.wrong:
                print_rows(each.confusion_rows(), f"{name}, {language}: choices by label")
                print_lines([_wrong(prompt, chosen) for prompt, chosen in each.wrong])
    return rows


def _wrong(prompt: LabelledPrompt, chosen: str) -> Row:
    return {"text": prompt.text, "tool": prompt.tool, "chose": chosen}


async def measure(
    arguments: argparse.Namespace, ways: Sequence[str], models: ModelPort, model: str | None
) -> dict[str, list[Row]]:
    """Measure the ways of choosing tools and the rewriting of follow-ups; return both tables' rows by result name."""
    rows = await routing_rows(arguments, ways, models, model)
    follow_ups = read_follow_ups(arguments.follow_ups)
    rewriting = await score_rewriting(follow_ups, None, models)
    if model is not None:
        rewriting += await score_rewriting(follow_ups, model, models)
    return {"routing": rows, "routing-rewriting": rewriting}


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.routing`: score the ways of choosing tools, and write the result files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.routing", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=EVALUATION, help="labelled prompts; default: evaluation")
    parser.add_argument("--way", action="append", choices=WAYS, help="may be repeated; default: all")
    parser.add_argument("--follow-ups", type=Path, default=EVALUATION_FOLLOW_UPS, help="labelled follow-ups")
    parser.add_argument("--no-model", action="store_true", help="only what needs no generating model, and no TTFT")
    parser.add_argument("--limit", type=int, help="first prompts of the file")
    parser.add_argument("--wrong", action="store_true", help="print confusion and the prompts of wrong decisions")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument(
        "--embeddings", type=Path, default=EMBEDDINGS, help="folder of the embedding model of `classifier-embeddings`"
    )
    add_engine_arguments(parser)
    arguments = parser.parse_args(words)
    ways = [way for way in arguments.way or WAYS if not (arguments.no_model and way in MODEL_WAYS)]
    logging.configure("benchmark", level="warning")
    settings: dict[str, Value] = {"file": arguments.file.name, "follow_ups": arguments.follow_ups.name}
    if arguments.no_model:
        tables = asyncio.run(measure(arguments, ways, NoModels(), None))
    else:
        source = resolve(arguments.model)
        engine_settings = replace(engine_under_test(arguments, 1).settings, model=str(source.path))
        models = EngineModels.load(engine_settings)
        try:
            tables = asyncio.run(measure(arguments, ways, models, source.served_name))
        finally:
            models.close()
        settings |= {"answers_with": source.served_name, "quantization": engine_settings.quantization}
    for name, rows in tables.items():
        print_rows(rows, name)
        print(write(make_result(name, settings, rows), arguments.out))


if __name__ == "__main__":
    main()
