"""Checks clients' grammars in a sandbox process with limits, before a worker sends them to its engine.

This is the worker's side. The sandbox process (`sandbox_process.py`) forks a child for each grammar, with limits on CPU
time, wall-clock time and memory. So a grammar that exceeds them despite the library's own limits (`compiler.LIMITS`)
is rejected without affecting other requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import suppress

import msgspec
import structlog

from inference_worker.errors import GrammarRejected
from inference_worker.structured.sandbox_process import UNCHECKED, CheckRequest, CheckResult
from inference_worker.structured.vocabulary import Vocabulary
from router.fair_slots import FairSlots
from router.messages import Grammar
from runtime.sandbox import interpreter

ANSWER_TIMEOUT = 15.0
"""Seconds that the sandbox process may take to answer, including its start."""
MAX_CONCURRENT_CHECKS = 8
"""Maximum concurrent checks; further ones wait, and tenants, and the requesters of each, take turns."""
MAX_CHECKS_PER_TENANT = 4
"""Maximum concurrent checks of one tenant, so that another tenant's check need not wait for slow ones."""
MAX_CHECKS_PER_REQUESTER = 3
"""Maximum concurrent checks of one requester, so that another requester's of the tenant need not wait either."""
CACHE_SIZE = 10_000
"""Cached results, of at most some 500 bytes each."""

_log = structlog.get_logger(__name__)


class GrammarSandbox:
    """Checks grammars in a child process. Call `check` on one event loop, `start` and `close` from any thread."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._results: OrderedDict[bytes, str | None] = OrderedDict()
        self._slots = FairSlots(
            MAX_CONCURRENT_CHECKS, per_tenant=MAX_CHECKS_PER_TENANT, per_requester=MAX_CHECKS_PER_REQUESTER
        )
        self._lock = threading.Lock()
        self._process: _SandboxProcess | None = None

    async def check(self, grammar: Grammar, tenant: str = "", requester: str = "") -> None:
        """Check in the sandbox process that a client's `grammar` compiles within the limits of time and memory.

        Tenants, and the requesters of a tenant, take turns. Results are cached.

        Raises:
            GrammarRejected: the grammar is invalid or exceeds the limits.
        """
        digest = hashlib.sha256(f"{grammar.kind}\0{grammar.source}".encode()).digest()
        if digest not in self._results:
            async with self._slots.hold(tenant, requester):
                reason = await self._request_check(grammar)
            self._results[digest] = reason
            while len(self._results) > CACHE_SIZE:
                self._results.popitem(last=False)
        else:
            reason = self._results[digest]
        if reason is not None:
            raise GrammarRejected(reason)

    def start(self) -> None:
        """Start the sandbox process that checks grammars, unless it is running."""
        with self._lock:
            if self._process is None or not self._process.alive:
                self._process = _SandboxProcess(self._vocabulary)

    def close(self) -> None:
        """Kill the sandbox process that checks grammars."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
            self._process = None

    async def _request_check(self, grammar: Grammar) -> str | None:
        await asyncio.to_thread(self.start)
        process = self._process
        if process is None:
            raise GrammarRejected(UNCHECKED)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                return await asyncio.wrap_future(process.check(grammar))
        except TimeoutError:
            _log.error("the grammar process does not answer")
            process.kill()
            raise GrammarRejected(UNCHECKED) from None


class _SandboxProcess:
    """One run of the sandbox process."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._process, self._pipe = interpreter.start_connected("inference_worker.structured.sandbox_process:main")
        with suppress(OSError):  # it has ended already: checks are told so
            self._pipe.send_bytes(msgspec.msgpack.encode(vocabulary))
        self._pending: dict[int, Future[str | None]] = {}
        self._lock = threading.Lock()
        self._number = 0
        self.alive = True
        threading.Thread(target=self._receive_results, name="grammar-results", daemon=True).start()

    def check(self, grammar: Grammar) -> Future[str | None]:
        """Send a grammar to the process; the future's result is why it is rejected, or `None` if it is valid."""
        result: Future[str | None] = Future()
        with self._lock:
            self._number += 1
            self._pending[self._number] = result
            try:
                self._pipe.send_bytes(msgspec.msgpack.encode(CheckRequest(self._number, grammar)))
            except OSError:
                del self._pending[self._number]
                result.set_exception(GrammarRejected(UNCHECKED))
        return result

    def kill(self) -> None:
        """Kill the process; the futures of pending checks fail with `GrammarRejected`."""
        self.alive = False
        self._process.kill()
        self._process.wait()

    def _receive_results(self) -> None:
        decoder = msgspec.msgpack.Decoder(CheckResult)
        with suppress(EOFError, OSError):
            while True:
                answer = decoder.decode(self._pipe.recv_bytes())
                with self._lock:
                    future = self._pending.pop(answer.number, None)
                if future is not None and future.set_running_or_notify_cancel():
                    future.set_result(answer.reason)
        self.alive = False
        with self._lock:
            for future in self._pending.values():
                if future.set_running_or_notify_cancel():
                    future.set_exception(GrammarRejected(UNCHECKED))
            self._pending.clear()
