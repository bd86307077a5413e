"""Calls models for one job: each call is a child job, which follows its worker's death and ends with its reader."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from assistant.model_port import ModelCallFailed, ModelPiece, ModelRequest
from router.errors import PublishError
from router.messages import ChatPrompt, Delta, Finished, Job, SamplingParams, TextOptions
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import GenerationError


class ModelCalls:
    """Model port of one job: calls are billed to the job's tenant, in its service class, until its deadline."""

    def __init__(self, children: ChildJobs, job: Job, headers: Mapping[str, object]) -> None:
        """`headers` are those of the job's message, with its trace."""
        self._children = children
        self._job = job
        self._headers = headers
        self._calls = 0

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        """Yield the pieces of a model's answer as they arrive; closing the generator cancels the child job.

        Raises:
            ModelCallFailed: the model is unknown, unavailable, or its job failed.
        """
        self._calls += 1
        child = ChildRequest(
            step=f"s{len(self._job.steps)}-{self._calls}",
            model=request.model,
            prompt=ChatPrompt(
                messages=[*request.messages], tools=[*request.tools] or None, tool_choice=request.tool_choice
            ),
            sampling=SamplingParams(
                seed=self._job.sampling.seed,
                max_tokens=request.max_tokens,
                default_max_tokens=self._job.sampling.default_max_tokens if request.max_tokens is None else None,
                temperature=request.temperature,
            ),
            text=TextOptions(),
            grammar=request.grammar,
        )
        try:
            async with aclosing(self._children.replies(self._job, child, self._headers)) as replies:
                async for reply in replies:
                    match reply:
                        case Delta():
                            yield ModelPiece(reply.text, reply.tool_calls or (), reply.token_ids, delta=reply)
                        case Finished():
                            yield ModelPiece(usage=reply.usage)
        except (GenerationError, PublishError) as error:
            raise ModelCallFailed(f"{request.model}: {error}") from error
