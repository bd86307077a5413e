"""Engine processes whose requests are held where their tags say: one for text and tool calls, one for images.

The engine for text answers by the prompt: a request to rewrite gets words that no rewrite has, so that the rules
rewrite; one with tools gets the call that its tag names; all others get the numbers of the counting engine.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from inference_worker.engine.engine_main import serve
from inference_worker.engine.engine_pipes import EventWriter
from inference_worker.engine_protocol import (
    EngineEvent,
    EngineLoad,
    GenerationRequest,
    ImageEvent,
    ImageRequest,
    Ready,
    RequestFailed,
    TokenEvent,
)
from inference_worker.settings import EngineSettings
from tests.chaos.counting_engine import CountingSteps, _Running
from tests.fakes.counting_text import counting_ready
from tests.kills.gates import Gates, Tag, tag_in

CONTEXT = 16_384
TOKENS = 40
"""Of each answer."""
HELD_AT = {"rewrite": 3, "route": 3, "answer": 12, "settlement": TOKENS - 1}
"""Position of the token before which a request is held, by phase."""
STEPS_PER_IMAGE, HELD_AT_STEP = 8, 4
SIZE = "64x64"
REWRITE = "no rewrite of that"


@dataclass(frozen=True)
class _Plan:
    tag: Tag | None
    phase: str
    script: bytes | None
    """What is said instead of numbers."""


def arguments(tag: Tag) -> tuple[str, dict[str, str]]:
    """Return the function that a request's tag names, and the arguments of its call."""
    match tag.tool:
        case "desk":
            return "mcp_desk_look", {"text": str(tag)}
        case "image":
            return "image", {"prompt": f"a red lamp on the table of the house {tag}"}
        case _:
            return "math", {"operation": "evaluate", "expression": f"3{tag.number[1:]}^3 + 7"}


def image_of(prompt: str, seed: int, index: int) -> bytes:
    """Return the image that is drawn: a signature, and what it was drawn from."""
    return b"\x89PNG\r\n\x1a\n" + json.dumps([prompt, seed, index]).encode()


class TalkingSteps(CountingSteps):
    """The counting engine with scripts and gates."""

    def __init__(self, settings: EngineSettings, step_seconds: float, log: Path, gates: Gates) -> None:
        super().__init__(settings, step_seconds, log)
        self._gates = gates
        self._plans: dict[str, _Plan] = {}

    def ready(self) -> Ready:
        """See `SteppingEngine`."""
        return counting_ready(self._capacity, CONTEXT)

    def add(self, request: GenerationRequest) -> None:
        """See `SteppingEngine`."""
        super().add(request)
        self._plans[request.id] = _plan(bytes(each for each in request.prompt_ids if each < 256).decode())

    def _goes(self, running: _Running) -> bool:
        plan = self._plans[running.request.id]
        if plan.tag is None or not running.next:
            return True
        phase = plan.tag.phase if plan.phase == "answer" and plan.tag.phase == "settlement" else plan.phase
        return running.next[0] != HELD_AT[phase] or not self._gates.is_held(plan.tag, phase)

    def _next(self, running: _Running, choice: int) -> TokenEvent:
        script = self._plans[running.request.id].script
        if script is None:
            return super()._next(running, choice)
        position = running.next[choice]
        last = position + 1 >= len(script)
        if last:
            del running.next[choice]
        else:
            running.next[choice] = position + 1
        return TokenEvent(
            request=running.request.id,
            choice=choice,
            position=position,
            token_ids=[script[position]],
            finish_reason="stop" if last else None,
        )


def _plan(prompt: str) -> _Plan:
    tag = tag_in(prompt)
    if "Rewrite the last question" in prompt:
        return _Plan(tag, "rewrite", REWRITE.encode())
    if "<tools>" in prompt and tag is not None:
        name, given = arguments(tag)
        call = json.dumps({"name": name, "arguments": given})
        return _Plan(tag, "route", f"<tool_call>\n{call}\n</tool_call>".encode())
    return _Plan(tag, "answer", None)


class DrawingSteps:
    """Implements `engine_main.SteppingEngine` for images: one step of the oldest request that is not held."""

    def __init__(self, step_seconds: float, gates: Gates) -> None:
        self._step_seconds = step_seconds
        self._gates = gates
        self._requests: dict[str, ImageRequest] = {}
        self._done: dict[str, int] = {}
        self._steps = 0

    def ready(self) -> Ready:
        """See `SteppingEngine`."""
        return Ready(
            max_model_len=512,
            vocab_size=0,
            max_num_seqs=1,
            kv_blocks=0,
            block_size=16,
            device="cpu",
            dtype="float32",
            attention="none",
            eos_token_ids=[],
            image_sizes=[SIZE],
        )

    def add(self, request: ImageRequest) -> None:
        """See `SteppingEngine`."""
        self._requests[request.id] = request
        self._done[request.id] = 0

    def abort(self, request: str, choice: int | None = None) -> None:
        """See `SteppingEngine`."""
        del choice
        self._requests.pop(request, None)

    def step(self) -> Sequence[EngineEvent]:
        """See `SteppingEngine`."""
        time.sleep(self._step_seconds)
        self._steps += 1
        request = next((each for each in self._requests.values() if not self._is_held(each)), None)
        if request is None:
            return []
        self._done[request.id] += 1
        if self._done[request.id] < STEPS_PER_IMAGE:
            return []
        del self._requests[request.id]
        return [ImageEvent(request=request.id, index=0, image=image_of(request.prompt, request.seed, 0))]

    def has_work(self) -> bool:
        """See `SteppingEngine`."""
        return bool(self._requests)

    def load(self) -> EngineLoad:
        """See `SteppingEngine`."""
        return EngineLoad(running=min(1, len(self._requests)), waiting=0, steps=self._steps)

    def failures(self) -> list[RequestFailed]:
        """See `SteppingEngine`."""
        return []

    def _is_held(self, request: ImageRequest) -> bool:
        tag = tag_in(request.prompt)
        return tag is not None and self._done[request.id] == HELD_AT_STEP and self._gates.is_held(tag, "draw")


def run(
    settings: EngineSettings, commands: Connection, reports: Connection, *, draws: bool, step_seconds: float, log: Path
) -> None:
    """The child's main function (`engine_main.Target`)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log.with_suffix(".pid").write_text(str(os.getpid()))
    gates = Gates.of_environment()
    engine = DrawingSteps(step_seconds, gates) if draws else TalkingSteps(settings, step_seconds, log, gates)
    writer = EventWriter(reports)
    writer.write(engine.ready())
    try:
        serve(engine, commands, writer)
    except (EOFError, OSError):
        return  # the worker has gone
