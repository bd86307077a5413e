"""Answers one job in steps: rewrite the question, choose a tool, call it, then have a model write the answer.

Each step that has ended is released to the gateway, which confirms it as it confirms tokens. Another process that takes
the job over continues after the last step and the last token that the gateway has: no step runs again that was
delivered, and what a tool said stays as it was shown. Only a step in whose middle the process died runs twice, and is
billed once, since bills are made of delivered steps.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from assistant.attempt import AssistantAttempt
from assistant.catalogue import AssistantSpec
from assistant.conversation import Conversation, prompt_limit
from assistant.model_calls import ModelCalls
from assistant.model_port import ModelCallFailed, ModelPiece
from assistant.routing.function_router import FunctionRouter
from assistant.routing.grammar_router import GrammarRouter
from assistant.routing.rewriting import FollowUpRewriter
from assistant.routing.router import Choice, Router
from assistant.tools.tool import Tool, ToolContext, ToolError
from assistant.tools.toolbox import Toolbox
from router.messages import (
    ChatPrompt,
    Delta,
    FailureCode,
    Finished,
    Reply,
    Started,
    Step,
    StepState,
    Task,
    Usage,
    UsagePart,
)
from router.model_registry import ModelInfo
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import JobFailed, ModelUnavailable
from router.producer.job_output import ResumePoint

NONE = "none"
"""Choice of a router that wants no tool."""


@dataclass(frozen=True)
class Abilities:
    """What the answers of one assistant are made with."""

    worker: str
    """Id of the consumer of the assistant's jobs."""
    spec: AssistantSpec
    classifier: Router | None
    """The router of the way `classifier`, if an assistant of the catalogue uses it."""
    toolbox: Toolbox
    children: ChildJobs
    assistants: Collection[str]
    """Names of the models of the catalogue, which do not answer for one another."""

    @property
    def answers_with(self) -> ModelInfo | None:
        """The model that writes the answers; `None` if no worker has reported it in the last hour."""
        models = self.children.models
        if self.spec.answers_with is not None:
            return models.find(self.spec.answers_with)
        texts = [each for each in models.models() if each.task is Task.GENERATE and each.name not in self.assistants]
        return next((each for each in texts if each.alive), texts[0] if texts else None)

    @property
    def routes_with(self) -> ModelInfo | None:
        """The model that chooses tools, unless a classifier does; `None` if it is not known."""
        name = self.spec.routing.model
        return self.answers_with if name is None else self.children.models.find(name)


@dataclass(frozen=True)
class _Routed:
    """A tool to call, with its arguments; `answer` instead, if the router's model is answering already."""

    tool: str | None
    arguments: dict[str, Any]
    answer: AsyncGenerator[ModelPiece] | None = None


class Answering:
    """Answers one job: `run` releases its steps and its answer, and returns when the answer is complete."""

    def __init__(
        self, attempt: AssistantAttempt, abilities: Abilities, release: Callable[[Reply], None], *, deadline: float
    ) -> None:
        """`release` sends a reply to the job's gateway; `deadline` is the job's by this machine's clock."""
        self._attempt = attempt
        self._job = msgspec.structs.replace(attempt.job, deadline=deadline)
        self._abilities = abilities
        self._release = release
        self._headers: Mapping[str, object] = attempt.delivery.headers
        self._calls = ModelCalls(abilities.children, self._job, self._headers)
        self._prompt = _chat(attempt)
        self._conversation = Conversation(self._prompt.messages)

    async def run(self) -> Finished:
        """Answer the job; return its last reply.

        Raises:
            GenerationError: the model that writes the answer failed.
            PublishError: the broker did not confirm its job.
            TooManyAncestors: the job is a child job of too many others.
        """
        result = ""
        if self._conversation.is_question and not self._prompt.tools and not self._prompt.continue_final_message:
            routed = await self._route(await self._rewritten())
            if routed.answer is not None:
                return await self._forward(routed.answer)
            if routed.tool is not None:
                step = await self._tool(routed.tool, routed.arguments)
                tool = self._abilities.toolbox.find(routed.tool)
                if step.state is StepState.DONE and tool is not None and not tool.answer_follows:
                    return self._end_without_text()
                result = _for_model(step, tool)
        return await self._answer(result)

    # Steps

    async def _rewritten(self) -> str:
        """Return the question as it stands alone; a step shows it if it was changed."""
        if (earlier := self._earlier("rewrite")) is not None:
            return str(earlier.data["to"])
        asked = self._conversation.question
        if self._attempt.steps:
            return asked
        model = self._answers_with().name if self._abilities.spec.rewrites == "model" else None
        rewriter = FollowUpRewriter(model)
        rewrite = await rewriter.rewrite(asked, self._conversation.history, self._calls)
        if rewrite.by is not None:
            parts = [UsagePart(model=model, usage=rewrite.usage)] if model and rewrite.usage else []
            self._end_step("rewrite", rewrite.by, {"from": asked, "to": rewrite.question}, parts)
        return rewrite.question

    async def _route(self, question: str) -> _Routed:
        """Choose a tool for a question that stands alone."""
        if (earlier := self._earlier("route")) is not None:
            tool = earlier.data["choice"]
            return _Routed(None if tool == NONE else tool, earlier.data.get("arguments", {}))
        tools = self._abilities.toolbox.known(self._abilities.spec.tools)
        if not tools or self._attempt.tokens:
            return _Routed(None, {})
        router, model = self._router()
        choice = await self._choose(router, question, tools)
        arguments, name = choice.arguments, choice.tool
        if name is not None and not arguments:
            tool = next(each for each in tools if each.name == name)
            arguments = tool.from_question(question, self._conversation.language) or {}
        chosen = name if name is not None and arguments else None
        data: dict[str, Any] = {
            "choice": chosen or NONE,
            "way": router.way,
            "arguments": arguments if chosen else {},
        }
        if choice.confidence is not None:
            data["confidence"] = round(choice.confidence, 3)
        parts = [] if choice.usage is None else [UsagePart(model=model, usage=choice.usage)]
        self._end_step("route", chosen or NONE, data, parts)
        return _Routed(chosen, arguments, choice.answer if chosen is None else None)

    def _router(self) -> tuple[Router, str]:
        """Return the router of this job, and the name of its model; "" if it has none."""
        abilities, sampling = self._abilities, self._job.sampling
        if abilities.spec.routing.way == "classifier" and abilities.classifier is not None:
            return abilities.classifier, ""
        answering = self._answers_with().name
        model = abilities.spec.routing.model or answering
        if abilities.spec.routing.way == "grammar":
            return GrammarRouter(model), model
        limit = sampling.max_tokens or sampling.default_max_tokens
        router = FunctionRouter(model, answers=model == answering, max_tokens=limit, temperature=sampling.temperature)
        return router, model

    async def _choose(self, router: Router, question: str, tools: Sequence[Tool]) -> Choice:
        try:
            return await router.choose(question, self._conversation.history, tools, self._calls)
        except ModelCallFailed as error:
            self._attempt.log.warning("routing failed, the question is answered directly", reason=str(error))
            return Choice(None)

    async def _tool(self, name: str, arguments: dict[str, Any]) -> Step:
        """Call a tool; return its ended step."""
        if (earlier := self._earlier("tool")) is not None:
            return earlier
        self._put_step("tool", name, StepState.RUNNING, {"arguments": arguments})
        language = self._conversation.language
        context = ToolContext(self._job.tenant, self._job.requester, language, self._conversation.question)
        began = time.monotonic()
        data: dict[str, Any] = {"arguments": arguments}
        try:
            outcome = await self._abilities.toolbox.run(name, arguments, context)
        except ToolError as error:
            data["error"] = {"code": error.code, "message": error.message(language)}
            data["seconds"] = round(time.monotonic() - began, 3)
            return self._put_step("tool", name, StepState.FAILED, data)
        data |= {"result": outcome.result, "seconds": round(outcome.seconds, 3)}
        if outcome.cached:
            return self._end_step("tool", name, data | {"cached": True})
        return self._end_step("tool", name, data, [tool_part(name)])

    def _earlier(self, kind: str) -> Step | None:
        """Return the latest ended step of a kind, perhaps of an earlier attempt."""
        return next((step for step in reversed(self._attempt.steps) if step.kind == kind), None)

    def _end_step(self, kind: str, name: str, data: dict[str, Any], parts: Sequence[UsagePart] = ()) -> Step:
        return self._put_step(kind, name, StepState.DONE, data, parts)

    def _put_step(
        self, kind: str, name: str, state: StepState, data: dict[str, Any], parts: Sequence[UsagePart] = ()
    ) -> Step:
        number = len(self._attempt.steps)
        step = Step(number=number, kind=kind, name=name, state=state, data=data, parts=list(parts))
        self._release(self._attempt.release_step(step))
        return step

    # The answer

    async def _answer(self, result: str) -> Finished:
        """Have the answering model write the answer; leave out old turns that its context has no room for."""
        dropped = self._dropped(len(result.encode()))
        while True:
            try:
                return await self._forward(self._written(result, dropped))
            except JobFailed as error:
                too_long = error.failure is FailureCode.CONTEXT_LENGTH_EXCEEDED
                most = self._conversation.droppable
                if not too_long or self._attempt.tokens or dropped >= most:
                    raise
                dropped = self._conversation.whole_turns(min(most, dropped + max(1, (most - dropped) // 2)))
                self._show_dropped(dropped)

    def _dropped(self, extra: int) -> int:
        """Return how many of the oldest messages the prompt leaves out; a step tells the person."""
        if (earlier := self._earlier("summary")) is not None:
            return int(earlier.data["dropped"])
        if self._attempt.tokens:
            return 0
        model = self._answers_with()
        limit = prompt_limit(model.longest_model_len, self._job.sampling.max_tokens)
        dropped = self._conversation.turns_to_drop(limit=limit, extra=extra + len(self._abilities.spec.system.encode()))
        if dropped:
            self._show_dropped(dropped)
        return dropped

    def _show_dropped(self, dropped: int) -> None:
        kept = self._conversation.droppable + 1 - dropped
        self._end_step("summary", self._answers_with().name, {"dropped": dropped, "kept": kept})

    def _answers_with(self) -> ModelInfo:
        """Return the model that writes the answer.

        Raises:
            ModelUnavailable: no worker has reported it in the last hour.
        """
        model = self._abilities.answers_with
        if model is None:
            raise ModelUnavailable
        return model

    async def _written(self, result: str, dropped: int) -> AsyncGenerator[ModelPiece]:
        job, attempt, spec = self._job, self._attempt, self._abilities.spec
        messages = self._conversation.prompt(system=spec.system, tool_result=result, dropped=dropped)
        delivered = ResumePoint(
            delivered=job.delivered,
            ended=job.ended,
            embedded=[],
            cached_tokens=job.cached_tokens,
            texts=job.texts,
            text_positions=job.text_positions,
            steps=[],
        )
        child = ChildRequest(
            step="a",
            model=self._answers_with().name,
            prompt=_with_messages(self._prompt, messages),
            sampling=job.sampling,
            text=job.text,
            grammar=job.grammar,
            delivered=delivered if attempt.tokens else None,
        )
        async with aclosing(self._abilities.children.replies(job, child, self._headers)) as replies:
            async for reply in replies:
                match reply:
                    case Started():
                        self._start(reply.prompt_tokens)
                    case Delta():
                        yield ModelPiece(delta=reply)
                    case Finished():
                        yield ModelPiece(usage=reply.usage)

    async def _forward(self, pieces: AsyncGenerator[ModelPiece]) -> Finished:
        """Release a model's answer as this job's; return the last reply."""
        usage = Usage(prompt_tokens=0)
        async with aclosing(pieces):
            async for piece in pieces:
                if piece.delta is not None:
                    self._release(self._attempt.release(piece.delta))
                usage = piece.usage or usage
        return self._finished(usage)

    def _start(self, prompt_tokens: int) -> None:
        """Tell the gateway the answer's prompt tokens, which a client that leaves in the middle pays for."""
        self._attempt.prompt_tokens = prompt_tokens
        self._release(started(self._attempt, self._abilities.worker, prompt_tokens))

    def _end_without_text(self) -> Finished:
        """End an answer that consists of its steps."""
        empty = Delta(job_id="", attempt_id="", start=0, token_ids=[], finish_reason="stop")
        self._release(self._attempt.release(empty))
        return self._finished(Usage(prompt_tokens=0))

    def _finished(self, usage: Usage) -> Finished:
        self._attempt.final = usage
        return Finished(job_id=self._job.id, attempt_id=self._attempt.attempt_id, usage=usage)


def started(attempt: AssistantAttempt, worker_id: str, prompt_tokens: int = 0) -> Started:
    """Return the reply that an attempt has started, or how many tokens the prompt of its answer has."""
    return Started(
        job_id=attempt.job.id,
        attempt_id=attempt.attempt_id,
        worker_id=worker_id,
        prompt_tokens=prompt_tokens,
        delivery_count=attempt.delivery.delivery_count,
    )


def tool_part(name: str) -> UsagePart:
    """Return the part of a bill for one call of the tool `name`."""
    return UsagePart(model=f"tool.{name}", usage=Usage(prompt_tokens=0, units={"call": 1}))


def _chat(attempt: AssistantAttempt) -> ChatPrompt:
    prompt = attempt.job.prompt
    if not isinstance(prompt, ChatPrompt):
        raise TypeError("an assistant answers chats only")
    return prompt


def _with_messages(prompt: ChatPrompt, messages: list[dict[str, Any]]) -> ChatPrompt:
    return ChatPrompt(
        messages=messages,
        tools=prompt.tools,
        tool_choice=prompt.tool_choice,
        add_generation_prompt=prompt.add_generation_prompt,
        continue_final_message=prompt.continue_final_message,
        template_kwargs=prompt.template_kwargs,
        reasoning_effort=prompt.reasoning_effort,
    )


def _for_model(step: Step, tool: Tool | None) -> str:
    """Return what the answering model learns of an ended tool step."""
    if step.state is StepState.DONE and tool is not None:
        return tool.for_model(step.data["result"])
    return f"[The tool {step.name} could not help: {step.data['error']['message']}]"
