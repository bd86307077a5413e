"""A worker that answers from a script: takes jobs from the bus and sends the replies of the script.

A job's prompt selects its script. Has neither engine nor tokenizer: token `i` has the text "i ".
"""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from router import control_targets
from router.bus import Bus
from router.messages import (
    Cancel,
    Cancelled,
    ChatPrompt,
    Delta,
    Drawn,
    Embedded,
    EmbeddingPrompt,
    Failed,
    FailureCode,
    Finished,
    FinishReason,
    ImagePrompt,
    Job,
    PromptEcho,
    PromptLogprobs,
    Reply,
    Scored,
    ScorePrompt,
    ServiceClass,
    Started,
    Step,
    StepState,
    Task,
    TextPrompt,
    TokenAlternative,
    TokenisationPrompt,
    Tokenised,
    TokenLogprob,
    TokenPrompt,
    Usage,
    UsagePart,
    Window,
    WorkerStatus,
)
from tests.contract.examples import STATUS, msgspec_replace

Script = Callable[["ScriptedWorker", Job], Awaitable[None]]


def status(
    model: str,
    worker: str = "worker-1",
    *,
    max_model_len: int = 128,
    max_token_bytes: int = 8,
    dimensions: int = 0,
    image_sizes: Sequence[str] = (),
    reads_images: bool = False,
    searches: bool = False,
    tokenises: bool = False,
    labels: Sequence[str] = (),
    task: Task | None = None,
) -> WorkerStatus:
    """A heartbeat; with `dimensions` of a worker that embeds, with `image_sizes` of one that draws."""
    return msgspec_replace(
        STATUS,
        worker=worker,
        model=model,
        max_model_len=max_model_len,
        max_num_seqs=8,
        running=0,
        waiting=0,
        kv_cache_usage=0.0,
        tokens_per_second=0.0,
        max_token_bytes=max_token_bytes,
        task=task or (Task.IMAGE if image_sizes else Task.EMBED if dimensions else Task.GENERATE),
        dimensions=dimensions,
        image_sizes=list(image_sizes),
        reads_images=reads_images,
        searches=searches,
        tokenises=tokenises,
        labels=list(labels),
        started=time.time(),
        at=time.time(),
    )


def prompt_text(job: Job) -> str:
    """The last message, the text, or the ids of a job's prompt."""
    if isinstance(job.prompt, ChatPrompt):
        return str(job.prompt.messages[-1]["content"])
    assert isinstance(job.prompt, TextPrompt | TokenPrompt)
    return job.prompt.text if isinstance(job.prompt, TextPrompt) else str(job.prompt.token_ids)


PART_BOUNDS = [
    UsagePart(model="router-1.5", usage=Usage(prompt_tokens=100, completion_tokens=20)),
    UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 3})),
]
"""Bounds of `answer_in_steps`, for a worker's heartbeat."""
ROUTE = Step(
    number=0,
    kind="route",
    name="router-1.5",
    state=StepState.DONE,
    data={"choice": "weather", "arguments": {"place": "Łódź"}},
    parts=[UsagePart(model="router-1.5", usage=Usage(prompt_tokens=80, completion_tokens=9, cached_tokens=64))],
)
RUNNING = Step(number=1, kind="tool", name="weather", state=StepState.RUNNING)
WEATHER = Step(
    number=1,
    kind="tool",
    name="weather",
    state=StepState.DONE,
    data={"arguments": {"place": "Łódź"}, "result": {"type": "weather"}, "seconds": 0.5},
    parts=[UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 1}))],
)


async def answer_in_steps(worker: ScriptedWorker, job: Job) -> None:
    """Two steps, which are sent twice as after a lost window, and two tokens."""
    attempt = uuid.uuid4().hex
    worker.begin(job, attempt)
    for _ in range(2):
        for start, step in ((0, ROUTE), (1, RUNNING), (1, WEATHER)):
            worker.send(job, step_delta(job, attempt, start, step))
    worker.send_token(job, attempt, 2, "a ")
    worker.send_token(job, attempt, 3, "b", finish_reason="stop")
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, 2)))


def search_step(job: Job, number: int, *, generated: int, read: int) -> Step:
    """An ended step of the job's search, which generated and read so many tokens."""
    assert job.search is not None
    parts = [UsagePart(model=job.model, usage=Usage(prompt_tokens=0, completion_tokens=generated))]
    if job.search.verifier:
        parts.append(UsagePart(model=job.search.verifier, usage=Usage(prompt_tokens=read)))
    name, data = job.search.method.value, {"step": number}
    return Step(number=number, kind="search", name=name, state=StepState.DONE, data=data, parts=parts)


def _search_steps(worker: ScriptedWorker, job: Job, attempt: str, count: int) -> None:
    for number in range(count):
        ended = search_step(job, number, generated=12, read=40 + number)
        running = msgspec_replace(ended, state=StepState.RUNNING, parts=[])
        for step in (running, ended):
            worker.send(job, step_delta(job, attempt, number, step))


async def search(worker: ScriptedWorker, job: Job) -> None:
    """Two steps of a search, and the chosen answer of two tokens."""
    attempt = uuid.uuid4().hex
    worker.begin(job, attempt)
    _search_steps(worker, job, attempt, 2)
    worker.send_token(job, attempt, 2, "4")
    worker.send_token(job, attempt, 3, "2", finish_reason="stop")
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, 2)))


async def search_and_wait(worker: ScriptedWorker, job: Job) -> None:
    """One step of a search, then nothing until the job is cancelled."""
    attempt = uuid.uuid4().hex
    worker.begin(job, attempt)
    _search_steps(worker, job, attempt, 1)
    await worker.cancel_of(job.id).wait()
    worker.send(job, Cancelled(job_id=job.id, attempt_id=attempt, usage=usage(job, 0)))


def step_delta(job: Job, attempt: str, start: int, step: Step) -> Delta:
    """A step of the job, as a worker sends it."""
    ended = int(step.state.ended)
    return Delta(job_id=job.id, attempt_id=attempt, start=start, token_ids=[], untokenised_positions=ended, step=step)


class ScriptedWorker:
    """One worker of one model. `script` answers each job; `jobs` and `cancelled` are what it saw."""

    def __init__(
        self,
        bus: Bus,
        model: str,
        script: Script,
        worker: str = "worker-1",
        *,
        dimensions: int = 0,
        image_sizes: Sequence[str] = (),
        reads_images: bool = False,
        tokenises: bool = False,
        labels: Sequence[str] = (),
        task: Task | None = None,
    ) -> None:
        self.bus = bus
        self.model = model
        self.script = script
        self.worker = worker
        self.status = status(
            model,
            worker,
            dimensions=dimensions,
            image_sizes=image_sizes,
            reads_images=reads_images,
            tokenises=tokenises,
            labels=labels,
            task=task,
        )
        self.jobs: list[Job] = []
        self.cancelled: dict[str, asyncio.Event] = {}
        self.received = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ScriptedWorker]:
        """Declared, heard of, and consuming."""
        await self.bus.declare_model(self.model)
        inbound = [await self.bus.jobs(self.model, service, prefetch=256) for service in ServiceClass]
        controls = await self.bus.controls([control_targets.worker(self.worker), control_targets.model(self.model)])
        self.bus.send_status(self.status)
        tasks = [asyncio.create_task(self._take(feed)) for feed in inbound]
        tasks.append(asyncio.create_task(self._listen(controls)))
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def send(self, job: Job, *replies: Reply, worker: str | None = None) -> None:
        """Post one window."""
        self.bus.send_window(job.reply_to, Window(worker_id=worker or self.worker, replies=list(replies)))

    def begin(self, job: Job, attempt: str) -> None:
        """Report that an attempt at the job has started."""
        started = Started(job_id=job.id, attempt_id=attempt, worker_id=self.worker, prompt_tokens=prompt_tokens(job))
        self.send(job, started)

    def send_token(self, job: Job, attempt: str, position: int, text: str, **fields: Any) -> None:
        """Post a token of every choice, the last choice first; its id is its position."""
        choices = reversed(range(job.n))
        delta = Delta(job_id=job.id, attempt_id=attempt, start=position, token_ids=[position], text=text, **fields)
        self.send(job, *(msgspec_replace(delta, choice=choice) for choice in choices))

    def cancel_of(self, job_id: str) -> asyncio.Event:
        """Set when a cancel for the job has come."""
        return self.cancelled.setdefault(job_id, asyncio.Event())

    async def _take(self, feed: object) -> None:
        async with asyncio.TaskGroup() as running:
            async for envelope in feed:  # type: ignore[attr-defined]
                envelope.delivery.ack()
                self.jobs.append(envelope.message)
                self.received.set()
                running.create_task(self.script(self, envelope.message))  # type: ignore[arg-type]

    async def _listen(self, controls: object) -> None:
        async for message in controls:  # type: ignore[attr-defined]
            if isinstance(message, Cancel):
                self.cancel_of(message.job).set()


def prompt_tokens(job: Job) -> int:
    """As many as there are ids, or five."""
    return len(job.prompt.token_ids) if isinstance(job.prompt, TokenPrompt) else 5


def usage(job: Job, tokens: int) -> Usage:
    """Two prompt tokens are cached."""
    prompt = prompt_tokens(job)
    return Usage(prompt_tokens=prompt, completion_tokens=tokens * job.n, cached_tokens=min(2, prompt))


def logprob(token: int) -> TokenLogprob:
    """Made up, but well formed."""
    chosen = TokenAlternative(id=token, text=f"{token} ", logprob=-0.5)
    return TokenLogprob(chosen=chosen, top=[chosen, TokenAlternative(id=token + 1, text="é", logprob=-1.5)])


async def count(worker: ScriptedWorker, job: Job) -> None:
    """Answer "0 1 2 … " with as many tokens as the job allows, at most 5, in every choice, last choice first."""
    attempt = uuid.uuid4().hex
    total = min(5, 5 if job.sampling.max_tokens is None else job.sampling.max_tokens)
    worker.begin(job, attempt)
    if job.text.echo:
        worker.send(
            job,
            PromptEcho(job_id=job.id, attempt_id=attempt, token_ids=[70, 71, 72], text="70 71 72 ", first_text="70 "),
        )
    if job.sampling.prompt_logprobs is not None:
        for position in (1, 2):
            told = PromptLogprobs(
                job_id=job.id, attempt_id=attempt, start=position, logprobs=[logprob(70 + position)], ranks=[position]
            )
            worker.send(job, told)
    if not total:
        ends = [
            Delta(job_id=job.id, attempt_id=attempt, choice=choice, start=0, token_ids=[], finish_reason="length")
            for choice in range(job.n)
        ]
        worker.send(job, *ends)
    for token in range(total):
        lp = [logprob(token)] if job.sampling.logprobs is not None else None
        last: FinishReason | None = "length" if token == total - 1 else None
        worker.send_token(job, attempt, token, f"{token} ", logprobs=lp, finish_reason=last)
        await asyncio.sleep(0)
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, total)))


async def start_and_wait(worker: ScriptedWorker, job: Job) -> None:
    """Two tokens, then nothing until the job is cancelled."""
    attempt = uuid.uuid4().hex
    worker.begin(job, attempt)
    worker.send(job, Delta(job_id=job.id, attempt_id=attempt, start=0, token_ids=[0, 1], text="0 1 "))
    await worker.cancel_of(job.id).wait()
    worker.send(job, Cancelled(job_id=job.id, attempt_id=attempt, usage=usage(job, 2)))


async def never(worker: ScriptedWorker, job: Job) -> None:
    """Not a word."""
    await worker.cancel_of(job.id).wait()


def fail(code: FailureCode, message: str = "No.", *, after_tokens: bool = False) -> Script:
    """Fail, at once or after a token."""

    async def script(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        if after_tokens:
            worker.begin(job, attempt)
            worker.send(job, Delta(job_id=job.id, attempt_id=attempt, start=0, token_ids=[0], text="0 "))
        worker.send(job, Failed(job_id=job.id, attempt_id=attempt, code=code, message=message, param="messages"))

    return script


def flood(chars: int, pause: float) -> Script:
    """A token of `chars` characters every `pause` seconds until the job is cancelled."""

    async def script(worker: ScriptedWorker, job: Job) -> None:
        worker.begin(job, "a")
        cancelled, token = worker.cancel_of(job.id), 0
        while not cancelled.is_set():
            worker.send(job, Delta(job_id=job.id, attempt_id="a", start=token, token_ids=[token], text="x" * chars))
            token += 1
            await asyncio.sleep(pause)

    return script


def say(*texts: str) -> Script:
    """One token per text, in every choice."""

    async def script(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        for position, text in enumerate(texts):
            finish: FinishReason | None = "stop" if position == len(texts) - 1 else None
            worker.send_token(job, attempt, position, text, finish_reason=finish)
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(texts))))

    return script


def vector(index: int, dimensions: int = 4) -> bytes:
    """Made up: `index` and an eighth, then zeros; as much of it as fits."""
    return struct.pack(f"<{dimensions}f", *[index, 0.125, *[0.0] * dimensions][:dimensions])


async def embed(worker: ScriptedWorker, job: Job) -> None:
    """A vector for each input, three tokens to a text; the last input's first, for real workers sort by length."""
    assert isinstance(job.prompt, EmbeddingPrompt)
    attempt = uuid.uuid4().hex
    counts = [3 if isinstance(each, str) else len(each) for each in job.prompt.inputs]
    worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=sum(counts)))
    for index, tokens in reversed(list(enumerate(counts))):
        vectors = [vector(index, job.prompt.dimensions or 4)]
        worker.send(job, Embedded(job_id=job.id, attempt_id=attempt, start=index, vectors=vectors, tokens=tokens))
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=Usage(prompt_tokens=sum(counts))))


async def score(worker: ScriptedWorker, job: Job) -> None:
    """The length of each text over ten, of lists of steps also that of each step; three tokens each, the last first."""
    assert isinstance(job.prompt, ScorePrompt)
    attempt = uuid.uuid4().hex
    candidates = job.prompt.candidates
    total = 3 * len(candidates)
    worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=total))
    for index, candidate in reversed(list(enumerate(candidates))):
        steps = [[len(step) / 10 for step in candidate]] if isinstance(candidate, list) else []
        scores = [steps[0][-1] if steps else len(candidate) / 10]
        reply = Scored(job_id=job.id, attempt_id=attempt, start=index, scores=scores, step_scores=steps, tokens=3)
        worker.send(job, reply)
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=Usage(prompt_tokens=total)))


LABELS = ("toxic", "Violence", "self harm", "male")
"""Labels of a worker with the script `classify`; the last one means no category."""


async def classify(worker: ScriptedWorker, job: Job) -> None:
    """Labels that are words of a text score 0.9, all others 0.1; three tokens each, the last text first."""
    assert isinstance(job.prompt, ScorePrompt)
    attempt = uuid.uuid4().hex
    texts = [job.prompt.text(index) for index in range(len(job.prompt.candidates))]
    total = 3 * len(texts)
    worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=total))
    for index, text in reversed(list(enumerate(texts))):
        scores = [0.9 if label.lower() in text.lower() else 0.1 for label in LABELS]
        reply = Scored(
            job_id=job.id, attempt_id=attempt, start=index, scores=scores[-1:], step_scores=[scores], tokens=3
        )
        worker.send(job, reply)
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=Usage(prompt_tokens=total)))


async def tokenise(worker: ScriptedWorker, job: Job) -> None:
    """A token for each word of a text or of the last message, whose id is its length; ids become as many `x`."""
    assert isinstance(job.prompt, TokenisationPrompt)
    attempt, prompt, source = uuid.uuid4().hex, job.prompt, job.prompt.source
    worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=0))
    if isinstance(source, TokenPrompt):
        text = " ".join("x" * id_ for id_ in source.token_ids)
        reply = Tokenised(job_id=job.id, attempt_id=attempt, count=len(source.token_ids), text=text)
    else:
        words = prompt_text(msgspec_replace(job, prompt=source)).split()
        reply = Tokenised(
            job_id=job.id,
            attempt_id=attempt,
            count=len(words),
            token_ids=[] if prompt.count_only else [len(word) for word in words],
            names=words if prompt.names else [],
        )
    worker.send(job, reply, Finished(job_id=job.id, attempt_id=attempt, usage=Usage(prompt_tokens=0)))


def png(index: int) -> bytes:
    """Made up: a signature and the image's index."""
    return b"\x89PNG\r\n\x1a\n%d" % index


async def draw(worker: ScriptedWorker, job: Job) -> None:
    """An image for each choice that no earlier attempt has drawn, the last one first."""
    assert isinstance(job.prompt, ImagePrompt)
    attempt = uuid.uuid4().hex
    worker.send(job, Started(job_id=job.id, attempt_id=attempt, worker_id=worker.worker, prompt_tokens=0))
    for index in reversed(range(job.n)):
        if index not in job.ended:
            worker.send(job, Drawn(job_id=job.id, attempt_id=attempt, start=index, images=[png(index)]))
    used = Usage(prompt_tokens=0, units={job.prompt.size: job.n})
    worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=used))
