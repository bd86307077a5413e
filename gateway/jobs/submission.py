"""Submits an admitted request's jobs: charges rate limits, holds credit, publishes, and opens the generation.

In this order: the jobs are opened for replies, so that none can be missed; rate limits are charged; credit is held; the
project's moderation checks the prompts; the jobs are published with confirm. An error at any point undoes what was done
before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from auth_billing.rate_limits.limiter import Allowance
from gateway.admission.controller import AdmittedRequest
from gateway.jobs.gateway_billing import GatewayBilling
from gateway.jobs.generation import Generation
from gateway.jobs.generation_services import GenerationServices
from gateway.jobs.keyed_billing import KeyedBilling
from gateway.jobs.token_use import token_use
from gateway.moderation.moderation import Moderation
from router.messages import ChatPrompt, Job, TokenPrompt, Usage, UsagePart
from router.model_registry import ModelInfo
from router.usage_arithmetic import merged, total
from router.usage_bound import max_parts
from runtime import tracing

_CERTAIN_SHARE = 8
"""A text has at least an eighth of the tokens that it may have at most; words have a fourth."""


class JobSubmission:
    """Submits the jobs of one gateway's requests: charges rate limits, holds credit, and publishes them."""

    def __init__(self, services: GenerationServices, billing: GatewayBilling, moderation: Moderation) -> None:
        self._services = services
        self._billing = billing
        self._moderation = moderation

    @asynccontextmanager
    async def submit(
        self,
        admitted: AdmittedRequest,
        jobs: Sequence[Job],
        allowance: Allowance,
        *,
        streamed: bool,
        disconnected: Callable[[], Awaitable[None]] | None = None,
        keyed: KeyedBilling | None = None,
        carried: Sequence[UsagePart] = (),
    ) -> AsyncIterator[Generation]:
        """Publish a request's `jobs` (of one model and class) and yield their generation.

        An error in the block closes it.

        Args:
            admitted: the request's admission; nothing may be awaited between it and this call.
            jobs: the request's jobs.
            allowance: the caller's rate limits, which have counted the request already.
            streamed: the client has what was delivered even if no more follows, and pays for it.
            keyed: submits the receipts of a request with an idempotency key.
            carried: what jobs of gateways that died have used for the same answer; the first job's bill has it.
            disconnected: returns when the client has left; the generation is abandoned then, also after the block.

        Raises:
            AccountError, PublishError: the request can't be paid for or queued.
            PromptBlocked, InvalidRequest: the project's moderation refuses a prompt, or can't check it.
            RequestTooLarge: a job is larger than the broker accepts.
            GenerationError: the request failed before it was published.
            RateLimitExceeded, StoreUnavailable: the caller's limits don't allow it.
        """
        billing = self._billing.open(admitted, jobs, streamed=streamed, keyed=keyed)
        billing.carry(carried)
        generation = Generation(self._services, jobs, billing)
        if disconnected is not None:
            watch = asyncio.create_task(_abandon_after(disconnected, generation))
            generation.on_close(watch.cancel)
        try:
            if (moderation := await self._moderation.of_request(admitted, jobs)) is not None:
                generation.moderate(moderation)
            await _charge(allowance, admitted.model, jobs, billing.bounds, generation)
            await generation.publish(tracing.inject())
            yield generation
        except BaseException as error:
            generation.close(error if isinstance(error, Exception) else None)
            raise


async def _abandon_after(disconnected: Callable[[], Awaitable[None]], generation: Generation) -> None:
    await disconnected()
    generation.abandon()


async def _charge(
    allowance: Allowance, model: ModelInfo, jobs: Sequence[Job], most: Sequence[Usage], generation: Generation
) -> None:
    """Charge the tokens that `jobs` may use, `most` each; the difference to what they used is given back in the end."""
    parts = merged(part for job in jobs for part in max_parts(job, model))
    await allowance.charge(
        model.name,
        most=token_use(model, jobs, total(most), parts),
        least=sum(_certain_tokens(job, usage, model) for job, usage in zip(jobs, most, strict=True)),
        used=lambda: token_use(model, jobs, generation.usage_so_far, generation.parts),
    )


def _certain_tokens(job: Job, most: Usage, model: ModelInfo) -> int:
    """Return a lower bound on the tokens of a job's prompt."""
    if isinstance(job.prompt, TokenPrompt):
        return most.prompt_tokens
    images = len(job.prompt.images) if isinstance(job.prompt, ChatPrompt) else 0  # a small one has few tokens
    text = max(0, most.prompt_tokens - images * model.prompt_bounds.per_image)
    return text // _CERTAIN_SHARE if model.prompt_bounds.per_byte else 0
