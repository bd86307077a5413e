"""Calls models for one job of an assistant: each call is a child job, cancelled when the caller stops reading it."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from assistant.model_port import Embeddings, ModelCallFailed, ModelPiece, ModelRequest
from router.errors import PublishError, TooManyAncestors
from router.messages import (
    ChatPrompt,
    Delta,
    Embedded,
    EmbeddingPrompt,
    Finished,
    Job,
    Reply,
    SamplingParams,
    Started,
    TextOptions,
    Usage,
)
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import GenerationError


class ModelCalls:
    """Model port of one job: calls are billed to the job's tenant, in its service class, until its deadline."""

    def __init__(
        self,
        children: ChildJobs,
        job: Job,
        headers: Mapping[str, object],
        as_answer: Callable[[ModelRequest], ChildRequest],
    ) -> None:
        """`headers` are those of the job's message, with its trace; `as_answer` makes requests that may answer it."""
        self._children = children
        self._job = job
        self._headers = headers
        self._as_answer = as_answer
        self._calls = 0

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        """Yield the pieces of a model's answer to `request` as they arrive from a child job.

        Closing the generator cancels the child job.

        Raises:
            ModelCallFailed: the model is unknown, unavailable, or its job failed.
        """
        self._calls += 1
        child = self._as_answer(request) if request.answers else self._child(request)
        try:
            async with aclosing(self.pieces(child)) as pieces:
                async for piece in pieces:
                    yield piece
        except (GenerationError, PublishError) as error:
            raise ModelCallFailed(f"{request.model}: {error}") from error

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of `texts`, in their order, by a child job at the embedding model `model`.

        Cancelling the call cancels the child job.

        Raises:
            ModelCallFailed: the model is unknown, unavailable, or its job failed.
        """
        self._calls += 1
        child = ChildRequest(
            step=f"s{len(self._job.steps)}-{self._calls}",
            model=model,
            prompt=EmbeddingPrompt(inputs=[*texts]),
            sampling=SamplingParams(seed=self._job.sampling.seed),
        )
        vectors: dict[int, list[float]] = {}
        usage = Usage(prompt_tokens=0)
        try:
            async with aclosing(self._children.replies(self._job, child, self._headers)) as replies:
                async for reply in replies:
                    if isinstance(reply, Embedded):
                        vectors.update(enumerate((_floats(each) for each in reply.vectors), start=reply.start))
                    elif isinstance(reply, Finished):
                        usage = reply.usage
        except (GenerationError, PublishError, TooManyAncestors) as error:
            raise ModelCallFailed(f"{model}: {error}") from error
        return Embeddings([vectors[number] for number in range(len(texts))], usage)

    async def pieces(self, child: ChildRequest) -> AsyncGenerator[ModelPiece]:
        """Publish a child job and yield its output as it arrives, each piece with the usage until then.

        Closing the generator cancels the child job.

        Raises:
            GenerationError: the child job failed.
            PublishError: the broker did not confirm the child job.
            TooManyAncestors: the parent is a child job of too many others.
        """
        usage = Usage(prompt_tokens=0)
        async with aclosing(self._children.replies(self._job, child, self._headers)) as replies:
            async for reply in replies:
                usage = _used(usage, reply)
                if isinstance(reply, Delta):
                    yield ModelPiece(reply.text, reply.tool_calls or (), reply.token_ids, usage, reply)
                elif isinstance(reply, Started | Finished):
                    yield ModelPiece(usage=usage)

    def _child(self, request: ModelRequest) -> ChildRequest:
        sampling = self._job.sampling
        return ChildRequest(
            step=f"s{len(self._job.steps)}-{self._calls}",
            model=request.model,
            prompt=ChatPrompt(
                messages=[*request.messages],
                tools=[*request.tools] or None,
                tool_choice=request.tool_choice,
                thinking_token_budget=None if request.answers else 0,
            ),
            sampling=SamplingParams(
                seed=sampling.seed,
                max_tokens=request.max_tokens,
                default_max_tokens=sampling.default_max_tokens if request.max_tokens is None else None,
                temperature=request.temperature,
            ),
            text=TextOptions(),
            grammar=request.grammar,
        )


def _floats(vector: bytes) -> list[float]:
    """Return the components of a vector of little-endian float32."""
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def _used(before: Usage, reply: Reply) -> Usage:
    """Return the usage of a child job after a reply to it."""
    match reply:
        case Started(prompt_tokens=prompt) if prompt:
            return msgspec.structs.replace(before, prompt_tokens=prompt)
        case Delta():
            return msgspec.structs.replace(
                before,
                completion_tokens=before.completion_tokens + reply.positions,
                cached_tokens=min(before.prompt_tokens, max(before.cached_tokens, reply.cached_tokens)),
            )
        case Finished():
            return reply.usage
    return before
