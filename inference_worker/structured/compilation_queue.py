"""Compiles the grammars of an engine's requests in a thread, while the engine continues to step.

llguidance releases the GIL while it compiles.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from inference_worker.engine_protocol import GenerationRequest, RequestFailed
from inference_worker.errors import GrammarRejected, ModelError, UnsupportedModel
from inference_worker.reasoning import answer_ids
from inference_worker.structured.compiler import GrammarCompiler
from inference_worker.structured.matcher import Matcher
from inference_worker.structured.vocabulary import Vocabulary
from router.messages import Grammar

ReadVocabulary = Callable[[], Vocabulary]

_log = structlog.get_logger(__name__)


def no_vocabulary() -> Vocabulary:
    """Reject a grammar: stands for the vocabulary reader where a model has no tokenizer.

    Raises:
        UnsupportedModel: always.
    """
    raise UnsupportedModel("there is no tokenizer")


@dataclass(frozen=True)
class CompiledRequest:
    """A generation request whose grammar is compiled, with one matcher for each of its choices."""

    request: GenerationRequest
    matchers: list[Matcher]


class CompilationQueue:
    """Queue of generation requests whose grammars a thread compiles."""

    def __init__(self, read: ReadVocabulary, width: int, eos_token_ids: Collection[int]) -> None:
        """Call `read` in the thread at once, because reading a vocabulary takes long."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammars")
        self._compiler = self._thread.submit(lambda: GrammarCompiler(read(), width, eos_token_ids))
        self._waiting: dict[str, tuple[GenerationRequest, Future[list[Matcher]]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, request: GenerationRequest, grammar: Grammar) -> None:
        """Queue a generation request and start compiling its `grammar` in the thread.

        The request's id must not be in the queue already. `take` returns the request when it is compiled.
        """
        self._waiting[request.id] = request, self._thread.submit(self._matchers, request, grammar)

    def has(self, request: str) -> bool:
        """Return whether the request with the id `request` is queued: after `begin`, until `take` returns it."""
        return request in self._waiting

    def abort(self, request: str) -> None:
        """Remove the request with the id `request` and cancel its compilation; does nothing for unknown ids."""
        if request in self._waiting:
            self._waiting.pop(request)[1].cancel()

    def take(self, timeout: float = 0.0) -> list[CompiledRequest | RequestFailed]:
        """Remove and return the requests whose compilation has ended: compiled ones with their matchers, and failures.

        Waits up to `timeout` seconds for one; an empty list if there is none by then.
        """
        if not self._waiting:
            return []
        futures = [future for _, future in self._waiting.values()]
        concurrent.futures.wait(futures, timeout, return_when=concurrent.futures.FIRST_COMPLETED)
        done = [(request, future) for request, future in self._waiting.values() if future.done()]
        for request, _ in done:
            del self._waiting[request.id]
        return [_outcome(request, future) for request, future in done]

    def _matchers(self, request: GenerationRequest, grammar: Grammar) -> list[Matcher]:
        first = self._compiler.result().matcher(grammar)
        matchers = [first, *(first.fork() for _ in range(request.n - 1))]
        for matcher, delivered in zip(matchers, request.delivered, strict=False):
            matcher.accept(answer_ids(request.reasoning, delivered))
            if matcher.error is not None:
                raise GrammarRejected("The tokens delivered so far do not match the grammar")
        return matchers


def _outcome(request: GenerationRequest, future: Future[list[Matcher]]) -> CompiledRequest | RequestFailed:
    error = future.exception()
    if error is None:
        return CompiledRequest(request, future.result())
    if isinstance(error, GrammarRejected):
        return RequestFailed(request=request.id, message=f"{error}.", in_grammar=True)
    if isinstance(error, ModelError):
        return RequestFailed(request=request.id, message="This model can't follow grammars.", in_grammar=True)
    _log.error("grammar compilation failed", request=request.id, exc_info=error)
    return RequestFailed(request=request.id, message="the grammar could not be compiled")
