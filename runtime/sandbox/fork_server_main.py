"""Entry point of a `ForkServer`'s process: imports the work once, and forks a confined child for each order.

It reads no untrusted bytes: a command names a child and brings its limits and the ends of its two pipes. It has no
threads, and its heap is frozen, so that a fork takes milliseconds and children share its memory.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from runtime.sandbox.child import OUT_OF_MEMORY, STDIN, STDOUT, UNCONFINED, Work, run_work
from runtime.sandbox.confinement import confine
from runtime.sandbox.limits import Limits, SandboxUnavailable

MAX_COMMAND_BYTES = 1024
TICK = 0.05
"""Seconds between two looks at the running children."""
FAVOURED_SECONDS = 0.3
"""Seconds after which a child yields to younger ones."""
YIELDING_NICENESS = 10
"""Nice value of children after `FAVOURED_SECONDS`; a lower one would starve them beside a busy engine."""
LEAST_SHARE = 0.25
"""Share of the CPU time of `StartChild` that an overdue child must have used to be ended, so that a child which the
machine did not run is not."""


class StartChild(msgspec.Struct, tag="start", frozen=True):
    """Command: fork a child.

    The message brings the reading end of its order, the writing end of its output and perhaps the file it may read.
    """

    number: int
    memory_bytes: int
    cpu_seconds: float
    busy_seconds: float
    """Wall-clock time after which the child is ended if it has used `LEAST_SHARE` of `cpu_seconds`."""


class KillChild(msgspec.Struct, tag="kill", frozen=True):
    """Command: end a child at once, if it has not ended."""

    number: int


class ChildEnded(msgspec.Struct, frozen=True):
    """Report: a child has ended."""

    number: int
    status: int
    """Exit status, or the negative number of the signal that ended it."""


Command = StartChild | KillChild


@dataclass
class _Child:
    pid: int
    number: int
    limits: StartChild
    began: float
    favoured: bool = True
    overdue: bool = False


def main(work: str, *argument: str) -> None:
    """Entry point of a fork server: fork a child that runs `work` for each command, until standard input closes.

    `work` is `MODULE:NAME`, imported once; with an argument the work is what it returns for it. Standard input is a
    socket for the commands.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends this one
    module, _, name = work.partition(":")
    found = getattr(importlib.import_module(module), name)
    function: Work = found(*argument) if argument else found
    gc.collect()
    gc.freeze()
    gc.disable()
    with socket.socket(fileno=os.dup(STDIN)) as commands:
        _Server(function, commands).serve()
    os._exit(0)


class _Server:
    def __init__(self, function: Work, commands: socket.socket) -> None:
        self._function = function
        self._commands = commands
        self._decoder = msgspec.msgpack.Decoder(Command)
        self._children: dict[int, _Child] = {}
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Execute commands and report ended children until the command socket closes; then kill the children."""
        with contextlib.suppress(OSError):  # the parent has ended
            while True:
                wait = TICK if self._children else None
                ready, _, _ = select.select([self._commands, self._woken], [], [], wait)
                if self._woken in ready:
                    os.read(self._woken, 4096)
                if self._commands in ready and not self._receive():
                    break
                self._report_ended()
                for child in self._children.values():
                    self._check(child)
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)

    def _receive(self) -> bool:
        """Obey the next command; return whether there was one."""
        message, files, _, _ = socket.recv_fds(self._commands, MAX_COMMAND_BYTES, 3)
        if not message:
            return False
        command = self._decoder.decode(message)
        if isinstance(command, StartChild):
            self._start(command, files)
        elif (child := self._children.get(command.number)) is not None:
            os.kill(child.pid, signal.SIGKILL)
        return True

    def _start(self, command: StartChild, files: list[int]) -> None:
        pid = os.fork()
        if not pid:
            _run_child(self._function, command, *files)
        for each in files:
            os.close(each)
        self._children[command.number] = _Child(pid, command.number, command, time.monotonic())

    def _report_ended(self) -> None:
        for child in list(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                del self._children[child.number]
                code = -signal.SIGXCPU if child.overdue else os.waitstatus_to_exitcode(status)
                ended = ChildEnded(child.number, code)
                self._commands.send(msgspec.msgpack.encode(ended))

    def _check(self, child: _Child) -> None:
        age = time.monotonic() - child.began
        if child.favoured and age > FAVOURED_SECONDS:
            child.favoured = False
            os.setpriority(
                os.PRIO_PROCESS, child.pid, max(YIELDING_NICENESS, os.getpriority(os.PRIO_PROCESS, child.pid))
            )
        if age > child.limits.busy_seconds and _cpu_seconds(child.pid) > child.limits.cpu_seconds * LEAST_SHARE:
            child.overdue = True
            os.kill(child.pid, signal.SIGKILL)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a child that has not been waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _run_child(function: Work, command: StartChild, order: int, output: int, source: int = STDIN) -> None:
    """Run the work in the child process, and exit."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(order, STDIN)
        os.dup2(output, STDOUT)
        confine(Limits(command.memory_bytes, command.cpu_seconds), {STDIN, STDOUT, source})
        run_work(function, source)
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    except SandboxUnavailable:
        status = UNCONFINED
    finally:
        os._exit(status)
