"""Computes the most tokens and images that a job can use, without a tokenizer; the gateway holds credit for that.

A tokenizer makes at most one token of each byte of a text in its normal form, and the chat template adds a fixed
number: workers measure both and report them in heartbeats (`PromptBounds`). Without such a report a prompt may fill the
context. Words take about a fourth of the bound, random bytes reach it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any, cast

from router.messages import (
    ChatPrompt,
    EmbeddingPrompt,
    ImagePrompt,
    Job,
    PromptBounds,
    ScorePrompt,
    Search,
    TextPrompt,
    TokenisationPrompt,
    TokenPrompt,
    Usage,
    UsagePart,
)
from router.model_registry import ModelInfo
from router.usage_arithmetic import merged
from runtime.unicode_sections import NormalForm, normal_sections

_NORMAL_FORMS = frozenset({"NFC", "NFD", "NFKC", "NFKD"})
_INDENT = 4
"""Widest indent with which templates write JSON; `\\uXXXX` is their longest form of a character."""


def max_usage(job: Job, context: int, bounds: PromptBounds) -> Usage:
    """Return the most tokens, or images by size, that `job` can use for its answer.

    `context` is the model's context length, which a prompt can't exceed.
    """
    if isinstance(job.prompt, TokenisationPrompt):
        return Usage(prompt_tokens=0)
    if isinstance(job.prompt, EmbeddingPrompt):
        return Usage(prompt_tokens=sum(min(each, context) for each in _inputs(job.prompt, context, bounds)))
    if isinstance(job.prompt, ChatPrompt) and job.prompt.own_tool_call is not None:
        return Usage(prompt_tokens=0)  # no model reads it: what the tool uses is in the parts
    if isinstance(job.prompt, ScorePrompt):
        most = _kept(job, context, context)
        return Usage(prompt_tokens=sum(min(each, most) for each in _scored(job.prompt, context, bounds)))
    if isinstance(job.prompt, ImagePrompt):
        return Usage(prompt_tokens=0, units={job.prompt.size: job.n})
    sampling = job.sampling
    prompt = _kept(job, context, _prompt_tokens(job.prompt, context, bounds))
    least = prompt if isinstance(job.prompt, TokenPrompt) else 1
    rest = max(0, context - least)
    answer = sampling.max_tokens if sampling.max_tokens is not None else sampling.default_max_tokens
    return Usage(
        prompt_tokens=min(prompt, context - min(sampling.max_tokens or 0, rest)),
        completion_tokens=job.n * (rest if answer is None else min(answer, rest)),
    )


def max_parts(job: Job, model: ModelInfo) -> tuple[UsagePart, ...]:
    """Return the most that the steps of `job` can use, by model; if the client chose a tool, of that tool only.

    The steps of a search use at most its budget, at the job's model and at the verifier each.
    """
    if job.search is not None:
        return _search_parts(job.model, job.search)
    call = job.prompt.own_tool_call if isinstance(job.prompt, ChatPrompt) else None
    chosen = None if call is None else next((tool for tool in model.tools if tool.name == call.name), None)
    return model.max_parts if chosen is None else merged(chosen.parts)


def _search_parts(model: str, search: Search) -> tuple[UsagePart, ...]:
    generated = UsagePart(model=model, usage=Usage(prompt_tokens=0, completion_tokens=search.budget_tokens))
    if not search.verifier:
        return (generated,)
    written = min(search.max_grades, search.budget_tokens)
    read = Usage(prompt_tokens=search.budget_tokens, completion_tokens=written)
    scored = UsagePart(model=search.verifier, usage=read)
    return merged([generated, scored])


def _kept(job: Job, context: int, prompt: int) -> int:
    """Return the prompt's length in tokens after the truncation that the client requested, if any."""
    kept = job.text.truncate_prompt_tokens
    if kept is None:
        return prompt
    return min(prompt, context if kept < 0 else kept)


def _prompt_tokens(prompt: ChatPrompt | TextPrompt | TokenPrompt, context: int, bounds: PromptBounds) -> int:
    if isinstance(prompt, TokenPrompt):
        return len(prompt.token_ids)
    if not bounds.per_byte:
        return context
    if isinstance(prompt, TextPrompt):
        return _text_tokens(prompt.text, context, bounds) + _text_tokens(prompt.suffix, context, bounds)
    around = bounds.per_conversation + bounds.per_message * len(prompt.messages) + bounds.tools * bool(prompt.tools)
    around += bounds.per_image * len(prompt.images)
    texts = sum(_size(text, context, bounds) for message in prompt.messages for text in _texts(message.get("content")))
    objects = sum(_written_size(each, context) for each in _objects(prompt))
    return bounds.per_byte * (texts + objects) + around


def _inputs(prompt: EmbeddingPrompt, context: int, bounds: PromptBounds) -> Iterable[int]:
    for each in prompt.inputs:
        if isinstance(each, str):
            yield _text_tokens(each, context, bounds) if bounds.per_byte else context
        else:
            yield len(each)


def _scored(prompt: ScorePrompt, context: int, bounds: PromptBounds) -> Iterable[int]:
    """Yield the most tokens of each candidate with its context; the end of a step counts as a message."""
    conversations = ([{"role": "user", "content": each}] if isinstance(each, str) else each for each in prompt.contexts)
    contexts = [_prompt_tokens(ChatPrompt(messages=each), context, bounds) for each in conversations]
    for index, candidate in enumerate(prompt.candidates):
        texts = [candidate] if isinstance(candidate, str) else candidate
        steps = candidate.count(prompt.separator) + 1 if isinstance(candidate, str) else len(candidate)
        size = sum(_size(text, context, bounds) for text in texts) + (len(texts) - 1) * len(prompt.separator.encode())
        added = bounds.per_text + bounds.per_message * (1 + steps)
        yield contexts[0 if len(contexts) == 1 else index] + bounds.per_byte * size + added


def _text_tokens(text: str, context: int, bounds: PromptBounds) -> int:
    return bounds.per_byte * _size(text, context, bounds) + bounds.per_text


def _size(text: str, enough: int, bounds: PromptBounds) -> int:
    """Return the bytes of the longest Unicode form that the tokenizer may see, at most; `enough` or more of more."""
    if text.isascii() or len(text) >= enough:
        return len(text)
    forms = [text, text.lower()]
    size = max(len(each.encode()) for each in forms)
    if bounds.normal_form in _NORMAL_FORMS:
        form = cast(NormalForm, bounds.normal_form)
        size = max(size, *(_normal_size(form, each, enough) for each in forms))
    return size


def _normal_size(form: NormalForm, text: str, enough: int) -> int:
    """Return the bytes of a text's normal form, at most; at `enough` bytes the rest is not read."""
    size = 0
    for section in normal_sections(form, text):
        size += len(section.encode())
        if size >= enough:
            break
    return size


def _texts(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        return [content]
    return [part.get("text") or "" for part in content or ()]


def _objects(prompt: ChatPrompt) -> Iterable[Any]:
    """Yield the parts of a conversation that a template may write as JSON, or leave out."""
    for message in prompt.messages:
        yield from (value for name, value in message.items() if name not in ("role", "content"))
        for call in message.get("tool_calls") or ():
            yield _parsed(call["function"]["arguments"])
    if prompt.tools:
        yield prompt.tools
    yield from prompt.template_kwargs.items()


def _parsed(arguments: str) -> Any:
    """Return a tool call's arguments as templates get them: parsed, or `None` if they are not JSON."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def _written_size(value: Any, enough: int) -> int:
    """Return the bytes of the longest JSON form of `value`; exact only below `enough`."""
    size, stack = 0, [(value, 1)]
    while stack and size < enough:
        each, depth = stack.pop()
        if isinstance(each, str):
            size += len(encode_basestring_ascii(each))
        elif isinstance(each, Mapping | Sequence):
            size += 2 + (len(each) + 1) * (2 + _INDENT * depth)
            if size < enough:
                stack.extend((inner, depth + 1) for inner in each)
                stack.extend((inner, depth + 1) for inner in (each.values() if isinstance(each, Mapping) else ()))
        else:
            size += len(json.dumps(each))
    return size
