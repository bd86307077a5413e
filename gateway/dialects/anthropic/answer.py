"""Formats a generation as a message of Anthropic's API: one body, or the events of a stream.

Events of deltas are written without pydantic, as a stream has one for every few tokens; tests validate them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from gateway.answers.answer_parts import AnswerMetadata, CollectedChoice
from gateway.answers.event_frames import compact, quoted
from gateway.dialects.anthropic.models import (
    AnswerBlock,
    AnthropicMessage,
    MessageUsage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolUseContent,
)
from gateway.dialects.tool_arguments import tool_arguments
from gateway.jobs.generation import Generation
from router.messages import Delta, FinishReason, ToolCallDelta, Usage, merge_tool_calls

_STOP_REASONS: dict[FinishReason, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def event(name: str, data: str) -> str:
    """Return the frame of one event of a stream; `data` are the fields besides its `type`, as JSON after a comma."""
    return f'event: {name}\ndata: {{"type":"{name}"{data}}}\n\n'


@dataclass(frozen=True)
class MessageAnswer:
    """Formats the answer to one request of `/v1/messages`."""

    metadata: AnswerMetadata
    includes_thinking: bool = True
    """Whether the answer has the text of the thinking before it."""

    def body(self, choice: CollectedChoice, usage: Usage) -> AnthropicMessage:
        """Return the body of a whole answer."""
        blocks: list[AnswerBlock] = []
        if self.includes_thinking and (thinking := "".join(choice.reasoning)):
            blocks.append(ThinkingContent(thinking=thinking))
        if text := "".join(choice.text):
            blocks.append(TextContent(text=text))
        blocks += [_tool_use(call) for call in merge_tool_calls(sorted(choice.calls, key=lambda delta: delta.index))]
        reason, sequence = _stop(choice.finish_reason, choice.stop_reason)
        return self._message(blocks, usage, reason, sequence)

    async def events(self, generation: Generation) -> AsyncIterator[str]:
        """Yield the answer's stream without its last event, `message_stop`.

        Each item has the frames of one batch of `generation`.
        """
        blocks, stop = _BlockEvents(self.includes_thinking), ""
        opening: str | None = None
        async for batch in generation.batches():
            if opening is None:
                opening = self._opening(generation.usage_so_far)
            frames = "".join(blocks.of(delta) for _, delta in batch)
            for _, delta in batch:
                if delta.finish_reason is not None:
                    reason, sequence = _stop(delta.finish_reason, delta.stop_reason)
                    stop = f',"delta":{compact({"stop_reason": reason, "stop_sequence": sequence})}'
            if generation.finished:
                used = _usage(generation.usage).model_dump_json()
                frames += blocks.end() + event("message_delta", f'{stop},"usage":{used}')
            yield opening + frames
            opening = ""

    def _opening(self, usage: Usage) -> str:
        start = Usage(prompt_tokens=usage.prompt_tokens, cached_tokens=usage.cached_tokens)
        message = self._message([], start, None, None).model_dump_json(ensure_ascii=True)
        return event("message_start", f',"message":{message}') + event("ping", "")

    def _message(
        self, blocks: list[AnswerBlock], usage: Usage, reason: StopReason | None, sequence: str | None
    ) -> AnthropicMessage:
        return AnthropicMessage(
            id=f"msg_{self.metadata.id.removeprefix('chatcmpl-')}",
            model=self.metadata.model,
            content=blocks,
            stop_reason=reason,
            stop_sequence=sequence,
            usage=_usage(usage),
        )


class _BlockEvents:
    """Writes the events of an answer's content blocks, one after the other: a new kind of text ends the block before.

    `_open` is `text`, `thinking` or the index of a tool call.
    """

    def __init__(self, includes_thinking: bool) -> None:
        self._includes_thinking = includes_thinking
        self._open: str | int | None = None
        self._index = -1

    def of(self, delta: Delta) -> str:
        """Return the events of one delta."""
        frames = ""
        if delta.reasoning and self._includes_thinking:
            frames += self._in_block("thinking", '{"type":"thinking","thinking":"","signature":""}')
            frames += self._delta(f'{{"type":"thinking_delta","thinking":{quoted(delta.reasoning)}}}')
        if delta.text:
            frames += self._in_block("text", '{"type":"text","text":""}')
            frames += self._delta(f'{{"type":"text_delta","text":{quoted(delta.text)}}}')
        for call in delta.tool_calls or ():
            head = f'"id":{quoted(call.id)},"name":{quoted(call.name)}'
            frames += self._in_block(call.index, f'{{"type":"tool_use",{head},"input":{{}}}}')
            if call.arguments:
                frames += self._delta(f'{{"type":"input_json_delta","partial_json":{quoted(call.arguments)}}}')
        return frames

    def end(self) -> str:
        """Return the event that ends the open block, if any."""
        if self._open is None:
            return ""
        self._open = None
        return event("content_block_stop", f',"index":{self._index}')

    def _in_block(self, block: str | int, start: str) -> str:
        if block == self._open:
            return ""
        ended = self.end()
        self._open, self._index = block, self._index + 1
        return ended + event("content_block_start", f',"index":{self._index},"content_block":{start}')

    def _delta(self, delta: str) -> str:
        return event("content_block_delta", f',"index":{self._index},"delta":{delta}')


def _stop(finish: FinishReason | None, stop: str | int | None) -> tuple[StopReason, str | None]:
    if finish == "stop" and isinstance(stop, str):
        return "stop_sequence", stop
    return _STOP_REASONS[finish or "stop"], None


def _usage(usage: Usage) -> MessageUsage:
    return MessageUsage(
        input_tokens=usage.prompt_tokens - usage.cached_tokens,
        cache_read_input_tokens=usage.cached_tokens,
        output_tokens=usage.completion_tokens,
    )


def _tool_use(call: ToolCallDelta) -> ToolUseContent:
    return ToolUseContent(id=call.id, name=call.name, input=tool_arguments(call.arguments))
