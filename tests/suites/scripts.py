"""Scripts of the model of a suite: one that counts, and one that answers as a capable model would."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from router.messages import ChatPrompt, Finished, FinishReason, GrammarKind, Job, TokenisationPrompt, ToolCallDelta
from tests.fakes.scripted_worker import ScriptedWorker, count, never, prompt_text, tokenise, usage
from tests.suites.objects import WAIT

TEXT = "Hello, here is an answer."
PIECE = 8
"""Characters of one token."""


async def count_or_tokenise(worker: ScriptedWorker, job: Job) -> None:
    """Count to four, or the tokens of a prompt; to `WAIT` answer nothing."""
    if isinstance(job.prompt, TokenisationPrompt):
        await tokenise(worker, job)
    else:
        await (never if prompt_text(job) == WAIT else count)(worker, job)


async def oblige(worker: ScriptedWorker, job: Job) -> None:
    """Call the offered tool, fill in the schema, or answer in words, in tokens of a few characters."""
    assert isinstance(job.prompt, ChatPrompt)
    attempt = uuid.uuid4().hex
    question = _question(job.prompt)
    tool = _called(job.prompt)
    worker.begin(job, attempt)
    if tool is not None:
        arguments = json.dumps(_value(tool.get("parameters", {}), question), ensure_ascii=False)
        begun = ToolCallDelta(index=0, id=f"call_{attempt}", name=tool["name"])
        parts: list[dict[str, Any]] = [{"text": "", "tool_calls": [begun]}]
        parts += [{"text": "", "tool_calls": [ToolCallDelta(index=0, arguments=each)]} for each in _pieces(arguments)]
    else:
        parts = [{"text": each} for each in _pieces(_text(job, question))]
    finish: FinishReason = "stop" if tool is None else "tool_calls"
    for position, part in enumerate(parts):
        last = finish if position == len(parts) - 1 else None
        worker.send_token(job, attempt, position, **part, finish_reason=last)
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(parts))))


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def _question(prompt: ChatPrompt) -> str:
    asked = [message["content"] for message in prompt.messages if message["role"] == "user"]
    return str(asked[-1])


def _called(prompt: ChatPrompt) -> Mapping[str, Any] | None:
    """Return the function to call: one that must be, or the first if the last message is a question."""
    choice = prompt.tool_choice
    tools = [tool["function"] for tool in prompt.tools or []]
    allowed = [tool for tool in tools if not choice.names or tool["name"] in choice.names]
    if choice.mode == "none" or not allowed:
        return None
    return allowed[0] if choice.mode == "required" or prompt.messages[-1]["role"] == "user" else None


def _text(job: Job, question: str) -> str:
    if job.grammar is None:
        text = TEXT
        for stop in job.text.stop:
            text = text.partition(stop)[0]
        return text
    schema = json.loads(job.grammar.source) if job.grammar.kind is GrammarKind.JSON_SCHEMA else _named_keys(question)
    return json.dumps(_value(schema, question), ensure_ascii=False)


def _named_keys(question: str) -> dict[str, Any]:
    """Return the schema of an object with the keys that a question quotes."""
    keys = re.findall(r"'(\w+)'", question)
    return {"type": "object", "properties": {key: {"type": "string"} for key in keys}}


def _value(schema: Mapping[str, Any], question: str) -> Any:
    """Return a value of the schema: texts are the question, numbers those that it has."""
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], question)
    match schema.get("type", "object"):
        case "object":
            numbers = iter(re.findall(r"\d+", question))
            return {
                name: int(next(numbers, 1)) if each.get("type") == "integer" else _value(each, question)
                for name, each in schema.get("properties", {}).items()
            }
        case "array":
            return []
        case _:
            return question
