"""A chat completion for somebody of this very process: admitted, limited, billed and streamed as one by HTTP.

For the web chat, whose people have no API key and whose answers outlive their requests. Knows no HTTP and no chat.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from auth_billing.access.principal import Principal
from auth_billing.prices.price_book import PriceBook
from gateway.http import rate_limits
from gateway.http.gateway import Gateway
from gateway.jobs import dispatch
from gateway.jobs.dispatch import Origin
from gateway.jobs.generation import ChoiceDelta, Generation
from gateway.openai.chat_completions import ChatCompletionRequest
from router.messages import FinishReason, Usage
from runtime import tracing

LOOK_SECONDS = 1.0
"""Between two words about where a request stands in line."""


@dataclass(frozen=True)
class InLine:
    """Nobody has begun: how many are before it, and for how many seconds about; `None`: not known."""

    position: int
    seconds: float | None


@dataclass(frozen=True)
class Heard:
    """What has come since the last one, and what all of it has used and cost (nano-USD). `finish_reason`: the end."""

    text: str
    usage: Usage
    cost: int
    finish_reason: FinishReason | None = None


async def complete(
    gateway: Gateway, prices: PriceBook, principal: Principal, fields: dict[str, Any]
) -> AsyncIterator[Heard | InLine]:
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
                first = asyncio.create_task(_next(batches))
                try:
                    async for place in _in_line(generation, first):
                        yield place
                    batch = await first
                finally:
                    first.cancel()
                    await asyncio.wait({first})  # what it runs in can't be closed while it does
                while batch is not None:
                    finish_reason = next(
                        (delta.finish_reason for _, delta in batch if delta.finish_reason is not None), finish_reason
                    )
                    used = bill.so_far
                    if batch:
                        yield Heard("".join(delta.text for _, delta in batch), used, price.cost(used))
                    batch = await _next(batches)
            yield Heard("", generation.usage, price.cost(generation.usage), finish_reason)
        except BaseException as error:
            # A task that is cancelled, or a closed iterator: whoever asked does not want to hear more.
            generation.close(error if isinstance(error, Exception) else None)
            raise
    finally:
        allowance.close()


async def _next(batches: AsyncIterator[list[ChoiceDelta]]) -> list[ChoiceDelta] | None:
    return await anext(batches, None)


async def _in_line(generation: Generation, first: asyncio.Task[list[ChoiceDelta] | None]) -> AsyncIterator[InLine]:
    """Where it stands, whenever that changes, until there is a `first` batch, or none can come."""
    told: InLine | None = None
    while not first.done():
        outlook = generation.waiting
        if outlook is not None and outlook.position:
            known = outlook.seconds is not None and math.isfinite(outlook.seconds)
            place = InLine(outlook.position, outlook.seconds if known else None)
            if place != told:
                told = place
                yield place
        await asyncio.wait({first}, timeout=LOOK_SECONDS)
