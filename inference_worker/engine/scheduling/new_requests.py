"""Validates new generation requests against the engine's limits, and makes the sequences of their choices.

The worker has checked requests already, with better messages; these checks keep the engine alive if it missed one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence as Rows
from itertools import chain

from inference_worker.engine.scheduling.limits import EngineLimits
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import GenerationRequest
from inference_worker.reasoning import ReasoningProgress
from inference_worker.structured.matcher import Matcher


def rejection_reason(request: GenerationRequest, limits: EngineLimits) -> str | None:
    """Return why `request` can never run within `limits` (its length, counts or token ids); `None` if it can."""
    prompt, most = len(request.prompt_ids), request.sampling.max_tokens
    if not prompt:
        return "the prompt is empty"
    if request.n < 1 or len(request.delivered) > request.n or (most is not None and most < 0):
        return "n, delivered or max_tokens is out of range"
    if prompt + (1 if most is None else most) > limits.max_model_len:
        return f"{prompt} prompt tokens and {most or 1} to generate exceed the context of {limits.max_model_len}"
    if any(len(ids) > _max_tokens(request, limits) for ids in request.delivered):
        return "more tokens were delivered than may be generated"
    allowed = request.sampling.allowed_token_ids or []
    forced = [] if request.reasoning is None else request.reasoning.forced
    ids = chain(
        request.prompt_ids, request.sampling.logit_bias, allowed, forced, *request.delivered, *request.bad_words
    )
    if any(not 0 <= token < limits.vocab_size for token in ids):
        return f"a token id is outside the vocabulary of {limits.vocab_size}"
    return None


def to_sequences(request: GenerationRequest, limits: EngineLimits, matchers: Rows[Matcher]) -> list[Sequence]:
    """Return the scheduler's sequences of a new request: one for each choice that has not ended, in order of choices.

    Tokens that an earlier attempt delivered are a part of them. `matchers` has the grammar state of each choice; it is
    empty without a grammar.
    """
    of_choice: Rows[Matcher | None] = matchers or [None] * request.n
    return [
        _to_sequence(request, choice, limits, matcher)
        for choice, matcher in enumerate(of_choice)
        if choice not in request.ended
    ]


def _to_sequence(request: GenerationRequest, choice: int, limits: EngineLimits, matcher: Matcher | None) -> Sequence:
    delivered = request.delivered[choice] if choice < len(request.delivered) else []
    eos = frozenset[int]() if request.sampling.ignore_eos else limits.eos_token_ids
    return Sequence(
        request=request.id,
        choice=choice,
        token_ids=array("q", [*request.prompt_ids, *delivered]),
        prompt_length=len(request.prompt_ids),
        sampling=request.sampling,
        max_tokens=_max_tokens(request, limits),
        stop_ids=eos | frozenset(request.sampling.stop_token_ids),
        salt=request.salt,
        tenant=request.tenant,
        requester=request.requester,
        flex=request.flex,
        matcher=matcher,
        reasoning=None if request.reasoning is None else ReasoningProgress(request.reasoning, delivered),
        bad_words=[word for word in request.bad_words if word],
    )


def _max_tokens(request: GenerationRequest, limits: EngineLimits) -> int:
    rest = limits.max_model_len - len(request.prompt_ids)
    return rest if request.sampling.max_tokens is None else request.sampling.max_tokens
