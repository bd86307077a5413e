"""`python -m benchmarks.routing FILE.jsonl`: scores the ways of choosing tools on labelled prompts, by language.

A line is `{"lang", "text", "tool"}`, optionally with `history`, a list of messages before the question; tools are
`image`, `weather`, `wikipedia`, `math`, `documents` and `none`. `classifier` needs no model, `classifier-embeddings` an
embedding model (`--embeddings`); `--way grammar` and `--way function` run `--model` in this process, without a queue.
`--rewriting` scores the rewriting of follow-ups instead, on FILE or `data/development_follow_ups.jsonl`
(`follow_up_set.py` has the format). With `--out`, the rows are written as a result file.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from assistant.model_port import Embeddings, ModelCallFailed, ModelPiece, ModelPort, ModelRequest
from assistant.routing.classifier import ClassifierRouter, ToolClassifier
from assistant.routing.embedding_router import EmbeddingRouter
from assistant.routing.function_router import FunctionRouter
from assistant.routing.grammar_router import GrammarRouter
from assistant.routing.labelled_prompts import LabelledPrompt, read_prompts
from assistant.routing.rewriting import FollowUpRewriter
from assistant.routing.router import Router
from assistant.routing.rule_rewriter import stand_alone
from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.report import print_lines, print_rows
from benchmarks.results import ROOT, Row, Value, make_result, write
from benchmarks.routing.embedding_models import EmbeddingModels
from benchmarks.routing.engine_models import EngineModels
from benchmarks.routing.follow_up_set import FOLLOW_UPS, FollowUp, read_follow_ups, score
from benchmarks.routing.label_tools import LABEL_TOOLS
from benchmarks.routing.scoring import RoutingScore
from inference_worker.model_files.model_source import resolve
from runtime import logging

LANGUAGES = ("en", "pl")
EMBEDDINGS = ROOT / ".headrace" / "models" / "all-minilm-l6-v2"
NO_MODEL = "-"
"""Name of the model in rows of ways that need none."""
WAYS = ("classifier", "classifier-embeddings", "grammar", "grammar-arguments", "function")
MODEL_WAYS = frozenset(WAYS[2:])
"""Ways that generate with `--model`."""


class NoModels:
    """Model port of the ways that need no model."""

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        """Raise `ModelCallFailed`."""
        raise ModelCallFailed(f"{request.model} is not loaded")
        yield ModelPiece()

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Raise `ModelCallFailed`."""
        raise ModelCallFailed(f"{model} is not loaded")


async def router_of(way: str, model: str, embeddings: Path) -> tuple[Router, ModelPort | None]:
    """Return the router of a way, trained, with the models that it calls instead of the engine's if it has its own.

    `model` is the name in the requests of the ways that generate, `embeddings` the folder of the embedding model.
    """
    match way:
        case "classifier":
            return ClassifierRouter(ToolClassifier(read_prompts(), stand_alone)), None
        case "classifier-embeddings":
            models = EmbeddingModels(embeddings)
            prompts = read_prompts()
            router = EmbeddingRouter(ToolClassifier(prompts, stand_alone), embeddings.name, prompts, stand_alone)
            await router.train(models)
            return router, models
        case "grammar":
            return GrammarRouter(model), None
        case "grammar-arguments":
            return GrammarRouter(model, with_arguments=True), None
        case _:
            return FunctionRouter(model), None


async def decide(router: Router, prompt: LabelledPrompt, models: ModelPort) -> tuple[str | None, float]:
    """Return the label that a router chooses after rewriting by rules, `None` if it failed; and the seconds."""
    started = time.perf_counter()
    question = stand_alone(prompt.text, prompt.turns)
    try:
        choice = await router.choose(question, prompt.turns, LABEL_TOOLS, models)
    except ModelCallFailed:
        return None, time.perf_counter() - started
    return choice.tool or "none", time.perf_counter() - started


async def score_way(router: Router, prompts: Sequence[LabelledPrompt], models: ModelPort) -> dict[str, RoutingScore]:
    """Return the score of a router for each language, after two decisions that are not counted."""
    for prompt in prompts[:2]:
        await decide(router, prompt, models)
    scores = {language: RoutingScore() for language in LANGUAGES}
    for prompt in prompts:
        scores[prompt.lang].add(prompt, *await decide(router, prompt, models))
    return {language: each for language, each in scores.items() if each.seconds}


async def score_rewriting(follow_ups: Sequence[FollowUp], model: str | None, models: ModelPort) -> list[Row]:
    """Return a row for each language: shares of right entities and of changed stand-alone questions, and times."""
    rewriter = FollowUpRewriter(model)
    rows: list[Row] = []
    for language in LANGUAGES:
        pairs: list[tuple[FollowUp, str]] = []
        seconds, by_model = [], 0
        for each in (each for each in follow_ups if each.lang == language):
            started = time.perf_counter()
            rewrite = await rewriter.rewrite(each.text, each.turns, models)
            seconds.append(time.perf_counter() - started)
            pairs.append((each, rewrite.question))
            by_model += rewrite.by == "model"
        total = score(pairs)
        rows.append(
            {
                "rewriter": model or "rules",
                "lang": language,
                "follow_ups": total.follow_ups,
                "right_entity": total.entity_share,
                "rewritten_by_model": by_model,
                "standalone": total.standalone,
                "changed": total.changed_share,
                "ms_p50": float(np.percentile(seconds, 50)) * 1000,
            }
        )
    return rows


async def measure(arguments: argparse.Namespace, models: ModelPort, model: str) -> list[Row]:
    """Return the rows that the command line asks for, and print confusion and wrong decisions."""
    if arguments.rewriting:
        return await score_rewriting(
            read_follow_ups(arguments.file or FOLLOW_UPS), None if model == NO_MODEL else model, models
        )
    prompts = read_prompts(arguments.file)[: arguments.limit]
    rows: list[Row] = []
    for way in arguments.way or [WAYS[0]]:
        router, own_models = await router_of(way, model, arguments.embeddings)
        scores = await score_way(router, prompts, own_models or models)
        called = model if way in MODEL_WAYS else arguments.embeddings.name if own_models else NO_MODEL
        for language, each in scores.items():
            rows.append({"way": way, "model": called, "lang": language, **each.row()})
            print_rows(each.confusion_rows(), f"{way}, {language}: choices by label")
            if arguments.wrong:
                print_lines([{"text": p.text, "tool": p.tool, "chose": chose} for p, chose in each.wrong])
    return rows


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.routing`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.routing", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="labelled prompts; with --rewriting labelled follow-ups")
    parser.add_argument("--way", action="append", choices=WAYS, help="may be repeated; default: classifier")
    parser.add_argument("--rewriting", action="store_true", help="score the rewriting of follow-ups instead")
    parser.add_argument("--rules-only", action="store_true", help="rewrite without a model")
    parser.add_argument("--limit", type=int, help="first prompts of the file")
    parser.add_argument("--wrong", action="store_true", help="print the prompts of wrong decisions")
    parser.add_argument("--out", type=Path, help="folder of the result file")
    parser.add_argument(
        "--embeddings", type=Path, default=EMBEDDINGS, help="folder of the embedding model of `classifier-embeddings`"
    )
    add_engine_arguments(parser)
    arguments = parser.parse_args(words)
    if arguments.file is None and not arguments.rewriting:
        parser.error("FILE is missing")
    logging.configure("benchmark", level="warning")
    generates = not MODEL_WAYS.isdisjoint(arguments.way or ())
    needs_model = not arguments.rules_only if arguments.rewriting else generates
    settings: dict[str, Value] = {}
    if needs_model:
        source = resolve(arguments.model)
        engine_settings = replace(engine_under_test(arguments, 1).settings, model=str(source.path))
        models = EngineModels.load(engine_settings)
        try:
            rows = asyncio.run(measure(arguments, models, source.served_name))
        finally:
            models.close()
        settings = {"model": source.served_name, "quantization": engine_settings.quantization}
    else:
        rows = asyncio.run(measure(arguments, NoModels(), NO_MODEL))
    name = "routing-rewriting" if arguments.rewriting else "routing"
    print_rows(rows, name)
    if arguments.out is not None:
        settings["file"] = "-" if arguments.file is None else arguments.file.name
        print(write(make_result(name, settings, rows), arguments.out))


if __name__ == "__main__":
    main()
