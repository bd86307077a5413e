"""A chat completion for somebody of this very process: admitted, limited, billed and streamed as one by HTTP.

For the web chat, whose people have no API key and whose answers outlive their requests. Knows no HTTP and no chat.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from auth_billing.prices.price_book import PriceBook
from auth_billing.service import Principal
from gateway import dispatch, rate_limits
from gateway.dispatch import Origin
from gateway.gateway import Gateway
from gateway.openai.chat_completions import ChatCompletionRequest
from infra.runtime import tracing
from router.messages import FinishReason, Usage


@dataclass(frozen=True)
class Heard:
    """What has come since the last one, and what all of it has used and cost (nano-USD). `finish_reason`: the end."""

    text: str
    usage: Usage
    cost: int
    finish_reason: FinishReason | None = None


async def complete(
    gateway: Gateway, prices: PriceBook, principal: Principal, fields: dict[str, Any]
) -> AsyncIterator[Heard]:
    """Answer a request of OpenAI's shape, with one choice and no tools. Closing this stops the engine.

    Raises:
        GatewayError, AccountError, PublishError: there is no (whole) answer; what came before was given out.
    """
    body = ChatCompletionRequest.parse(fields)
    allowance = gateway.limits.allowance(principal)
    try:
        await allowance.enter()
        reservation = await gateway.admission.admit(principal, body)
        settings = gateway.settings
        origin = Origin(settings.gateway_id, time.time() + settings.max_request_seconds, settings.default_max_tokens)
        job = dispatch.to_job(body, reservation, origin)
        price = (await prices.current()).price(job.model, job.service_class)
        bill = gateway.billing.open(reservation, [job], streamed=True)
        generation = gateway.generations.open([job], bill)
        try:
            await rate_limits.charge_allowance(allowance, reservation, [job], generation.tokens_used)
            await generation.publish(tracing.inject())
            finish_reason: FinishReason = "stop"
            async with aclosing(generation.batches()) as batches:  # type: ignore[type-var]
                async for batch in batches:
                    finish_reason = next((delta.f for _, delta in batch if delta.f is not None), finish_reason)
                    used = bill.so_far
                    yield Heard("".join(delta.t for _, delta in batch), used, price.cost(used))
            yield Heard("", generation.usage, price.cost(generation.usage), finish_reason)
        except BaseException as error:
            # A task that is cancelled, or a closed iterator: whoever asked does not want to hear more.
            generation.close(error if isinstance(error, Exception) else None)
            raise
    finally:
        allowance.close()
