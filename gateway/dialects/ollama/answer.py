"""Formats a generation as an answer of Ollama's API: one body, or a stream of lines of JSON.

Lines of deltas are written without pydantic, as a stream has one for every few tokens; tests validate them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gateway.answers.answer_parts import AnswerMetadata, CollectedChoice
from gateway.answers.event_frames import LAST_LINE_END, compact, quoted
from gateway.dialects.ollama.models import (
    OllamaAnswerMessage,
    OllamaChatAnswer,
    OllamaFunctionCall,
    OllamaGenerateAnswer,
    OllamaToolCall,
)
from gateway.dialects.tool_arguments import tool_arguments
from gateway.jobs.generation import Generation
from router.messages import FinishReason, ToolCallDelta, merge_tool_calls

NANOSECONDS = 1_000_000_000
"""Nanoseconds of one second, the unit of Ollama's durations."""


def timestamp(seconds: float) -> str:
    """Return a Unix time as Ollama writes times."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True)
class OllamaAnswers:
    """Formats the answer to one request of `/api/chat` or, without `chat`, of `/api/generate`."""

    metadata: AnswerMetadata
    chat: bool
    _head: str = field(init=False)
    """Beginning of each line: the fields that all of them have."""

    def __post_init__(self) -> None:
        head = compact({"model": self.metadata.model, "created_at": timestamp(self.metadata.created)})
        object.__setattr__(self, "_head", head[:-1])

    def body(self, choice: CollectedChoice, generation: Generation) -> OllamaChatAnswer | OllamaGenerateAnswer:
        """Return the body of a whole answer."""
        fields: dict[str, Any] = {
            "model": self.metadata.model,
            "created_at": timestamp(self.metadata.created),
            **_ending(choice.finish_reason, generation),
            "done": True,
        }
        text, thinking = "".join(choice.text), "".join(choice.reasoning) or None
        if not self.chat:
            return OllamaGenerateAnswer(**fields, response=text, thinking=thinking)
        message = OllamaAnswerMessage(content=text, thinking=thinking, tool_calls=_calls(choice.calls) or None)
        return OllamaChatAnswer(**fields, message=message)

    async def events(self, generation: Generation) -> AsyncIterator[str]:
        """Yield the answer's stream: text as it comes, whole tool calls at their end, a last line with the usage.

        Each item has the lines of one batch of `generation`.
        """
        calls: list[ToolCallDelta] = []
        finish: FinishReason | None = None
        async for batch in generation.batches():
            lines = ""
            for _, delta in batch:
                if delta.reasoning:
                    lines += self._line("", f',"thinking":{quoted(delta.reasoning)}')
                if delta.text:
                    lines += self._line(delta.text)
                calls += delta.tool_calls or ()
                finish = delta.finish_reason or finish
            if generation.finished:
                if calls:
                    lines += self._line("", f',"tool_calls":{compact([each.model_dump() for each in _calls(calls)])}')
                ending = compact(_ending(finish, generation))[1:-1]
                lines += f"{self._head},{self._text('')},{ending}{LAST_LINE_END}"
            yield lines

    def _line(self, text: str, extra: str = "") -> str:
        return f'{self._head},{self._text(text, extra)},"done":false}}\n'

    def _text(self, text: str, extra: str = "") -> str:
        if self.chat:
            return f'"message":{{"role":"assistant","content":{quoted(text)}{extra}}}'
        return f'"response":{quoted(text)}{extra}'


def _ending(finish: FinishReason | None, generation: Generation) -> dict[str, Any]:
    """Return why an answer ended, how long it took in nanoseconds, and how many tokens it has."""
    total = int(generation.seconds * NANOSECONDS)
    before = min(total, int((generation.first_token_seconds or 0) * NANOSECONDS))
    return {
        "done_reason": "length" if finish == "length" else "stop",
        "total_duration": total,
        "load_duration": 0,
        "prompt_eval_count": generation.usage.prompt_tokens,
        "prompt_eval_duration": before,
        "eval_count": generation.usage.completion_tokens,
        "eval_duration": total - before,
    }


def _calls(deltas: list[ToolCallDelta]) -> list[OllamaToolCall]:
    calls = merge_tool_calls(sorted(deltas, key=lambda delta: delta.index))
    return [
        OllamaToolCall(
            id=call.id, function=OllamaFunctionCall(name=call.name, arguments=tool_arguments(call.arguments))
        )
        for call in calls
    ]
