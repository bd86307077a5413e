"""Answers one job of an assistant in steps: rewrite the question, choose a tool, call it, have a model answer.

Each step that has ended is released to the gateway, which confirms it as it confirms tokens. Another process that takes
the job over continues after the last step and the last token that the gateway has: no step runs again that was
delivered, and what a tool said stays as it was shown. Only a step in whose middle the process died runs twice, and is
billed once, since bills are made of delivered steps.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from assistant.abilities import Abilities, tool_part
from assistant.attempt import AssistantAttempt
from assistant.conversation import Conversation, prompt_limit
from assistant.mcp.tool import text_for_model
from assistant.model_calls import ModelCalls
from assistant.model_port import ModelCallFailed, ModelPiece, ModelRequest
from assistant.own_calls import OwnCalls
from assistant.routing import function_prompt
from assistant.routing.function_router import FunctionRouter, has_room_for_calls
from assistant.routing.grammar_router import GrammarRouter
from assistant.routing.rewriting import FollowUpRewriter
from assistant.routing.router import Choice, Router
from assistant.tools.tool import JobCall, Tool, ToolContext, ToolError
from router.messages import (
    ChatPrompt,
    Delta,
    FailureCode,
    Finished,
    OwnToolCall,
    Reply,
    Started,
    Step,
    StepState,
    Usage,
    UsagePart,
)
from router.model_registry import ModelInfo
from router.producer.child_jobs import ChildRequest
from router.producer.errors import GenerationError, JobFailed, ModelUnavailable
from router.producer.job_output import ResumePoint

NONE = "none"
"""Choice of a router that wants no tool."""


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
        self._calls = ModelCalls(abilities.children, self._job, attempt.delivery.headers, self._as_answer)
        self._prompt = _chat(attempt)
        self._conversation = Conversation(self._prompt.messages)
        self._tools = abilities.tools_for(self._prompt)
        self._own_calls = OwnCalls(self._tools, self._prompt.tools or ())
        self._unbilled: list[UsagePart] = []
        """Usage of ended calls that the next ended step has; a client that leaves before does not pay for it."""

    async def run(self) -> Finished:
        """Answer the job: release its steps and its text to the gateway, and return the terminal reply `Finished`.

        Raises:
            GenerationError: the model that writes the answer failed.
            PublishError: the broker did not confirm its job.
            TooManyAncestors: the job is a child job of too many others.
            InvalidArguments, NotFound: the client chose the tool, with wrong arguments or one that it may not call.
        """
        result = ""
        await self._abilities.models_known()
        if (chosen := self._prompt.own_tool_call) is not None:
            return await self._called(chosen)
        if self._may_call_tools:
            question = self._conversation.question if self._prompt.tools else await self._rewritten()
            routed = await self._route(question)
            if routed.answer is not None:
                return await self._go_on(routed.answer)
            if routed.tool is not None:
                step = await self._tool(routed.tool, routed.arguments)
                tool = self._abilities.toolbox.find(routed.tool)
                if (text := self._phrased(step, tool)) is not None:
                    return self._end_with(text)
                result = _for_model(step, tool)
        return await self._answer(result)

    @property
    def _may_call_tools(self) -> bool:
        """Whether the answer may need a step: not with images, or an answer to continue.

        Beside the client's functions only where the model that chooses may answer, too.
        """
        prompt = self._prompt
        asks = self._conversation.is_question and not (prompt.images or prompt.continue_final_message)
        if prompt.tools:
            asks = asks and bool(prompt.own_tools) and has_room_for_calls(self._job)
        return asks and bool(self._tools or self._attempt.steps)

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
        if model and rewrite.usage:
            self._unbilled.append(UsagePart(model=model, usage=rewrite.usage))
        if rewrite.by is not None:
            self._end_step("rewrite", rewrite.by, {"from": asked, "to": rewrite.question})
        return rewrite.question

    async def _route(self, question: str) -> _Routed:
        """Choose a tool for a question that stands alone."""
        if (earlier := self._earlier("route")) is not None:
            tool = earlier.data["choice"]
            return _Routed(None if tool == NONE else tool, earlier.data.get("arguments", {}))
        if not self._tools or self._attempt.tokens:
            return _Routed(None, {})
        router, model = self._router()
        choice = await self._choose(router, question, model)
        arguments, chosen = choice.arguments, choice.tool
        if chosen is not None and not arguments:
            tool = next(each for each in self._tools if each.name == chosen)
            found = tool.from_question(question, self._conversation.language)
            chosen, arguments = (None, {}) if found is None else (chosen, found)
        data: dict[str, Any] = {
            "choice": chosen or NONE,
            "way": router.way,
            "arguments": arguments if chosen else {},
        }
        if choice.confidence is not None:
            data["confidence"] = round(choice.confidence, 3)
        if choice.embedding:
            data["embedding"] = choice.embedding
        if choice.answer is not None:
            data["answers"] = True
        if choice.usage is not None:
            self._unbilled.append(UsagePart(model=model, usage=choice.usage))
        self._end_step("route", chosen or NONE, data)
        return _Routed(chosen, arguments, choice.answer)

    def _router(self) -> tuple[Router, str]:
        """Return the router of this job, and the name of its model; "" if it has none."""
        abilities = self._abilities
        if self._prompt.tools:
            answering = self._answers_with().name
            return FunctionRouter(answering, answers=True, passed_on=self._prompt.tools), answering
        if abilities.embedding_router is not None and (embedding := abilities.embeds_with) is not None:
            return abilities.embedding_router(embedding.name), embedding.name
        if abilities.spec.routing.way == "classifier" and abilities.classifier is not None:
            return abilities.classifier, ""
        answering = self._answers_with().name
        model = abilities.spec.routing.model or answering
        if abilities.spec.routing.way == "grammar":
            return GrammarRouter(model, with_arguments=abilities.spec.routing.arguments), model
        return FunctionRouter(model, answers=model == answering and has_room_for_calls(self._job)), model

    async def _choose(self, router: Router, question: str, model: str) -> Choice:
        """Return the router's choice; that of a direct answer if its `model` fails, or has not been alive for long."""
        routes_with = self._abilities.routes_with
        if model and router.way != "classifier" and (routes_with is None or not routes_with.recently_alive):
            self._attempt.log.warning("no worker serves the routing model, the question is answered directly")
            return Choice(None)
        try:
            return await router.choose(question, self._conversation.history, self._tools, self._calls)
        except ModelCallFailed as error:
            self._attempt.log.warning("routing failed, the question is answered directly", reason=str(error))
            return Choice(None)

    async def _tool(self, name: str, arguments: dict[str, Any]) -> Step:
        """Call a tool; return its ended step."""
        if (earlier := self._earlier("tool")) is not None:
            return earlier
        self._put_step("tool", name, StepState.RUNNING, {"arguments": arguments})
        language, job, bill = self._conversation.language, self._job, self._unbilled.append
        headers, number = self._attempt.delivery.headers, len(self._attempt.steps)
        call = JobCall(job, headers, number, self._calls, self._answers_with().name, bill)
        allowed = frozenset(self._prompt.tools_allowed)
        context = ToolContext(job.tenant, job.requester, language, self._conversation.question, call, allowed)
        began = time.monotonic()
        data: dict[str, Any] = {"arguments": arguments}
        try:
            outcome = await self._abilities.toolbox.run(name, arguments, context, self._prompt.tools_off)
        except ToolError as error:
            data["error"] = {"code": error.code, "message": error.message(language), **error.details}
            data["seconds"] = round(time.monotonic() - began, 3)
            return self._put_step("tool", name, StepState.FAILED, data)
        data |= {"result": outcome.result, "seconds": round(outcome.seconds, 3)}
        if outcome.cached:
            return self._end_step("tool", name, data | {"cached": True})
        self._unbilled.append(tool_part(name))
        return self._end_step("tool", name, data)

    async def _called(self, call: OwnToolCall) -> Finished:
        """Call the tool that the client chose; the answer is what the tool says."""
        if self._earlier("tool") is None:
            self._abilities.check_call(call.name, call.arguments)
        step = await self._tool(call.name, call.arguments)
        tool = self._abilities.toolbox.find(call.name)
        if tool is None or step.state is not StepState.DONE or self._attempt.tokens:
            return self._end_with("")
        phrased = tool.phrased(step.data["result"])
        return self._end_with(tool.for_model(step.data["result"]) if phrased is None else phrased)

    def _earlier(self, kind: str) -> Step | None:
        """Return the latest ended step of a kind, perhaps of an earlier attempt."""
        return next((step for step in reversed(self._attempt.steps) if step.kind == kind), None)

    def _end_step(self, kind: str, name: str, data: dict[str, Any]) -> Step:
        return self._put_step(kind, name, StepState.DONE, data)

    def _put_step(self, kind: str, name: str, state: StepState, data: dict[str, Any]) -> Step:
        """Release a step; an ended one has the bill of what was used since the last."""
        parts: list[UsagePart] = []
        if state.ended:
            parts, self._unbilled = self._unbilled, []
        number = len(self._attempt.steps)
        step = Step(number=number, kind=kind, name=name, state=state, data=data, parts=parts)
        self._release(self._attempt.release_step(step))
        return step

    # The answer

    async def _answer(self, result: str) -> Finished:
        """Have the answering model write the answer; leave out old turns that its context has no room for."""
        dropped = self._dropped(len(result.encode()))
        while True:
            try:
                return await self._forward(self._calls.pieces(self._written(result, dropped)))
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
        model = self._abilities.sees_with if self._prompt.images else self._abilities.answers_with
        if model is None:
            raise ModelUnavailable
        return model

    def _as_answer(self, request: ModelRequest) -> ChildRequest:
        """Return the request of a routing call whose output answers the job unless it calls a tool."""
        dropped = self._dropped(len(msgspec.json.encode(request.tools)))
        return self._written("", dropped, functions=[*request.tools])

    def _written(self, result: str, dropped: int, functions: list[dict[str, Any]] | None = None) -> ChildRequest:
        """Return the request of the answer, after the part of it that was delivered."""
        job, prompt = self._job, self._prompt
        messages = self._conversation.prompt(system=self._abilities.spec.system, tool_result=result, dropped=dropped)
        if functions is None and (route := self._earlier("route")) is not None and route.data.get("answers"):
            named = function_prompt.by_function_name(self._tools)
            functions = function_prompt.offered_functions(named, prompt.tools or ())
        changes: dict[str, Any] = {
            "messages": messages,
            "images": prompt.images[self._conversation.images_before(dropped) :],
            "tools": functions or prompt.tools,
            "tools_off": [],
            "tools_allowed": [],
        }
        delivered = ResumePoint(
            delivered=job.delivered,
            ended=job.ended,
            embedded=[],
            cached_tokens=job.cached_tokens,
            texts=job.texts,
            text_positions=job.text_positions,
            steps=[],
        )
        return ChildRequest(
            step="a",
            model=self._answers_with().name,
            prompt=msgspec.structs.replace(prompt, **changes),
            sampling=job.sampling,
            text=job.text,
            grammar=job.grammar,
            delivered=delivered if self._attempt.tokens else None,
        )

    async def _go_on(self, answer: AsyncGenerator[ModelPiece]) -> Finished:
        """Release the answer of a router's model, which has begun."""
        try:
            return await self._forward(answer)
        except ModelCallFailed as error:
            if isinstance(error.__cause__, GenerationError):
                raise error.__cause__ from None
            raise

    async def _forward(self, pieces: AsyncGenerator[ModelPiece]) -> Finished:
        """Release a model's answer as this job's; return the last reply."""
        usage = Usage(prompt_tokens=0)
        async with aclosing(pieces):
            async for piece in pieces:
                usage = piece.usage or usage
                if usage.prompt_tokens > self._attempt.prompt_tokens:
                    self._start(usage.prompt_tokens)
                if piece.delta is not None:
                    self._release(self._attempt.release(self._own_calls.left_out(piece.delta)))
        return self._finished(usage)

    def _start(self, prompt_tokens: int) -> None:
        """Tell the gateway the answer's prompt tokens, which a client that leaves in the middle pays for."""
        self._attempt.prompt_tokens = prompt_tokens
        self._release(started(self._attempt, self._abilities.worker, prompt_tokens))

    def _phrased(self, step: Step, tool: Tool | None) -> str | None:
        """Return the answer that needs no model; `None`: the model phrases it, or has begun to in another process."""
        by_tool = self._abilities.spec.phrases == "tools"
        if step.state is not StepState.DONE or tool is None:
            text = str(step.data["error"]["message"]) if by_tool and "error" in step.data else None
        else:
            text = tool.phrased(step.data["result"])
        begun_by_model = self._attempt.tokens and not (text and self._job.texts == [text])
        return None if begun_by_model or (text and not by_tool) else text

    def _end_with(self, text: str) -> Finished:
        """End an answer that consists of its steps and of `text`, which no model wrote and which costs nothing."""
        delta = Delta(job_id="", attempt_id="", start=0, token_ids=[], text=text, finish_reason="stop")
        delta = msgspec.structs.replace(delta, untokenised_positions=int(bool(text)))
        self._release(self._attempt.release(delta))
        return self._finished(Usage(prompt_tokens=0))

    def _finished(self, usage: Usage) -> Finished:
        self._attempt.final = usage
        return Finished(job_id=self._job.id, attempt_id=self._attempt.attempt_id, usage=usage)


def started(attempt: AssistantAttempt, worker_id: str, prompt_tokens: int = 0) -> Started:
    """Build the reply that an attempt has started; with `prompt_tokens` also how long the prompt of its answer is."""
    return Started(
        job_id=attempt.job.id,
        attempt_id=attempt.attempt_id,
        worker_id=worker_id,
        prompt_tokens=prompt_tokens,
        delivery_count=attempt.delivery.delivery_count,
    )


def _chat(attempt: AssistantAttempt) -> ChatPrompt:
    prompt = attempt.job.prompt
    if not isinstance(prompt, ChatPrompt):
        raise TypeError("an assistant answers chats only")
    return prompt


def _for_model(step: Step, tool: Tool | None) -> str:
    """Return what the answering model learns of an ended tool step."""
    if step.state is StepState.DONE:
        return text_for_model(step.data["result"]) if tool is None else tool.for_model(step.data["result"])
    return f"[The tool {step.name} could not help: {step.data['error']['message']}]"
