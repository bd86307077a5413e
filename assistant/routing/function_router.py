"""Chooses the tool for a question by a function-calling model, whose output is cut off once it is text, not a call.

A call's markup is no text (`ModelPiece`), so that the first visible text shows that the output is no call.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

from assistant.model_port import ModelPiece, ModelPort, ModelRequest
from assistant.routing.function_prompt import DIRECT, by_function_name, function_names, offered_functions
from assistant.routing.router import Choice
from assistant.tools.tool import Tool
from assistant.turn import Turn
from router.messages import Job, Usage

MAX_TOKENS = 256
"""Tokens of a call; a longer one is cut off, keeps its tool, and loses its arguments."""


@dataclass(frozen=True)
class FunctionRouter:
    """Router that offers the tools to `model` as functions, beside a default function for direct answers.

    At the first visible text the call is cancelled; if the model also answers (`answers`), its stream goes on instead:
    `Choice.answer`.
    """

    model: str
    answers: bool = False
    passed_on: Sequence[dict[str, Any]] = ()
    """The client's functions, which are offered before the tools in place of the default function: a call of one is
    the answer, as text is."""
    way: str = field(default="function", init=False)

    async def choose(self, question: str, history: Sequence[Turn], tools: Sequence[Tool], models: ModelPort) -> Choice:
        """Ask the model with the tools as functions; return its choice: a tool, a direct answer, or the running answer.

        Raises:
            ModelCallFailed: the model did not answer.
        """
        named = by_function_name(tools)
        said = [{"role": turn.role, "content": turn.text} for turn in history]
        request = ModelRequest(
            self.model,
            [*said, {"role": "user", "content": question}],
            tools=offered_functions(named, self.passed_on),
            max_tokens=None if self.answers else MAX_TOKENS,
            answers=self.answers,
        )
        pieces = models.generate(request)
        call, answers_by = _Call(), set(function_names(self.passed_on))
        async with AsyncExitStack() as closing:
            await closing.enter_async_context(aclosing(pieces))
            async for piece in pieces:
                call.add(piece)
                if self.answers and (call.is_text or call.name in answers_by):
                    closing.pop_all()
                    return Choice(None, answer=_Continued(call.pieces, pieces))
                if call.is_text or call.name == DIRECT:
                    return Choice(None, usage=call.usage)
                if call.is_too_long:
                    break
        return call.choice({name: tool.name for name, tool in named.items()})


def has_room_for_calls(job: Job) -> bool:
    """Return whether a model that may write the answer of `job` could call a function within the job's limits.

    That needs no grammar, and a limit of tokens that a call fits into.
    """
    sampling = job.sampling
    limit = sampling.default_max_tokens if sampling.max_tokens is None else sampling.max_tokens
    return job.grammar is None and (limit is None or limit >= MAX_TOKENS)


class _Call:
    """The beginning of an output: the first function call, or text."""

    def __init__(self) -> None:
        self.pieces: list[ModelPiece] = []
        self.name = ""
        self.usage: Usage | None = None
        self._arguments = ""

    @property
    def is_text(self) -> bool:
        """Whether the output so far has visible text and no function call, so that it is a direct answer."""
        return not self.name and any(piece.text.strip() for piece in self.pieces)

    @property
    def is_too_long(self) -> bool:
        """Whether the output has more tokens than a function call may have."""
        return self.usage is not None and self.usage.completion_tokens > MAX_TOKENS

    def add(self, piece: ModelPiece) -> None:
        """Add the next piece of the model's output: text, or a part of a function call."""
        self.pieces.append(piece)
        self.usage = piece.usage or self.usage
        for call in piece.tool_calls:
            if call.index == 0:
                self.name = self.name or call.name
                self._arguments += call.arguments

    def choice(self, tools: dict[str, str]) -> Choice:
        """Return the choice that the complete function call means; a direct answer if the function is unknown.

        `tools` are the names of the tools by their function names.
        """
        tool = tools.get(self.name)
        return Choice(tool, self._read() if tool else {}, usage=self.usage)

    def _read(self) -> dict[str, Any]:
        try:
            arguments = json.loads(self._arguments)
        except (ValueError, RecursionError):
            return {}
        return arguments if isinstance(arguments, dict) else {}


class _Continued(AsyncGenerator[ModelPiece]):
    """A running output from its first piece: the pieces that were read, then the rest. Closing it closes the rest."""

    def __init__(self, read: Sequence[ModelPiece], rest: AsyncGenerator[ModelPiece]) -> None:
        self._read = deque(read)
        self._rest = rest

    async def asend(self, value: None) -> ModelPiece:
        """Return the next piece of the answer: one that was read already, else the next of the running model call."""
        return self._read.popleft() if self._read else await anext(self._rest)

    async def athrow(self, *error: Any) -> ModelPiece:
        """Raise an error inside the running model call, and drop the pieces that were read."""
        self._read.clear()
        return await self._rest.athrow(*error)

    async def aclose(self) -> None:
        """End the running model call, whether or not a piece of the answer was read."""
        self._read.clear()
        await self._rest.aclose()
