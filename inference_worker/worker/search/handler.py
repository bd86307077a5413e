"""Runs a worker's text generation jobs and searches for answers: executes the commands of each `SearchDriver`.

A continuation of a path is a choice of an engine request, scores are a child job at the verifier, and what a step of
the search found goes to the gateway as a step of the answer, from which another worker resumes the search.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from msgspec.structs import replace

from inference_worker.engine_protocol import EngineEvent, GenerationRequest, RequestFailed, TokenEvent
from inference_worker.errors import PromptRejected
from inference_worker.search.driver import SearchDriver
from inference_worker.search.events import (
    Choose,
    Command,
    Compare,
    Confirm,
    Event,
    Extend,
    Predict,
    Read,
    ReadResults,
    Score,
    SegmentEnd,
)
from inference_worker.search.likelihood import LikelihoodDriver
from inference_worker.search.regular_expressions import is_supported
from inference_worker.search.results import extract_results
from inference_worker.worker.engine_attempt import GenerationAttempt
from inference_worker.worker.generation_handler import GenerationHandler
from inference_worker.worker.job_handler import EngineJobHandler, HandlerContext
from inference_worker.worker.search.attempt import SearchAttempt
from inference_worker.worker.search.continuations import Continuations
from inference_worker.worker.search.judge import grades_of
from inference_worker.worker.search.predictions import MAX_TOKENS, Prediction
from inference_worker.worker.search.result_reading import ResultReading, reading_job
from inference_worker.worker.search.result_sandbox import ResultSandbox
from inference_worker.worker.search.verifier import PARAM, scores_of
from inference_worker.worker.text.detokenizer import Detokenizer
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.processor import TextProcessor
from inference_worker.worker.text.reasoning.style import without_reasoning
from router.errors import PublishError, TooManyAncestors
from router.messages import MAX_DEPTH, ChatPrompt, ExtractionKind, Job, Search, SearchMethod, Step, Terminal
from router.producer.child_jobs import ChildJobs, parent_failure
from router.producer.errors import GenerationError
from router.transport.base import Delivery


class SearchHandler(GenerationHandler):
    """Job handler of a worker that generates text and runs searches."""

    searches = True

    def __init__(self, text: TextProcessor, children: ChildJobs, context: HandlerContext[GenerationAttempt]) -> None:
        super().__init__(text, context)
        self._children = children
        self._results = ResultSandbox()

    def open(self, job: Job, delivery: Delivery) -> GenerationAttempt:
        """Create this worker's attempt at `job`, which the queue message `delivery` brought; `begin` starts it.

        A job with a search gets a `SearchAttempt`.
        """
        return super().open(job, delivery) if job.search is None else SearchAttempt(job, delivery)

    async def _prepare(self, attempt: GenerationAttempt) -> None:
        if not isinstance(attempt, SearchAttempt):
            await super()._prepare(attempt)
            return
        job, search = attempt.job, attempt.search
        _check(job, search)
        if search.method.stepwise:  # verifiers score the steps of answers, not of reasoning
            job = attempt.job = without_reasoning(job)
        limits = ModelLimits(self._ready.max_model_len, self._ready.vocab_size)
        request = await self._text.prepare(job, attempt.attempt_id, limits)
        rest = limits.max_model_len - request.prompt_tokens
        most = rest if request.sampling.max_tokens is None else request.sampling.max_tokens
        request = replace(request, sampling=replace(request.sampling, max_tokens=most))
        attempt.outputs = [self._text.open_output(job, choice, request.prompt_ids) for choice in range(job.n)]
        attempt.resume(job)
        if search.method is SearchMethod.LIKELIHOOD_BEAM_SEARCH:
            attempt.driver = self._likelihood_driver(job, search, most)
        else:
            attempt.driver = SearchDriver(
                search,
                model=job.model,
                seed=job.sampling.seed,
                prompt_tokens=request.prompt_tokens,
                max_tokens=most,
            )
        attempt.driver.resume(attempt.steps)
        attempt.request = request

    def _likelihood_driver(self, job: Job, search: Search, max_tokens: int) -> LikelihoodDriver:
        stops = self._stop_tokens(job)
        if search.n + len(stops) > MAX_TOKENS:
            message = f"Invalid 'stop_token_ids': with {search.n} beams at most {MAX_TOKENS - search.n} stop tokens"
            raise PromptRejected(f"{message} are possible, those of the model among them.", "stop_token_ids")
        tokenizer = self._text.tokenizer
        hidden = tokenizer.controls.ids if job.text.skip_special_tokens else frozenset()

        def decode(ids: list[int]) -> str:
            detokenizer = Detokenizer()
            return "".join(detokenizer.push(b"" if each in hidden else tokenizer.token_data(each)) for each in ids)

        return LikelihoodDriver(
            search, model=job.model, max_tokens=max_tokens, answers=job.n, stops=stops, decode=decode
        )

    def _submit(self, attempt: GenerationAttempt) -> None:
        if not isinstance(attempt, SearchAttempt) or attempt.started or attempt.driver is None:
            super()._submit(attempt)
            return
        attempt.started = True
        self._execute(attempt, attempt.driver.start())

    def _handle_event(self, attempt: GenerationAttempt, event: EngineEvent) -> None:
        if not isinstance(attempt, SearchAttempt):
            super()._handle_event(attempt, event)
            return
        continuations = attempt.continuations.get(event.request)
        if continuations is None or not isinstance(event, TokenEvent):
            self._metrics.discarded_tokens.inc(event.tokens)
            return
        self.tokens += event.tokens
        if event.cached_tokens and not attempt.steps and _reads_prompt_alone(attempt, continuations.request):
            attempt.cached_tokens = max(attempt.cached_tokens, event.cached_tokens)
        if continuations.push(event) and event.finish_reason is None:  # the engine detects neither separators nor stops
            self._engine.abort(event.request, event.choice)
        if (ended := continuations.ended()) is not None:
            del attempt.continuations[event.request]
            self._receive(attempt, ended)

    def _fail_as_reported(self, attempt: GenerationAttempt, failed: RequestFailed) -> None:
        if isinstance(attempt, SearchAttempt) and failed.request not in attempt.continuations:
            return  # its continuations had ended: the engine failed on tokens after their ends
        super()._fail_as_reported(attempt, failed)

    # Commands of the driver

    def _receive(self, attempt: SearchAttempt, event: Event) -> None:
        if attempt.driver is not None and not attempt.ended:
            self._execute(attempt, attempt.driver.receive(event))

    def _execute(self, attempt: SearchAttempt, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case Extend() | Predict():
                    self._generate(attempt, command)
                case ReadResults():
                    by_model = attempt.search.extract.kind is ExtractionKind.MODEL
                    read = self._ask_for_results if by_model else self._match_results
                    attempt.evaluating = self._consumer.spawn(read(attempt, command), attempt)
                case Score():
                    attempt.evaluating = self._consumer.spawn(self._score(attempt, command), attempt)
                case Compare():
                    attempt.evaluating = self._consumer.spawn(self._compare(attempt, command), attempt)
                case Confirm(step):
                    self._confirm(attempt, step)
                case Choose():
                    self._choose(attempt, command)

    def _generate(self, attempt: SearchAttempt, command: Extend | Predict) -> None:
        if not isinstance(attempt.request, GenerationRequest):
            return
        request_id = attempt.next_request_id()
        generated: Continuations | Prediction
        if isinstance(command, Predict):
            generated = Prediction(command, attempt.request, request_id)
        else:
            generated = Continuations(command, attempt.job, attempt.request, request_id, self._text)
        attempt.continuations[request_id] = generated
        self._send(attempt, [generated.request])

    async def _ask_for_results(self, attempt: SearchAttempt, command: ReadResults) -> None:
        """Have the model write the result of each path."""
        limits = ModelLimits(self._ready.max_model_len, self._ready.vocab_size)
        for path, text in command.texts.items():
            request_id = attempt.next_request_id()
            try:
                request = await self._text.prepare(reading_job(attempt.job, text), request_id, limits)
            except PromptRejected:
                self._receive(attempt, Read({path: None}))
                continue
            reading = ResultReading(path, request, self._text.tokenizer)
            attempt.continuations[request_id] = reading
            self._send(attempt, [reading.request])

    async def _match_results(self, attempt: SearchAttempt, command: ReadResults) -> None:
        """Find the results by the client's pattern, in a thread: the pattern may take a tenth of a second."""
        found = await asyncio.to_thread(extract_results, [*command.texts.values()], attempt.search.extract)
        self._receive(attempt, Read(dict(zip(command.texts, found, strict=True))))

    async def _score(self, attempt: SearchAttempt, command: Score) -> None:
        deadline = self._consumer.clocks.deadline(attempt.job)
        try:
            verify = grades_of if attempt.search.judge else scores_of
            scored = await verify(command, attempt, self._children, deadline=deadline)
        except (GenerationError, PublishError, TooManyAncestors) as error:
            self.fail(attempt, *parent_failure(error))
        else:
            self._receive(attempt, scored)

    async def _compare(self, attempt: SearchAttempt, command: Compare) -> None:
        job = attempt.job
        self._receive(attempt, await self._results.compare(command, job.tenant, job.requester))

    def _confirm(self, attempt: SearchAttempt, step: Step) -> None:
        delta = replace(attempt.release_step(step), cached_tokens=attempt.usage.cached_tokens)
        self._outbox.put(attempt.job.reply_to, delta, urgent=True)

    def _choose(self, attempt: SearchAttempt, command: Choose) -> None:
        """Release a chosen answer as if the engine had just generated it."""
        choice, ended = command.choice, attempt.job.ended
        if not isinstance(attempt.request, GenerationRequest) or (choice in ended and len(ended) < attempt.job.n):
            return  # an earlier attempt has released it
        start = None if choice else attempt.position
        prompt_ids = attempt.request.prompt_ids
        attempt.outputs[choice] = self._text.open_output(attempt.job, choice, prompt_ids, start)
        position = len(attempt.job.delivered_ids(choice))
        stopped = command.end is SegmentEnd.STOP
        event = TokenEvent(
            request=attempt.attempt_id,
            choice=choice,
            position=position,
            token_ids=command.token_ids[position:],
            finish_reason="stop" if stopped else "length",
            stop_token=self._stop_token(attempt.job, command.token_ids) if stopped else None,
        )
        self._observe(attempt, event)
        self._push(attempt, event)
        attempt.tokens = len(attempt.ids[0])

    def _stop_token(self, job: Job, token_ids: list[int]) -> int | None:
        """Return the stop token at the end of an answer, or `None`."""
        return token_ids[-1] if token_ids and token_ids[-1] in self._stop_tokens(job) else None

    def _stop_tokens(self, job: Job) -> frozenset[int]:
        sampling = job.sampling
        return frozenset([*sampling.stop_token_ids, *([] if sampling.ignore_eos else self._ready.eos_token_ids)])

    # End of a job

    def _abort(self, attempt: GenerationAttempt) -> None:
        if not isinstance(attempt, SearchAttempt):
            super()._abort(attempt)
            return
        for request_id in attempt.continuations:
            self._engine.abort(request_id)
        attempt.continuations.clear()
        if attempt.evaluating is not None:
            attempt.evaluating.cancel()

    def _end(self, attempt: GenerationAttempt, terminal: Terminal) -> None:
        if isinstance(attempt, SearchAttempt) and not attempt.ended:
            self._metrics.search_ended(attempt.search.method, terminal)
        super()._end(attempt, terminal)

    def _count_finished(self, attempt: GenerationAttempt) -> None:
        if isinstance(attempt, SearchAttempt):  # its tokens are released at once, which is no speed of the engine
            EngineJobHandler._count_finished(self, attempt)
        else:
            super()._count_finished(attempt)


def _reads_prompt_alone(attempt: SearchAttempt, request: GenerationRequest) -> bool:
    """Whether an engine request has the job's prompt alone: longer ones find in the cache what the first computed."""
    return attempt.request is not None and request.prompt_tokens == attempt.request.prompt_tokens


def _check(job: Job, search: Search) -> None:
    """Check what a search can't do and a gateway does not know.

    Raises:
        PromptRejected: the job can't be answered by its search.
    """
    answers = search.n if search.method is SearchMethod.LIKELIHOOD_BEAM_SEARCH else 1
    if job.n > answers:
        raise PromptRejected(f"This search has at most {answers} answers: `n` is too large.", "n")
    if not isinstance(job.prompt, ChatPrompt):
        raise PromptRejected("Only the answers of chats are searched for.", PARAM)
    if search.verifier and job.prompt.images:
        raise PromptRejected("The verifier of a search reads no images.", "messages")
    if search.method is SearchMethod.LIKELIHOOD_BEAM_SEARCH and job.prompt.thinking_token_budget:
        raise PromptRejected("Beam search by likelihood has no budget of reasoning tokens.", "thinking_token_budget")
    if search.verifier and job.depth >= MAX_DEPTH:
        raise PromptRejected("Assistants call one another too deeply for a search with a verifier.", PARAM)
    if search.extract.kind is ExtractionKind.REGEX and not is_supported(search.extract.pattern):
        message = f"Invalid '{PARAM}.extract.regex': the pattern is not valid, or could take too much time or memory."
        raise PromptRejected(message, f"{PARAM}.extract.regex")
