"""Process that checks grammars for a worker: forks a child for each, and kills children that exceed their limits.

It has no threads and a small heap, so a fork takes about a millisecond. Children are confined (`runtime.sandbox`), have
a lower priority than the engine, and report why the grammar is rejected, or "".
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe, connection
from multiprocessing.connection import Connection

import msgspec

from inference_worker.errors import GrammarRejected
from inference_worker.structured.compiler import GrammarCompiler
from inference_worker.structured.vocabulary import Vocabulary
from router.messages import Grammar
from runtime.sandbox import interpreter
from runtime.sandbox.confinement import confine
from runtime.sandbox.limits import Limits, SandboxUnavailable

WALL_TIME_LIMIT = 5.0
"""Wall-clock seconds of one check, for machines too busy to provide the CPU seconds."""
LIMITS = Limits(memory_bytes=512 * 2**20, cpu_seconds=0.4)
"""Limits of one check."""
MAX_REASON_BYTES = 64 * 1024

TOO_COMPLEX = "it is too complex to be compiled"
UNCHECKED = "it could not be checked"


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


def main() -> None:
    """Run the sandbox process: read the vocabulary from the worker's connection, then answer grammar checks.

    Ends when the worker closes the connection.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends this one
    pipe = interpreter.parent_connection()
    vocabulary = msgspec.msgpack.decode(pipe.recv_bytes(), type=Vocabulary)
    # Any token may stand for the end of sequence, because it does not affect the check.
    run_checks(GrammarCompiler(vocabulary, len(vocabulary.tokens), [min(vocabulary.controls, default=0)]), pipe)


def run_checks(compiler: GrammarCompiler, pipe: Connection) -> None:
    """Answer the grammar checks that arrive on `pipe`, several at the same time, each in a child process.

    Returns when the worker closes the pipe.
    """
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
        results.send_bytes(_rejection_reason(compiler, grammar, results.fileno()).encode())
    finally:
        os._exit(0)  # also after an exception: a missing answer counts as a rejection


def _rejection_reason(compiler: GrammarCompiler, grammar: Grammar, results: int) -> str:
    """Confine this process, but for its pipe of `results`; return why the grammar is rejected, "" if it is valid."""
    try:
        confine(LIMITS, [results])
    except SandboxUnavailable:
        return UNCHECKED
    try:
        compiler.matcher(grammar)
    except GrammarRejected as error:
        return str(error)
    return ""


def _end(results: Connection, check: _Check, pipe: Connection) -> None:
    """Send the result of a check; a child that exited without one exceeded a limit."""
    try:
        reason = results.recv_bytes(MAX_REASON_BYTES).decode()
    except (EOFError, OSError):
        reason = TOO_COMPLEX
    results.close()
    os.waitpid(check.child, 0)
    pipe.send_bytes(msgspec.msgpack.encode(CheckResult(check.number, reason or None)))
