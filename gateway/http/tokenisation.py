"""Tokenises prompts for routes, with the tokenizer of a model's worker: the gateway has none (ADR 0002).

A route that has to know how long a prompt is calls `count_prompt_tokens`. Such a request takes no slot of a worker,
does not wait behind generations, and costs nothing; like any other it counts against the rate limits of requests.
"""

from __future__ import annotations

from fastapi import Request

from auth_billing.access.principal import Principal
from gateway.admission.controller import AdmittedRequest
from gateway.answers.collection import collect_tokens
from gateway.http.gateway import Gateway
from gateway.http.job_submission import read_attachments, submit
from gateway.jobs.job_builder import Origin, build_tokenisation_job, chat_prompt
from gateway.openai.chat_completions import ChatCompletionRequest
from router.messages import ChatPrompt, TokenisationPrompt, Tokenised


async def count_prompt_tokens(
    request: Request, gateway: Gateway, caller: Principal, body: ChatCompletionRequest
) -> int:
    """Return the number of tokens that the prompt of a chat completion has: messages, tools and images.

    The route's dependency (`BodySecurity`) has counted the request against rate limits.

    Raises:
        InvalidRequest: the model's workers do not tokenise, or an image or a file can't be read.
        ModelNotFound, ModelUnavailable, BrokerDown, Overloaded, GenerationError: as for a chat completion.
    """
    prompt = await read_chat_prompt(request, gateway, caller, body)
    admitted = await gateway.admission.admit_tokenisation(caller, body.model)
    return (await tokenise(request, gateway, admitted, TokenisationPrompt(source=prompt, count_only=True))).count


async def read_chat_prompt(
    request: Request, gateway: Gateway, caller: Principal, body: ChatCompletionRequest
) -> ChatPrompt:
    """Return the prompt of a chat completion with its files and images, which are read.

    Raises:
        Exception: as `read_attachments` does.
    """
    return chat_prompt(*await read_attachments(request, gateway, caller, body))


async def tokenise(
    request: Request, gateway: Gateway, admitted: AdmittedRequest, prompt: TokenisationPrompt
) -> Tokenised:
    """Submit the job of an admitted request to tokenise `prompt`, and return the worker's reply.

    Raises:
        GenerationError, AccountError, PublishError: as for any other job.
    """
    job = build_tokenisation_job(prompt, admitted, Origin.of(gateway.settings))
    async with submit(request, gateway, admitted, [job], streamed=False) as generation:
        return await collect_tokens(generation)
