"""Formats the gateway's answers of `/v1/chat/completions` as one body or as the chunks of a stream.

Chunks are written without pydantic, because a stream has one for every few tokens; tests validate them against the
models in `openai/`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gateway.answers.answer_parts import AnswerMetadata, AnswerOptions, CollectedChoice, bounded, prompt_logprobs
from gateway.answers.event_frames import ChunkFrames, compact, quoted
from gateway.jobs.generation import Generation
from gateway.jobs.prompt_echo import EchoedPrompt
from gateway.openai.chat_completion_answers import (
    ChatAnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatFinishReason,
    ChoiceLogprobs,
)
from gateway.openai.messages import FunctionCall, ToolCall
from gateway.openai.steps import AnswerStep
from gateway.openai.usage import CompletionUsage
from router.messages import (
    Delta,
    FinishReason,
    TokenAlternative,
    TokenLogprob,
    ToolCallDelta,
    Usage,
    UsagePart,
    merge_tool_calls,
)
from stored_objects.images.results import BlobAddress

StoreAnswer = Callable[[ChatCompletion], Awaitable[None]]
"""Stores a whole chat completion."""
CHUNK = "chat.completion.chunk"
_ROLE = '{"role":"assistant","content":"","refusal":null}'
_ROLE_OF_CALLER = '{"role":"assistant","content":null,"refusal":null}'
"""First delta where tools may be called: a message with tool calls only has null content, but text may still follow."""


@dataclass(frozen=True)
class ChatAnswer:
    """Formats one chat completion's answer in OpenAI's shape, as one body or as stream chunks."""

    metadata: AnswerMetadata
    n: int
    options: AnswerOptions
    address: BlobAddress
    """Signs the addresses of the images in steps."""
    echoed_text: str = ""
    """Text of the request with which every choice begins."""
    allows_tool_calls: bool = False
    """Whether the answer may contain tool calls."""
    forces_named_tool: bool = False
    """Whether the request forces a call of one named tool."""
    has_functions: bool = False
    """Whether the request offers the deprecated `functions`, whose call is `function_call` in the answer."""
    includes_reasoning: bool = True
    """Whether the answer has the text of the reasoning before it."""

    def body(
        self, choices: Sequence[CollectedChoice], prompt: EchoedPrompt, usage: Usage, parts: Sequence[UsagePart] = ()
    ) -> ChatCompletion:
        """Return the body of a whole chat completion, from all choices, the echoed prompt and the usage.

        `parts`: the usage of the steps, by model.
        """
        return ChatCompletion(
            **self.metadata.fields("chat.completion"),
            choices=[self._choice(index, choice) for index, choice in enumerate(choices)],
            usage=CompletionUsage.of(usage, parts),
            prompt_logprobs=prompt_logprobs(prompt, self.options.prompt_logprobs),
            prompt_token_ids=prompt.ids if self.options.token_ids else None,
        )

    async def events(self, generation: Generation, store: StoreAnswer | None = None) -> AsyncIterator[str]:
        """Yield a chat completion's stream: roles of all choices by index, text, an empty delta at each end, usage.

        Each item has the event frames of one batch of `generation`; usage, if requested, is in the last item. `store`,
        if any, gets the whole completion before the last item.
        """
        frames = ChunkFrames(self.metadata.fields(CHUNK), usage=self.options.usage)
        begun = False
        choices = [CollectedChoice() for _ in range(self.n)]
        async for batch in generation.batches():
            if store is not None:
                for index, delta in batch:
                    choices[index].take(delta)
                if generation.finished:
                    await store(self.body(choices, generation.prompts[0], generation.usage, generation.parts))
            opening = "" if begun else self._opening(frames, generation.prompts[0])
            text = "".join(frames.choice(choice) for index, delta in batch for choice in self._choices(index, delta))
            yield opening + text + self.options.usage_chunk(frames, generation)
            begun = True

    def _opening(self, frames: ChunkFrames, prompt: EchoedPrompt) -> str:
        """Return the first chunks of all choices: their roles and the text of the request that they begin with."""
        extra = f',"prompt_token_ids":{compact(prompt.ids)}' if self.options.token_ids else ""
        role = _ROLE_OF_CALLER if self.allows_tool_calls else _ROLE
        roles = [frames.choice(_choice(index, role), extra) for index in range(self.n)]
        delta = f'{{"content":{quoted(self.echoed_text)}}}'
        texts = [frames.choice(_choice(index, delta)) for index in range(self.n) if self.echoed_text]
        return "".join(roles + texts)

    def _choice(self, index: int, choice: CollectedChoice) -> ChatChoice:
        logprobs = self._logprobs(choice.logprobs) if self.options.logprobs is not None else None
        calls: list[ToolCall] | None = _calls(choice.calls) or None
        function_call: FunctionCall | None = None
        if calls and self.has_functions:
            function_call, calls = calls[0].function, None
        text = self.echoed_text + "".join(choice.text)
        reasoning = "".join(choice.reasoning)
        return ChatChoice(
            index=index,
            message=ChatAnswerMessage(
                content=text or (None if calls or function_call or reasoning else ""),
                refusal=None,
                reasoning_content=(reasoning if self.includes_reasoning else "") or None,
                tool_calls=calls,
                function_call=function_call,
                steps=[AnswerStep.of(step, self.address) for step in choice.steps] or None,
            ),
            logprobs=ChoiceLogprobs.model_validate(logprobs) if logprobs else None,
            # The reply inbox accepts no job's end before all of its choices have ended.
            finish_reason=self._finish_reason(cast(FinishReason, choice.finish_reason)),
            token_ids=choice.ids if self.options.token_ids else None,
        )

    def _choices(self, index: int, delta: Delta) -> Iterator[str]:
        """Yield the choices of a delta's chunks: reasoning, text, tool calls (a chunk each, as OpenAI does), and end.

        Log probabilities and token ids are in the first chunk. A step has a chunk of its own.
        """
        if delta.step is not None:
            yield _choice(index, f'{{"steps":[{compact(AnswerStep.of(delta.step, self.address).model_dump())}]}}')
            return
        logprobs = compact(self._logprobs(delta.logprobs)) if delta.logprobs else "null"
        ids = f',"token_ids":{compact(delta.token_ids)}' if self.options.token_ids and delta.token_ids else ""
        reasoning = delta.reasoning if self.includes_reasoning else ""
        if reasoning:
            yield _choice(index, f'{{"reasoning_content":{quoted(reasoning)}}}', logprobs, extra=ids)
            logprobs, ids = "null", ""
        if delta.text or ((delta.logprobs or ids) and not (delta.tool_calls or reasoning)):
            yield _choice(index, f'{{"content":{quoted(delta.text)}}}' if delta.text else "{}", logprobs, extra=ids)
            logprobs, ids = "null", ""
        for call in delta.tool_calls or ():
            if self.has_functions and call.index:  # `function_call` is one call
                continue
            yield _choice(index, self._call_delta(call), logprobs, extra=ids)
            logprobs, ids = "null", ""
        if delta.finish_reason:
            yield _choice(index, "{}", finish_reason=quoted(self._finish_reason(delta.finish_reason)))

    def _finish_reason(self, reason: FinishReason) -> ChatFinishReason:
        """Return OpenAI's finish reason, which is `stop` after a call that was forced by name."""
        if reason != "tool_calls":
            return reason
        if self.forces_named_tool:
            return "stop"
        return "function_call" if self.has_functions else reason

    def _call_delta(self, call: ToolCallDelta) -> str:
        arguments = f'"arguments":{quoted(call.arguments)}'
        function = f'{{"name":{quoted(call.name)},{arguments}}}' if call.name else f"{{{arguments}}}"
        if self.has_functions:
            return f'{{"function_call":{function}}}'
        head = f',"id":{quoted(call.id)},"type":"function"' if call.name else ""
        return f'{{"tool_calls":[{{"index":{call.index}{head},"function":{function}}}]}}'

    def _logprobs(self, tokens: list[TokenLogprob]) -> dict[str, Any]:
        content = [
            self._alternative(token.chosen) | {"top_logprobs": [self._alternative(top) for top in token.top]}
            for token in tokens
        ]
        return {"content": content, "refusal": None}

    def _alternative(self, token: TokenAlternative) -> dict[str, Any]:
        name = self.options.name(token)
        return {"token": name, "logprob": bounded(token.logprob), "bytes": list(token.text.encode())}


def _calls(deltas: Sequence[ToolCallDelta]) -> list[ToolCall]:
    """Join deltas to whole tool calls in order of index."""
    in_order = merge_tool_calls(sorted(deltas, key=lambda delta: delta.index))
    return [ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=call.arguments)) for call in in_order]


def _choice(index: int, delta: str, logprobs: str = "null", *, finish_reason: str = "null", extra: str = "") -> str:
    return f'{{"index":{index},"delta":{delta},"logprobs":{logprobs},"finish_reason":{finish_reason}{extra}}}'
