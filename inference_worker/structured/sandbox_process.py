"""Sandbox process of `sandbox.py`: forks a child for each grammar, and kills children that exceed their limits.

It has no threads and a small heap, so a fork takes about a millisecond. Children have limits on CPU time, wall-clock
time and memory and a lower priority than the engine, and report why the grammar is rejected, or "".
"""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe, connection
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from inference_worker.errors import GrammarRejected
from inference_worker.structured.compiler import GrammarCompiler
from inference_worker.structured.vocabulary import Vocabulary
from router.messages import Grammar

CPU_TIME_LIMIT = 0.4
"""CPU seconds of one check."""
WALL_TIME_LIMIT = 5.0
"""Wall-clock seconds of one check, for machines too busy to provide the CPU seconds."""
MEMORY = 512 * 2**20
"""Bytes of address space of a child beyond that of the sandbox process."""
NICENESS = 5

TOO_COMPLEX = "it is too complex to be compiled"


class CheckRequest(msgspec.Struct, frozen=True):
    """Message to the sandbox process: a grammar to check."""

    number: int
    grammar: Grammar


class CheckResult(msgspec.Struct, frozen=True):
    """Message from the sandbox process: why the grammar is rejected, or `None` for a valid grammar."""

    number: int
    reason: str | None


@dataclass(frozen=True)
class _Check:
    number: int
    child: int
    deadline: float


def serve(vocabulary: Vocabulary, pipe: Connection) -> None:
    """Answer grammar checks from `pipe` until the pipe is closed; the main function of the sandbox process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends this one
    # Any token may stand for the end of sequence, because it does not affect the check.
    run_checks(GrammarCompiler(vocabulary, len(vocabulary.tokens), [min(vocabulary.controls, default=0)]), pipe)


def run_checks(compiler: GrammarCompiler, pipe: Connection) -> None:
    """Check the grammars received from `pipe`, several concurrently, and send the results, until the pipe is closed."""
    decoder = msgspec.msgpack.Decoder(CheckRequest)
    checks: dict[Connection, _Check] = {}
    with suppress(EOFError, OSError):
        while True:
            for ready in connection.wait([pipe, *checks], _time_left(checks)):
                if ready is pipe:
                    _begin(compiler, decoder.decode(pipe.recv_bytes()), checks)
                elif isinstance(ready, Connection):
                    _end(ready, checks.pop(ready), pipe)
            for overdue in [results for results, check in checks.items() if check.deadline <= time.monotonic()]:
                os.kill(checks[overdue].child, signal.SIGKILL)
                _end(overdue, checks.pop(overdue), pipe)


def _time_left(checks: dict[Connection, _Check]) -> float | None:
    first = min((check.deadline for check in checks.values()), default=None)
    return None if first is None else max(0.0, first - time.monotonic())


def _begin(compiler: GrammarCompiler, request: CheckRequest, checks: dict[Connection, _Check]) -> None:
    parent_end, child_end = Pipe(duplex=False)
    child = os.fork()
    if not child:
        _run_child(compiler, request.grammar, child_end)
    child_end.close()
    checks[parent_end] = _Check(request.number, child, time.monotonic() + WALL_TIME_LIMIT)


def _run_child(compiler: GrammarCompiler, grammar: Grammar, results: Connection) -> None:
    """Check a grammar in the child process, and exit."""
    try:
        _apply_limits()
        results.send_bytes(_rejection_reason(compiler, grammar).encode())
    finally:
        os._exit(0)  # also after an exception: a missing answer counts as a rejection


def _apply_limits() -> None:
    os.nice(NICENESS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    space = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    signal.setitimer(signal.ITIMER_PROF, CPU_TIME_LIMIT)  # its signal ends the child
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _rejection_reason(compiler: GrammarCompiler, grammar: Grammar) -> str:
    """Return the reason of the rejection, or "" for a valid grammar."""
    try:
        compiler.matcher(grammar)
    except GrammarRejected as error:
        return str(error)
    return ""


def _end(results: Connection, check: _Check, pipe: Connection) -> None:
    """Send the result of a check; a child that exited without one exceeded a limit."""
    try:
        reason = results.recv_bytes().decode()
    except (EOFError, OSError):
        reason = TOO_COMPLEX
    results.close()
    os.waitpid(check.child, 0)
    pipe.send_bytes(msgspec.msgpack.encode(CheckResult(check.number, reason or None)))
