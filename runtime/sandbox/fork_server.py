"""Runs pieces of untrusted work in confined children of one process, which has imported the work's code already.

`process.run` imports the work anew for each piece; where the import takes longer than the work, a fork server saves it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

import msgspec

from runtime.sandbox import interpreter
from runtime.sandbox.child import NO_SOURCE
from runtime.sandbox.exchange import PIECE, exchange
from runtime.sandbox.fork_server_main import MAX_COMMAND_BYTES, ChildEnded, Command, KillChild, StartChild
from runtime.sandbox.limits import WorkFailed, WorkLimits
from runtime.sandbox.process import open_for_reading

IDLE_SECONDS = 300.0
"""Seconds without work after which the process ends; the next work starts it again."""
_LOST = 1
"""Exit status of children whose fork server has ended."""


class ForkServer:
    """Runs the function `work` (`MODULE:NAME`, see `child.Work`) in children of one process. Use it on one event loop.

    With `argument` the function is no work but makes it: the fork server's process, which is not confined, calls it
    with `argument` once, and it returns the work.

    The process starts with the first piece of work, and ends when it was idle for `idle_seconds`.
    """

    def __init__(self, work: str, argument: str | None = None, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._arguments = (work,) if argument is None else (work, argument)
        self._idle_seconds = idle_seconds
        self._server: _Server | None = None
        self._running = 0
        self._stopping: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the fork server's running process; `None` while it does not run."""
        return self._server.pid if self._server is not None and self._server.alive else None

    async def run(self, limits: WorkLimits, order: bytes = b"", source: int = NO_SOURCE) -> AsyncGenerator[bytes, None]:
        """Run one piece of work, with input `order`, in a confined child; yield its messages.

        Close the iterator to cancel it. `source` is the descriptor of an open file, as in `process.run`.

        Raises:
            SandboxUnavailable: this machine can't confine processes.
            LimitExceeded: the work exceeded one of `limits`; messages before are complete.
            WorkFailed: the work raised an exception or crashed, or the fork server ended.
        """
        self._running += 1
        if self._stopping is not None:
            self._stopping.cancel()
            self._stopping = None
        try:
            if self._server is None or not self._server.alive:
                self._server = _Server(*self._arguments)
            child = await self._server.start_child(limits, source)
            async with aclosing(exchange(child, limits, order)) as messages:
                async for message in messages:
                    yield message
        finally:
            self._running -= 1
            if not self._running:
                self._stopping = asyncio.get_running_loop().call_later(self._idle_seconds, self.close)

    def close(self) -> None:
        """End the fork server's process with its children; a later `run` starts another process."""
        if self._stopping is not None:
            self._stopping.cancel()
            self._stopping = None
        if self._server is not None:
            self._server.close()
            self._server = None


class _Server:
    """One run of the fork server's process."""

    def __init__(self, *arguments: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._commands, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._commands.setblocking(False)
        with other_end:
            self._process = interpreter.start(
                "runtime.sandbox.fork_server_main:main", *arguments, stdin=other_end.fileno()
            )
        self._finish = weakref.finalize(self, _finish, self._process, self._commands)
        self._children: dict[int, _Child] = {}
        self._number = 0
        self.alive = True
        self._loop.add_reader(self._commands, _weakly(self))

    @property
    def pid(self) -> int:
        """Process id of the fork server."""
        return self._process.pid

    async def start_child(self, limits: WorkLimits, source: int) -> _Child:
        """Have the fork server fork a child confined to `limits`; return the child, connected to its pipes.

        The child gets the file `source`, a descriptor or `NO_SOURCE`, for reading.

        Raises:
            WorkFailed: the fork server's process has ended.
        """
        order_end, order = os.pipe()
        output, output_end = os.pipe()
        self._number += 1
        number = self._number
        command = StartChild(number, limits.memory_bytes, limits.cpu_seconds, limits.busy_seconds)
        child = self._children[number] = _Child(self, number)
        files = [order_end, output_end]
        try:
            if source != NO_SOURCE:
                files.append(open_for_reading(source))
            await child.connect(order, output)
            self.send(command, *files)
        except BaseException:
            self._children.pop(number, None)
            child.abandon()
            raise
        finally:
            for each in files:
                os.close(each)
        return child

    def send(self, command: Command, *files: int) -> None:
        """Send a command, with the open files that go with it, to the fork server's process.

        Raises:
            WorkFailed: the fork server's process has ended.
        """
        try:
            socket.send_fds(self._commands, [msgspec.msgpack.encode(command)], list(files))
        except OSError as error:
            raise WorkFailed("its fork server has ended") from error

    def receive(self) -> None:
        """Read the fork server's next report, and record the end of that child.

        If the process has ended, record the end of all its children.
        """
        try:
            message = self._commands.recv(MAX_COMMAND_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self.close()
            return
        ended = msgspec.msgpack.decode(message, type=ChildEnded)
        child = self._children.pop(ended.number, None)
        if child is not None:
            child.end(ended.status)

    def close(self) -> None:
        """Kill the fork server's process; its children are recorded as ended with status 1. Idempotent."""
        if not self.alive:
            return
        self.alive = False
        if not self._loop.is_closed():
            self._loop.remove_reader(self._commands)
        self._finish()
        for child in self._children.values():
            child.end(_LOST)
        self._children.clear()


def _weakly(server: _Server) -> Callable[[], None]:
    """Return a callback that does not keep a server alive, so that one which is dropped ends its process."""
    reference = weakref.ref(server)

    def receive() -> None:
        if (found := reference()) is not None:
            found.receive()

    return receive


def _finish(process: subprocess.Popen[bytes], commands: socket.socket) -> None:
    commands.close()
    process.kill()
    process.wait()


class _Child:
    """A child of a fork server, as `exchange.Running`."""

    def __init__(self, server: _Server, number: int) -> None:
        self._server = server
        self._number = number
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.stdin: asyncio.WriteTransport | None = None
        self.stdout: asyncio.StreamReader | None = None
        self._reading: asyncio.ReadTransport | None = None

    @property
    def returncode(self) -> int | None:
        """Exit status of the child, or minus the signal that ended it; `None` while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def connect(self, order: int, output: int) -> None:
        """Open the child's pipes from the descriptors `order` (becomes `stdin`) and `output` (becomes `stdout`)."""
        loop = asyncio.get_running_loop()
        self.stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(order, "wb", buffering=0))
        stdout = asyncio.StreamReader(limit=PIECE)
        reading = asyncio.StreamReaderProtocol(stdout)
        self._reading, _ = await loop.connect_read_pipe(lambda: reading, os.fdopen(output, "rb", buffering=0))
        self.stdout = stdout

    def abandon(self) -> None:
        """Close the pipes of a child that the fork server did not start."""
        for transport in (self.stdin, self._reading):
            if transport is not None:
                transport.close()

    def end(self, status: int) -> None:
        """Record the exit status with which the child has ended, and wake the callers of `wait`."""
        if not self._ended.done():
            self._ended.set_result(status)

    async def wait(self) -> int:
        """Wait until the child has ended, and return its exit status."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Have the fork server kill the child; does nothing if the fork server has ended."""
        with suppress(WorkFailed):
            self._server.send(KillChild(self._number))
