"""Drives a generation engine from one thread, as the engine process does, and records when each token came.

Requests may arrive while the engine steps; one that arrives during a step waits for the next, as in production, and
that wait counts.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.measures import Timeline
from benchmarks.workloads import Conversation, Request
from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from router.messages import Grammar, SamplingParams

OnEnd = Callable[[str], None]


class CacheStep(NamedTuple):
    """The KV cache slots after one engine step: those allocated, those that held a token, and the sequences in them."""

    allocated: int
    held: int
    sequences: int

    @property
    def waste(self) -> float:
        """Share, 0 to 1, of allocated KV cache slots that held no token."""
        return 1 - self.held / self.allocated


@dataclass
class CacheUsage:
    """The use of the KV cache after each engine step that left some of it allocated."""

    steps: list[CacheStep] = field(default_factory=list)

    def note(self, step: CacheStep) -> None:
        """Add one engine step, unless no KV cache slot is allocated after it."""
        if step.allocated:
            self.steps.append(step)

    @property
    def waste(self) -> float:
        """Share, 0 to 1, of allocated KV cache slots that held no token, over all steps."""
        return 1 - sum(step.held for step in self.steps) / sum(step.allocated for step in self.steps)

    @property
    def worst(self) -> float:
        """The same share of the step in which it was the highest."""
        return max(step.waste for step in self.steps)


@dataclass
class Driver:
    """Steps `engine`; `timelines` are by request id, in the order in which requests were sent."""

    engine: Engine
    timelines: dict[str, Timeline] = field(default_factory=dict)
    answers: dict[str, list[int]] = field(default_factory=dict)
    cache: CacheUsage = field(default_factory=CacheUsage)
    _names: Iterable[int] = field(default_factory=itertools.count)

    def send(
        self,
        prompt_ids: list[int],
        output_tokens: int,
        *,
        temperature: float = 0.0,
        at: float | None = None,
        ignore_eos: bool = True,
        grammar: Grammar | None = None,
    ) -> str:
        """Queue a request in the engine, and return its id. By default it is greedy and ignores the end of sequence.

        Its timeline begins at `at`, by default now.
        """
        name = f"r{next(iter(self._names))}"
        self.timelines[name] = Timeline(time.perf_counter() if at is None else at)
        self.answers[name] = []
        sampling = SamplingParams(seed=0, temperature=temperature, max_tokens=output_tokens, ignore_eos=ignore_eos)
        self.engine.add(GenerationRequest(id=name, prompt_ids=prompt_ids, sampling=sampling, grammar=grammar))
        return name

    def step(self) -> list[str]:
        """Run one engine step, record when its tokens came, and return the ids of the requests that ended in it.

        Raises:
            RuntimeError: the engine failed a request.
        """
        events = self.engine.step()
        now = time.perf_counter()
        if failures := self.engine.failures():
            raise RuntimeError(failures[0].message)
        load = self.engine.load()
        allocated = load.kv_blocks_used * self.engine.ready().block_size
        self.cache.note(CacheStep(allocated, load.kv_tokens_held, load.running))
        return [event.request for event in events if self._take(event, now)]

    def finish(self, on_end: OnEnd = lambda _: None) -> None:
        """Step the engine until all requests have ended.

        `on_end` is called with the id of each ended request, and may send another.
        """
        while self.engine.has_work():
            for name in self.step():
                on_end(name)

    def _take(self, event: TokenEvent, now: float) -> bool:
        timeline = self.timelines[event.request]
        if event.token_ids:
            timeline.chunks.append(now)
            timeline.output_tokens += len(event.token_ids)
            self.answers[event.request] += event.token_ids
        if event.finish_reason is not None:
            timeline.finished = now
        return event.finish_reason is not None


def run_batch(engine: Engine, requests: Sequence[Request]) -> Driver:
    """Run all `requests` on the engine at the same time until all have ended.

    Returns the driver, which has their timelines and answers.
    """
    driver = Driver(engine)
    begin = time.perf_counter()
    for request in requests:
        driver.send(request.prompt_ids, request.output_tokens, at=begin)
    driver.finish()
    return driver


def closed_loop(engine: Engine, requests: Sequence[Request], clients: int) -> Driver:
    """Run `requests` on the engine, `clients` of them at a time: the next is sent when one ends.

    Returns the driver, which has their timelines and answers.
    """
    driver = Driver(engine)
    waiting = iter(requests)

    def send_next(_ended: str) -> None:
        if (request := next(waiting, None)) is not None:
            driver.send(request.prompt_ids, request.output_tokens, temperature=request.temperature)

    for _ in range(clients):
        send_next("")
    driver.finish(send_next)
    return driver


def run_conversations(engine: Engine, conversations: Sequence[Conversation], clients: int) -> Driver:
    """Run multi-turn conversations on the engine, `clients` at a time; each turn's prompt repeats all earlier turns.

    Returns the driver, which has the timelines of the turns.
    """
    driver = Driver(engine)
    waiting = iter(conversations)
    spoken: dict[str, tuple[Conversation, int, list[int]]] = {}

    def say(conversation: Conversation, turn: int, history: list[int]) -> None:
        prompt = history + conversation.turns[turn]
        spoken[driver.send(prompt, conversation.output_tokens)] = (conversation, turn, prompt)

    def go_on(name: str) -> None:
        conversation, turn, prompt = spoken.pop(name)
        if turn + 1 < len(conversation.turns):
            say(conversation, turn + 1, prompt + driver.answers[name])
        elif (fresh := next(waiting, None)) is not None:
            say(fresh, 0, [])

    for conversation in itertools.islice(waiting, clients):
        say(conversation, 0, [])
    driver.finish(go_on)
    return driver


def under_load(engine: Engine, streams: Sequence[Request], probes: Sequence[Request], gaps: Sequence[float]) -> Driver:
    """Send probes to the engine one by one while `streams` run, number i `gaps[i]` seconds after the last has ended.

    Returns the driver, which has the probes' timelines.

    Raises:
        ValueError: a stream ended before the last probe.
    """
    driver = Driver(engine)
    names = [driver.send(request.prompt_ids, request.output_tokens) for request in streams]
    while any(not driver.timelines[name].chunks for name in names):
        driver.step()
    for probe, gap in zip(probes, gaps, strict=True):
        _probe(driver, probe, time.perf_counter() + gap)
    if any(driver.timelines[name].finished for name in names):
        raise ValueError("a background stream ended before the last probe: give them more tokens")
    for name in names:
        engine.abort(name)
        del driver.timelines[name]
    return driver


def _probe(driver: Driver, probe: Request, due: float) -> None:
    while time.perf_counter() < due:
        driver.step()
    name = driver.send(probe.prompt_ids, probe.output_tokens, at=due)
    while driver.timelines[name].finished is None:
        driver.step()
