"""Lets the chat call models and see the fleet through the gateway of the same process, with errors translated."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from auth_billing.access.principal import Principal
from auth_billing.errors import (
    AccountError,
    BudgetExhausted,
    InsufficientCredit,
    LargerThanLimit,
    NoPrice,
    RateLimitExceeded,
)
from auth_billing.money.amounts import format_usd
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import TOOL_PREFIX, PriceList
from auth_billing.rate_limits.limits import SubjectKind
from chat_ui.generations import model_client
from chat_ui.history import steps as history_steps
from chat_ui.history.records import QueueStatus, TokenUsage
from gateway import in_process
from gateway.errors import GatewayError, ServerShutdown
from gateway.http.gateway import Gateway
from gateway.http.http_errors import error_body, error_headers, http_error
from infra.web_app.reasoning_steps import ReasoningSteps
from infra.web_app.search_steps import SEARCH, SearchSteps
from router.errors import PublishError
from router.messages import FailureCode, ServiceClass, Step, Task, Usage, WorkerStatus
from router.model_registry import ModelInfo
from router.producer.errors import GenerationError, JobFailed
from stored_objects.errors import StoredObjectError

TEMPERATURE, TOP_P = 0.3, 0.9
"""Chat defaults, shown by `chat_ui/web/src/chat/SettingsPanel.svelte`: with OpenAI's defaults (1 and 1) small models
ramble until their context is full."""
SEARCH_TEMPERATURE, SEARCH_TOP_P = 0.8, 1.0
"""Defaults of a search, those of Hugging Face's search-and-learn: paths that hardly differ are of no use."""
_RATE_LIMIT_CODES: dict[str, str] = {
    SubjectKind.PROJECT: "shared_rate_limit",
    SubjectKind.ORGANISATION: "shared_rate_limit",
    SubjectKind.MODEL: "model_rate_limit",
    SubjectKind.ORGANISATION_MODEL: "model_rate_limit",
}
"""Error codes by kind of limit, so that the page can tell a person whose limit was reached."""
_CANNOT_CONTINUE = frozenset({FailureCode.INVALID_PROMPT, FailureCode.INVALID_PARAMETER, FailureCode.UPSTREAM_ERROR})


class GatewayModelClient:
    """Calls models for the chat through the gateway of this process (implements `ModelClient`)."""

    def __init__(self, gateway: Gateway, prices: PriceBook) -> None:
        self._gateway = gateway
        self._prices = prices

    async def answer(
        self, principal: Principal, request: model_client.AnswerRequest
    ) -> AsyncIterator[model_client.ModelEvent]:
        """Generate an answer for the chat through the gateway and yield its events; `principal` is billed."""
        begun, search, reasoning = False, SearchSteps(), ReasoningSteps(time.monotonic)
        try:
            async with aclosing(self._complete(principal, request)) as events:  # type: ignore[type-var]
                async for each in events:
                    if isinstance(each, in_process.QueueUpdate):
                        yield QueueStatus(each.position, each.seconds)
                        continue
                    begun = begun or not any(step.kind == in_process.FILE_SEARCH for step in each.steps)
                    for step in map(_step, each.steps):
                        shown = search.latest(step) if step.kind == SEARCH else step
                        reasoning.follow(shown)
                        yield model_client.StepUpdate(shown, _usage(each.usage), each.cost)
                    if each.reasoning and (thought := reasoning.add(each.reasoning)) is not None:
                        yield model_client.StepUpdate(thought, _usage(each.usage), each.cost)
                    ends = each.text or each.finish_reason is not None
                    if ends and (thought := reasoning.end()) is not None:
                        yield model_client.StepUpdate(thought, _usage(each.usage), each.cost)
                    if each.finish_reason is not None:
                        yield model_client.AnswerEnd(each.finish_reason, _usage(each.usage), each.cost)
                    elif each.text or not (each.steps or each.reasoning):
                        yield model_client.TextDelta(each.text, _usage(each.usage), each.cost)
        except (GatewayError, GenerationError, AccountError, PublishError, StoredObjectError) as error:
            raise _answer_error(error, can_restart=request.continues and not begun) from error

    def _complete(
        self, principal: Principal, request: model_client.AnswerRequest
    ) -> AsyncIterator[in_process.AnswerUpdate | in_process.QueueUpdate]:
        fields, stores = self._fields(principal, request), request.settings.vector_stores
        return in_process.complete(self._gateway, self._prices, principal, fields, stores)

    async def models(self, principal: Principal) -> list[model_client.ServedModel]:
        """Return the text-generating models that `principal` may use, with price and availability, sorted by name."""
        prices = await self._prices.current()
        return [
            model_client.ServedModel(
                name,
                model.max_model_len,
                _price(prices, model),
                _is_ready(model),
                _tools(model),
                model.reads_images,
                model.searches,
            )
            for name, model in self._gateway.catalogue.listed(principal.models)
            if model.task is Task.GENERATE
        ]

    async def search_offer(self, principal: Principal) -> model_client.SearchOffer:
        """Return what the chat offers for test-time searches: verifiers that `principal` may use, and limits.

        Models that score come first, then chat models that can be judges, both by name.
        """
        prices, settings = await self._prices.current(), self._gateway.settings
        listed = self._gateway.catalogue.listed(principal.models)
        verifiers = [
            model_client.Verifier(name, _price(prices, model), _is_ready(model))
            for name, model in listed
            if model.task is Task.SCORE and not model.scores_pairs
        ]
        verifiers += [
            model_client.Verifier(
                name,
                _price(prices, model),
                _is_ready(model),
                [each for each, other in listed if other.name == model.name],
            )
            for name, model in listed
            if model.task is Task.GENERATE and model.searches
        ]
        return model_client.SearchOffer(verifiers, settings.max_search_tokens, settings.default_max_tokens)

    def _fields(self, principal: Principal, request: model_client.AnswerRequest) -> dict[str, Any]:
        """Return the request's fields in OpenAI's format."""
        settings, search = request.settings, self._search(principal, request)
        temperature, top_p = (TEMPERATURE, TOP_P) if search is None else (SEARCH_TEMPERATURE, SEARCH_TOP_P)
        system = [{"role": "system", "content": settings.system}] if settings.system.strip() else []
        fields: dict[str, Any] = {
            "model": settings.model,
            "messages": [*system, *map(self._message, request.turns)],
            "temperature": temperature if settings.temperature is None else settings.temperature,
            "top_p": top_p if settings.top_p is None else settings.top_p,
            "repetition_penalty": settings.repetition_penalty,
            "max_completion_tokens": settings.max_tokens,
            "tools_off": list(settings.tools_off),
            "tools_allowed": list(settings.tools_allowed),
            "test_time_compute": search,
        }
        if not request.reasons:
            fields["thinking_token_budget"] = 0
        if request.continues:
            fields |= {"continue_final_message": True, "add_generation_prompt": False}
        return fields

    def _search(self, principal: Principal, request: model_client.AnswerRequest) -> dict[str, Any] | None:
        """Return `test_time_compute` of a request.

        It is `None` for models that don't search, and for the rest of an answer, whose search has chosen its beginning.
        """
        settings = request.settings
        search = settings.test_time_compute
        if search is None or request.continues:
            return None
        if not self._gateway.catalogue.find(settings.model, principal.models).searches:
            return None
        return {
            "method": search.method,
            "n": search.n,
            "verifier": search.verifier or None,
            "return_candidates": True,
        }

    def _message(self, turn: model_client.Turn) -> dict[str, Any]:
        if not turn.images:
            return {"role": turn.role.value, "content": turn.text}
        urls = map(self._gateway.addresses.address, turn.images)
        images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        return {"role": turn.role.value, "content": [*images, {"type": "text", "text": turn.text}]}


class GatewayFleet:
    """Status of workers and queues from heartbeats that this gateway receives (implements `chat_ui`'s `Fleet`)."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def workers(self) -> Sequence[WorkerStatus]:
        """Return the latest heartbeat of each live worker of the platform, sorted by worker id."""
        return self._gateway.models.workers()

    def models(self) -> Sequence[ModelInfo]:
        """Return the models that workers served within the last hour, with load and capacity, sorted by name."""
        return self._gateway.models.models()

    def queued(self, model: str) -> int:
        """Return the number of sequences that wait for a worker of `model`, over all gateways."""
        return self._gateway.queues.waiting(model)

    def moderation_models(self) -> Sequence[str]:
        """Return the names by which the checks of a project's texts choose a served classifier or the rules."""
        return self._gateway.moderation.names()

    def moderation_categories(self) -> Sequence[str]:
        """Return OpenAI's categories of moderation, then those of the operator's rules."""
        return self._gateway.moderation.rules.categories


def _is_ready(model: ModelInfo) -> bool:
    return model.alive and model.workers > 0


def _price(prices: PriceList, model: ModelInfo) -> model_client.Price | None:
    try:
        rate = prices.price(model.name, ServiceClass.DEFAULT)
    except NoPrice:
        return None
    return model_client.Price(rate.input, rate.cached_input, rate.output)


def _tools(model: ModelInfo) -> list[str]:
    """Return the names of the model's own tools that are on.

    Heartbeats bound the calls of tools that are off too, so only those of MCP servers, which `ModelInfo.tools` never
    has, are read from the bounds.
    """
    bounded = [part.model.removeprefix(TOOL_PREFIX) for part in model.max_parts if part.model.startswith(TOOL_PREFIX)]
    on = {tool.name for tool in model.tools}
    return [name for name in bounded if name in on or name.startswith("mcp.")]


def _step(step: Step) -> history_steps.Step:
    return history_steps.Step(step.number, step.kind, step.name, history_steps.StepState(step.state.value), step.data)


def _usage(usage: Usage) -> TokenUsage:
    return TokenUsage(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)


def _answer_error(error: Exception, *, can_restart: bool) -> model_client.AnswerFailed:
    """Return a gateway error as an answer error, with messages for people who do not use the API."""
    body = error_body(error)["error"]
    code, message = body["code"] or "internal_error", body["message"]
    retry_after = error_headers(error).get("retry-after")
    seconds = None if retry_after is None else int(retry_after)
    if isinstance(error, ServerShutdown):
        return model_client.ShuttingDown(code, message, seconds)
    if can_restart and (
        (isinstance(error, JobFailed) and error.failure in _CANNOT_CONTINUE) or http_error(error).status == 400
    ):
        return model_client.ContinuationUnsupported(code, message, seconds)
    if isinstance(error, RateLimitExceeded):
        is_larger = isinstance(error, LargerThanLimit)
        code = "larger_than_limit" if is_larger else _RATE_LIMIT_CODES.get(error.kind, code)
    if isinstance(error, InsufficientCredit):
        needed, left = format_usd(error.needed), format_usd(error.available)
        message = f"There is not enough credit: this may cost up to {needed} USD, and {left} USD are left."
        return model_client.AnswerFailed("insufficient_credit", message)
    if isinstance(error, BudgetExhausted):
        needed, left = format_usd(error.needed), format_usd(max(0, error.left))
        message = f"This month's budget is used up: this may cost up to {needed} USD, and {left} USD of it are left."
        return model_client.AnswerFailed("budget_exhausted", message)
    return model_client.AnswerFailed(code, message, seconds)
