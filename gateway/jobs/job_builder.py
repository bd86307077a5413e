"""Builds the job messages of an admitted request: chat, completion, embedding, score, tokens, image, tool call."""

from __future__ import annotations

import hashlib
import secrets
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from auth_billing.access.principal import Principal
from gateway.admission.controller import AdmittedRequest, GenerationRequest
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.images import AUTO_SIZE, ImageRequest
from gateway.openai.messages import to_wire
from gateway.openai.sampling import GREEDY_BELOW
from gateway.openai.solution_templates import TEMPLATES, instructed
from gateway.openai.structured_output import grammar_of
from gateway.openai.test_time_compute import SearchOptions
from gateway.openai.tools import tool_choice_to_wire, tools_to_wire
from gateway.settings import GatewaySettings
from router.messages import (
    ChatPrompt,
    EmbeddingPrompt,
    ImagePrompt,
    Job,
    OwnToolCall,
    Prompt,
    SamplingParams,
    ScorePrompt,
    Search,
    Task,
    TextOptions,
    TextPrompt,
    TokenisationPrompt,
    TokenPrompt,
    ToolChoice,
)
from router.usage_bound import max_usage

T = TypeVar("T")


@dataclass(frozen=True)
class Origin:
    """The gateway that a job's replies go to, and the Unix time until which it generates.

    The deadline is the operator's alone, because what it cuts off costs nothing. A client that stops waiting
    disconnects, and pays for what was generated.
    """

    gateway_id: str
    deadline: float
    default_max_tokens: int
    """The operator's limit, for requests without one."""
    max_search_tokens: int
    """The operator's limit of the budget of a search."""

    @classmethod
    def of(cls, settings: GatewaySettings, max_seconds: float | None = None) -> Origin:
        """Return this gateway's id and token limits, and the Unix time at which a request that arrives now must end.

        `max_seconds`: seconds until then; `None`: the setting `max_request_seconds`.
        """
        deadline = time.time() + (settings.max_request_seconds if max_seconds is None else max_seconds)
        return cls(settings.gateway_id, deadline, settings.default_max_tokens, settings.max_search_tokens)


def build_chat_job(
    body: ChatCompletionRequest, admitted: AdmittedRequest, origin: Origin, images: Sequence[bytes] = ()
) -> Job:
    """Build the job of a chat completion with the files of its `images`; the job's id is the answer's id."""
    search = body.search
    job = _generation_job(f"chatcmpl-{uuid.uuid4().hex}", chat_prompt(body, images), body, admitted, origin)
    if search is None:
        return job
    return msgspec.structs.replace(job, search=_search(search, job, admitted, origin))


def chat_prompt(body: ChatCompletionRequest, images: Sequence[bytes] = ()) -> ChatPrompt:
    """Return the conversation of a chat completion with the files of its `images`, as the prompt of a job."""
    messages, search, tools = [to_wire(message) for message in body.messages], body.search, body.offered_tools
    if search is not None and search.template is not None:
        messages = instructed(messages, TEMPLATES[search.template].instruction)
    return ChatPrompt(
        messages=messages,
        images=list(images),
        tools=tools_to_wire(tools) if tools else None,
        tool_choice=tool_choice_to_wire(body.offered_tool_choice, parallel=body.allows_parallel_calls)
        if tools
        else ToolChoice(),
        add_generation_prompt=_or(body.add_generation_prompt, not body.continue_final_message),
        continue_final_message=bool(body.continue_final_message),
        template_kwargs=body.chat_template_kwargs or {},
        reasoning_effort=body.reasoning_effort or "",
        thinking_token_budget=None if body.thinking_token_budget == -1 else body.thinking_token_budget,
        tools_off=body.tools_off or [],
        tools_allowed=body.tools_allowed or [],
    )


def response_job(job: Job, id: str, *, drops_turns: bool) -> Job:
    """Return the job of a chat completion as that of a response, with its `id`, and a grammar from its own field.

    `drops_turns`: whether the oldest turns of a conversation that does not fit are left out.
    """
    grammar = job.grammar and msgspec.structs.replace(job.grammar, param="text.format")
    text = msgspec.structs.replace(job.text, drop_turns=drops_turns)
    return msgspec.structs.replace(job, id=id, grammar=grammar, text=text)


def build_completion_jobs(body: CompletionRequest, admitted: AdmittedRequest, origin: Origin) -> list[Job]:
    """Build the jobs of a completion, one per prompt, each seeded as if alone.

    The first job's id is the answer's id.
    """
    first = f"cmpl-{uuid.uuid4().hex}"
    return [
        _generation_job(
            f"{first}-{number}" if number else first,
            TextPrompt(prompt, body.suffix or "") if isinstance(prompt, str) else TokenPrompt(prompt),
            body,
            admitted,
            origin,
        )
        for number, prompt in enumerate(body.prompt)
    ]


def build_embedding_job(body: EmbeddingRequest, admitted: AdmittedRequest, origin: Origin) -> Job:
    """Build the one job that embeds all inputs of a request, in order."""
    return _job(
        f"embd-{uuid.uuid4().hex}",
        EmbeddingPrompt(inputs=list(body.input), dimensions=body.dimensions),
        admitted,
        origin,
        sampling=SamplingParams(seed=0),
    )


def build_score_job(
    prompt: ScorePrompt, truncation: int | None, admitted: AdmittedRequest, origin: Origin, prefix: str = "score"
) -> Job:
    """Build the one job that scores all candidates of a request; the job's id is the answer's id."""
    return _job(
        f"{prefix}-{uuid.uuid4().hex}",
        prompt,
        admitted,
        origin,
        sampling=SamplingParams(seed=0),
        text=TextOptions(truncate_prompt_tokens=truncation),
        cache_salt=admitted.principal.cache_salt,
    )


def build_tokenisation_job(prompt: TokenisationPrompt, admitted: AdmittedRequest, origin: Origin) -> Job:
    """Build the job that tokenises a prompt, or decodes token ids."""
    return _job(
        f"tok-{uuid.uuid4().hex}",
        prompt,
        admitted,
        origin,
        sampling=SamplingParams(seed=0),
    )


def build_image_job(body: ImageRequest, admitted: AdmittedRequest, origin: Origin) -> Job:
    """Build the one job that draws all images of a request, in the model's default size if none is requested."""
    size = admitted.model.image_sizes[0] if body.size is None or body.size == AUTO_SIZE else body.size
    return _job(
        f"img-{uuid.uuid4().hex}",
        ImagePrompt(prompt=body.prompt, size=size),
        admitted,
        origin,
        sampling=SamplingParams(seed=_seed(body.seed)),
        n=_or(body.n, 1),
    )


def build_tool_call_job(name: str, arguments: dict[str, Any], admitted: AdmittedRequest, origin: Origin) -> Job:
    """Build the job that calls the assistant's tool `name`.

    The texts in `arguments` tell the assistant the language.
    """
    question = " ".join(value for value in arguments.values() if isinstance(value, str))
    prompt = ChatPrompt(
        messages=[{"role": "user", "content": question}],
        own_tool_call=OwnToolCall(name=name, arguments=arguments),
    )
    return _job(
        f"call-{uuid.uuid4().hex}",
        prompt,
        admitted,
        origin,
        sampling=SamplingParams(seed=_seed(None)),
        cache_salt=admitted.principal.cache_salt,
    )


def _job(job_id: str, prompt: Prompt, admitted: AdmittedRequest, origin: Origin, **options: Any) -> Job:
    return Job(
        id=job_id,
        model=admitted.model.name,
        tenant=admitted.principal.tenant,
        requester=admitted.principal.requester,
        reply_to=origin.gateway_id,
        created=time.time(),
        deadline=origin.deadline,
        begin_by=min(admitted.begin_by, origin.deadline),
        prompt=prompt,
        service_class=admitted.service_class,
        **options,
    )


def _generation_job(
    job_id: str, prompt: Prompt, body: GenerationRequest, admitted: AdmittedRequest, origin: Origin
) -> Job:
    return _job(
        job_id,
        prompt,
        admitted,
        origin,
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
        cache_salt=_salt(admitted.principal, body.cache_salt),
    )


def _search(options: SearchOptions, job: Job, admitted: AdmittedRequest, origin: Origin) -> Search:
    most = max_usage(job, admitted.model.longest_model_len, admitted.model.prompt_bounds)
    verifier = admitted.verifier
    return options.to_wire(
        "" if verifier is None else verifier.name,
        judge=verifier is not None and verifier.task is Task.GENERATE,
        prompt_tokens=most.prompt_tokens,
        answer_tokens=most.completion_tokens // job.n,
        max_budget=origin.max_search_tokens,
    )


def _sampling(body: GenerationRequest, origin: Origin) -> SamplingParams:
    temperature = _or(body.temperature, 1.0)
    return SamplingParams(
        seed=_seed(body.seed),
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


def _seed(seed: int | None) -> int:
    """Return a random seed if there is none. Any 64-bit number is valid: the sign is dropped, equal ones stay equal."""
    return secrets.randbits(63) if seed is None else seed % 2**63


def _logprobs(body: GenerationRequest) -> int | None:
    """Return how many alternatives to report; at least the chosen tokens' own where candidates are compared by them."""
    return _or(body.top_logprob_count, 0) if body.candidates > body.choices else body.top_logprob_count


def _salt(principal: Principal, requested: str | None) -> str:
    """Return the salt of the prefix cache: the tenant's, narrowed by the client's own if it sends one."""
    if requested is None:
        return principal.cache_salt
    return hashlib.sha256(f"{principal.cache_salt}\0{requested}".encode()).hexdigest()


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
