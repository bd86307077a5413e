"""Checks clients' grammars in a sandbox process before they reach the engine.

This is the worker's side. The sandbox process (`trial_process.py`) forks a child for each grammar, with limits on CPU
time, wall-clock time and memory. So a grammar that exceeds them despite the library's own limits (`compiler.LIMITS`)
is rejected without affecting other requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import threading
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import suppress

import msgspec
import structlog

from inference_worker.structured.errors import GrammarRejected
from inference_worker.structured.trial_process import Answer, Question, serve
from inference_worker.structured.vocabulary import Vocabulary
from router.messages import Grammar

STARTING = 15.0
"""Seconds that the sandbox process may take to answer, including its start."""
AT_ONCE = 8
"""Maximum concurrent checks; further ones wait."""
REMEMBERED = 10_000
"""Cached results, of at most some 500 bytes each."""

UNCHECKED = "it could not be checked"

_log = structlog.get_logger(__name__)


class Trials:
    """Grammar checks for one vocabulary. Call `check` on one event loop, `start` and `close` from any thread."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._verdicts: OrderedDict[bytes, str | None] = OrderedDict()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._helper: _Helper | None = None

    async def check(self, grammar: Grammar) -> None:
        """Return if `grammar` compiles within the limits.

        Raises:
            GrammarRejected: the grammar is invalid or exceeds the limits.
        """
        digest = hashlib.sha256(f"{grammar.kind}\0{grammar.source}".encode()).digest()
        if digest not in self._verdicts:
            async with self._places:
                verdict = await self._ask(grammar)
            self._verdicts[digest] = verdict
            while len(self._verdicts) > REMEMBERED:
                self._verdicts.popitem(last=False)
        else:
            verdict = self._verdicts[digest]
        if verdict is not None:
            raise GrammarRejected(verdict)

    def start(self) -> None:
        """Start the sandbox process unless it is running."""
        with self._lock:
            if self._helper is None or not self._helper.alive:
                self._helper = _Helper(self._vocabulary)

    def close(self) -> None:
        """Kill the sandbox process."""
        with self._lock:
            if self._helper is not None:
                self._helper.kill()
            self._helper = None

    async def _ask(self, grammar: Grammar) -> str | None:
        await asyncio.to_thread(self.start)
        helper = self._helper
        if helper is None:
            raise GrammarRejected(UNCHECKED)
        try:
            async with asyncio.timeout(STARTING):
                return await asyncio.wrap_future(helper.ask(grammar))
        except TimeoutError:
            _log.error("the grammar process does not answer")
            helper.kill()
            raise GrammarRejected(UNCHECKED) from None


class _Helper:
    """One run of the sandbox process."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        # Spawn, not fork: this process has threads. The sandbox process has none, so that it may fork.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(vocabulary, theirs), name="grammars", daemon=True)
        self._process.start()
        theirs.close()
        self._asked: dict[int, Future[str | None]] = {}
        self._lock = threading.Lock()
        self._number = 0
        self.alive = True
        threading.Thread(target=self._listen, name="grammar-verdicts", daemon=True).start()

    def ask(self, grammar: Grammar) -> Future[str | None]:
        """Send a grammar; the future's result is the reason of its rejection, or `None` if it is valid."""
        answer: Future[str | None] = Future()
        with self._lock:
            self._number += 1
            self._asked[self._number] = answer
            try:
                self._pipe.send_bytes(msgspec.msgpack.encode(Question(self._number, grammar)))
            except OSError:
                del self._asked[self._number]
                answer.set_exception(GrammarRejected(UNCHECKED))
        return answer

    def kill(self) -> None:
        """Kill the process; pending checks raise `GrammarRejected`."""
        self.alive = False
        self._process.kill()
        self._process.join()

    def _listen(self) -> None:
        decoder = msgspec.msgpack.Decoder(Answer)
        with suppress(EOFError, OSError):
            while True:
                answer = decoder.decode(self._pipe.recv_bytes())
                with self._lock:
                    asked = self._asked.pop(answer.number, None)
                if asked is not None and asked.set_running_or_notify_cancel():
                    asked.set_result(answer.reason)
        self.alive = False
        with self._lock:
            for asked in self._asked.values():
                if asked.set_running_or_notify_cancel():
                    asked.set_exception(GrammarRejected(UNCHECKED))
            self._asked.clear()
