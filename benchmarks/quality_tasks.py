"""`python -m benchmarks.quality_tasks`: measures by tasks how many answers number formats cost.

Each variant of the default model (`benchmarks.quality`) answers the same questions greedily: objects extracted from
texts, whose form a grammar ensures, and arithmetic in steps. Answers are checked exactly and compared task by task
with those of float32. Writes `quality-tasks.json`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine_driver import Driver
from benchmarks.extraction_tasks import EXAMPLES, examples, extraction_tasks
from benchmarks.quality import build, read_command_line
from benchmarks.report import print_rows
from benchmarks.results import Row, Value, make_result, write
from benchmarks.test_time_compute.statistics import difference, mcnemar
from benchmarks.test_time_compute.task import Family, Task
from benchmarks.test_time_compute.task_sets import EXAMPLES as SOLVED_EXAMPLES
from benchmarks.test_time_compute.task_sets import conversation, evaluation_tasks
from inference_worker.engine.engine import Engine
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.chat_template import ChatTemplate
from router.messages import ChatPrompt, Grammar, GrammarKind

TASKS = 200
"""Tasks of each set."""
SEQUENCES = 16
MAX_TOKENS = 80
"""Most tokens of an answer; a longer one is cut off there."""
ARITHMETIC = (Family.WORD_PROBLEM, Family.EQUATION)
"""The families of arithmetic tasks, in equal parts: those that the default model solves sometimes."""
STRUCTURED_SET, ARITHMETIC_SET = "structured output", "arithmetic"
_UNUSED_MARK = "\ufdd0"
"""Noncharacter that is in no prompt: nothing in the prompts has to be kept from being read as a control token."""


@dataclass(frozen=True)
class Question:
    """A conversation to answer, the grammar of its answers, and a function that scores them.

    The score is the right share of an answer, 0 to 1; the answer is right if it is 1.
    """

    task_set: str
    messages: list[dict[str, Any]]
    grammar: Grammar | None
    score: Callable[[str], float]


def questions(count: int = TASKS) -> list[Question]:
    """Return `count` questions of each set of tasks, the same in every run."""
    structured = [
        Question(
            STRUCTURED_SET,
            task.messages(examples(task.kind)),
            Grammar(kind=GrammarKind.JSON_SCHEMA, source=json.dumps(task.kind.schema)),
            task.score,
        )
        for task in extraction_tasks(count)
    ]
    problems = [task for family in ARITHMETIC for task in evaluation_tasks(family, "en", count // len(ARITHMETIC))]
    return structured + [Question(ARITHMETIC_SET, conversation(task), None, _score_of(task)) for task in problems]


def _score_of(task: Task) -> Callable[[str], float]:
    return lambda answer: float(task.is_right(answer))


def tokenise(model: Path, asked: Sequence[Question]) -> tuple[list[list[int]], Callable[[list[int]], str]]:
    """Return the prompts' token ids by the chat template of `model`, and the function that decodes its answers."""
    files = read_text_files(model)
    if files.chat_template is None:
        raise ValueError(f"{model.name} has no chat template")
    template, tokenizer = ChatTemplate(files.chat_template, files.named_tokens), files.tokenizer
    texts = [template.render(ChatPrompt(messages=question.messages)) for question in asked]
    prompts = [tokenizer.encode_rendered(text, _UNUSED_MARK) for text in texts]
    return prompts, lambda ids: tokenizer.decode(ids, skip_controls=True)


def answer(engine: Engine, asked: Sequence[Question], prompts: Sequence[list[int]]) -> list[list[int]]:
    """Answer all questions greedily on the engine in one batch; return the token ids of each answer.

    `prompts` are the questions' token ids.

    Raises:
        RuntimeError: the engine failed a request.
    """
    driver = Driver(engine)
    for question, prompt in zip(asked, prompts, strict=True):
        driver.send(prompt, MAX_TOKENS, ignore_eos=False, grammar=question.grammar)
    driver.finish()
    return list(driver.answers.values())


def rows(variant: str, asked: Sequence[Question], scores: list[float], reference: list[float]) -> list[Row]:
    """Return a row for each set of tasks: how often `variant` is right, and how its answers compare with float32's.

    `scores` and `reference` are those of the questions' answers by the variant and by float32. A difference is one of
    shares of right answers, with its 95 % confidence interval; the p-value is that of McNemar's exact test.
    """
    table: list[Row] = []
    for task_set in (STRUCTURED_SET, ARITHMETIC_SET):
        pairs = [
            pair for question, *pair in zip(asked, scores, reference, strict=True) if question.task_set == task_set
        ]
        right, theirs = [ours == 1 for ours, _ in pairs], [other == 1 for _, other in pairs]
        only_float32 = sum(b and not a for a, b in zip(right, theirs, strict=True))
        only_variant = sum(a and not b for a, b in zip(right, theirs, strict=True))
        low, high = difference(right, theirs)
        table.append(
            {
                "tasks": task_set,
                "variant": variant,
                "fields_right": statistics.fmean(ours for ours, _ in pairs) if task_set == STRUCTURED_SET else None,
                "right": statistics.fmean(right),
                "both_right": sum(right) - only_variant,
                "only_float32_right": only_float32,
                "only_variant_right": only_variant,
                "p_value": mcnemar(only_float32, only_variant),
                "difference": statistics.fmean(right) - statistics.fmean(theirs),
                "difference_from": low,
                "difference_to": high,
            }
        )
    return table


def main() -> None:
    """Run `python -m benchmarks.quality_tasks`: ask all variants of the default model; write `quality-tasks.json`."""
    model, threads, variants = read_command_line(__doc__)
    asked = questions()
    prompts, decode = tokenise(model, asked)
    table: list[Row] = []
    reference: list[float] = []
    for variant in variants:
        engine = build(model, variant, sequences=SEQUENCES, enable_prefix_caching=True)
        texts = map(decode, answer(engine, asked, prompts))
        scores = [question.score(text) for question, text in zip(asked, texts, strict=True)]
        reference = reference or scores
        table += rows(variant.name, asked, scores, reference)
        print_rows(table, "quality-tasks")
    settings: dict[str, Value] = {
        "model": model.name,
        "threads": threads,
        "tasks_per_set": TASKS,
        "sequences": SEQUENCES,
        "most_tokens": MAX_TOKENS,
        "examples_structured": EXAMPLES,
        "examples_arithmetic": SOLVED_EXAMPLES,
    }
    ordered = sorted(table, key=lambda row: row["tasks"] != STRUCTURED_SET)
    print(write(make_result("quality-tasks", settings, ordered)))


if __name__ == "__main__":
    main()
