"""Turns a validated, admitted request into jobs. Sends nothing; knows no HTTP but the deadline that a client states."""

from __future__ import annotations

import hashlib
import math
import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from auth_billing.access.principal import Principal
from gateway.admission.controller import AdmittedRequest, Body
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.messages import to_wire
from gateway.openai.structured_output import grammar_of
from gateway.openai.tools import tool_choice_to_wire, tools_to_wire
from router.messages import (
    ChatPrompt,
    EmbeddingPrompt,
    Job,
    Prompt,
    SamplingParams,
    TextOptions,
    TextPrompt,
    TokenPrompt,
    ToolChoice,
)

T = TypeVar("T")

GREEDY_BELOW = 1e-5
"""Dividing logits by less than this only makes infinities; the answer is the greedy one anyway."""

READ_TIMEOUT = "x-stainless-read-timeout"
READ_TIMEOUT_MARGIN = 1.0
"""Seconds after which a client that has stopped waiting is surely gone: its own time-out must come before our 408."""


@dataclass(frozen=True)
class Origin:
    """Where a job comes from: the gateway to reply to, and the Unix time by which its client stops waiting."""

    gateway_id: str
    deadline: float
    default_max_tokens: int
    """The operator's limit where a client sets none."""


def deadline(headers: Mapping[str, str], *, stream: bool, longest: float) -> float:
    """When a request must be done (Unix seconds).

    OpenAI's clients say how long they wait for the next byte. That bounds an answer that comes at once; a stream has
    bytes all the time (comments, if nothing else), so for it only the operator's limit counts.
    """
    try:
        stated = math.inf if stream else float(headers.get(READ_TIMEOUT, "inf")) + READ_TIMEOUT_MARGIN
    except ValueError:
        stated = math.inf
    return time.time() + (min(stated, longest) if stated > READ_TIMEOUT_MARGIN else longest)


def to_job(body: ChatCompletionRequest, reservation: AdmittedRequest, origin: Origin) -> Job:
    """The one job of a chat completion; its id is the answer's."""
    prompt = ChatPrompt(
        messages=[to_wire(message) for message in body.messages],
        tools=tools_to_wire(body.tools) if body.tools else None,
        tool_choice=tool_choice_to_wire(body.tool_choice, body.parallel_tool_calls) if body.tools else ToolChoice(),
        add_generation_prompt=_or(body.add_generation_prompt, not body.continue_final_message),
        continue_final_message=bool(body.continue_final_message),
        template_kwargs=body.chat_template_kwargs or {},
        reasoning_effort=body.reasoning_effort or "",
    )
    return _job(f"chatcmpl-{uuid.uuid4().hex}", prompt, body, reservation, origin)


def to_jobs(body: CompletionRequest, reservation: AdmittedRequest, origin: Origin) -> list[Job]:
    """One job a prompt; the answer's id is the first one's. With a seed, each is answered as it would be alone."""
    first = f"cmpl-{uuid.uuid4().hex}"
    return [
        _job(
            f"{first}-{number}" if number else first,
            TextPrompt(prompt, body.suffix or "") if isinstance(prompt, str) else TokenPrompt(prompt),
            body,
            reservation,
            origin,
        )
        for number, prompt in enumerate(body.prompt)
    ]


def to_embedding_job(body: EmbeddingRequest, reservation: AdmittedRequest, origin: Origin) -> Job:
    """The one job of a request for embeddings."""
    return Job(
        id=f"embd-{uuid.uuid4().hex}",
        model=reservation.model.name,
        tenant=reservation.principal.tenant,
        reply_to=origin.gateway_id,
        created=time.time(),
        deadline=origin.deadline,
        begin_by=min(reservation.begin_by, origin.deadline),
        prompt=EmbeddingPrompt(inputs=list(body.input), dimensions=body.dimensions),
        sampling=SamplingParams(seed=0),
        service_class=reservation.service_class,
    )


def _job(job_id: str, prompt: Prompt, body: Body, reservation: AdmittedRequest, origin: Origin) -> Job:
    return Job(
        id=job_id,
        model=reservation.model.name,
        tenant=reservation.principal.tenant,
        reply_to=origin.gateway_id,
        created=time.time(),
        deadline=origin.deadline,
        begin_by=min(reservation.begin_by, origin.deadline),
        prompt=prompt,
        sampling=_sampling(body, origin),
        text=TextOptions(
            stop=body.stop_strings,
            include_stop_str_in_output=bool(body.include_stop_str_in_output),
            skip_special_tokens=_or(body.skip_special_tokens, True),
            bad_words=body.bad_words or [],
            truncate_prompt_tokens=body.truncate_prompt_tokens,
            echo=body.returns_prompt,
        ),
        grammar=grammar_of(body.response_format, body.structured_outputs),
        n=body.candidates,
        service_class=reservation.service_class,
        cache_salt=_salt(reservation.principal, body.cache_salt),
    )


def _sampling(body: Body, origin: Origin) -> SamplingParams:
    temperature = _or(body.temperature, 1.0)
    return SamplingParams(
        # The sign carries nothing for a client: any 64-bit number is a seed, and equal seeds draw equally.
        seed=secrets.randbits(63) if body.seed is None else body.seed % 2**63,
        max_tokens=body.token_limit,
        default_max_tokens=origin.default_max_tokens if body.token_limit is None else None,
        min_tokens=body.min_tokens or 0,
        temperature=0.0 if temperature < GREEDY_BELOW else temperature,
        top_p=_or(body.top_p, 1.0),
        top_k=max(0, body.top_k or 0),
        min_p=body.min_p or 0.0,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=_or(body.repetition_penalty, 1.0),
        logit_bias={int(token): bias for token, bias in (body.logit_bias or {}).items()},
        logprobs=_logprobs(body),
        prompt_logprobs=body.prompt_logprob_count,
        allowed_token_ids=body.allowed_token_ids,
        stop_token_ids=body.stop_token_ids or [],
        ignore_eos=bool(body.ignore_eos),
    )


def _logprobs(body: Body) -> int | None:
    """Those that the client wants; those of the tokens themselves if candidates are compared by them."""
    return _or(body.top_logprob_count, 0) if body.candidates > body.choices else body.top_logprob_count


def _salt(principal: Principal, asked: str | None) -> str:
    """The tenant's salt, made narrower by the client's if it sends one; never wider."""
    if asked is None:
        return principal.cache_salt
    return hashlib.sha256(f"{principal.cache_salt}\0{asked}".encode()).hexdigest()


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
