"""From a request to its sequences, or the reason why it can never run here.

The worker checks requests with better messages before they come here; this is what keeps the engine alive if it did
not. Knows limits and token ids, not queues or blocks.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence as Rows
from itertools import chain

from inference_worker.engine_protocol import GenerationRequest
from inference_worker.scheduling.limits import EngineLimits
from inference_worker.sequence import Sequence
from inference_worker.structured.matcher import Matcher


def refusal(request: GenerationRequest, limits: EngineLimits) -> str | None:
    """Why `request` can't be served; `None` if it can."""
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
    ids = chain(request.prompt_ids, request.sampling.logit_bias, allowed, *request.delivered, *request.bad_words)
    if any(not 0 <= token < limits.vocab_size for token in ids):
        return f"a token id is outside the vocabulary of {limits.vocab_size}"
    return None


def to_sequences(request: GenerationRequest, limits: EngineLimits, matchers: Rows[Matcher]) -> list[Sequence]:
    """One sequence a choice that goes on, in order of choice. `matchers`: of each choice, or none at all."""
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
        matcher=matcher,
        bad_words=[word for word in request.bad_words if word],
    )


def _max_tokens(request: GenerationRequest, limits: EngineLimits) -> int:
    rest = limits.max_model_len - len(request.prompt_ids)
    return rest if request.sampling.max_tokens is None else request.sampling.max_tokens
