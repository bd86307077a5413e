"""Measures how much choosing a tool adds to an answer's TTFT, by answers with and without that choice in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import aclosing

from assistant.model_port import ModelPort, ModelRequest
from assistant.routing.labelled_prompts import LabelledPrompt
from benchmarks.routing.ways import Way

PROMPTS = 20
"""Prompts of each language that are measured."""


async def added_seconds(way: Way, prompts: Sequence[LabelledPrompt], model: str, models: ModelPort) -> list[float]:
    """Return, for each prompt, the seconds that choosing a tool by `way` adds to the TTFT of an answer by `model`.

    Each prompt is answered once before, so that the prefix cache has it for both; they take turns in being first.
    """
    added = []
    for number, prompt in enumerate(prompts):
        await _first_token(prompt, model, models)
        if number % 2:
            alone = await _first_token(prompt, model, models)
            added.append(await _first_token(prompt, model, models, way) - alone)
        else:
            chosen = await _first_token(prompt, model, models, way)
            added.append(chosen - await _first_token(prompt, model, models))
    return added


def chosen_prompts(prompts: Sequence[LabelledPrompt], language: str, most: int = PROMPTS) -> list[LabelledPrompt]:
    """Return at most `most` of a language's labelled prompts, spread over the file; those without a tool first."""
    direct = [each for each in prompts if each.lang == language and each.tool == "none"]
    others = [each for each in prompts if each.lang == language and each.tool != "none"]
    return [*direct[:most], *others[:: max(1, len(others) // max(1, most - len(direct)))]][:most]


async def _first_token(prompt: LabelledPrompt, model: str, models: ModelPort, way: Way | None = None) -> float:
    """Return the seconds until the answer's first token; of an answer after a choice if there is a `way`."""
    started = time.perf_counter()
    answer = None
    if way is not None and (choice := await way.choose(prompt)) is not None:
        answer = choice.answer
    if answer is None:
        said = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        question = {"role": "user", "content": prompt.text}
        answer = models.generate(ModelRequest(model, [*said, question], max_tokens=1))
    async with aclosing(answer):
        await anext(answer)
        return time.perf_counter() - started
