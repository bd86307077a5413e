"""Socket by which `headrace up --workers`, `stop`, `start` and `restart` send commands to the running launcher.

A Unix socket in the home's `run/`, so only users with access to the home can send commands. One JSON line each way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from infra.home.home import Home
from runtime.lifecycle import StartupError

SOCKET = "launcher.sock"


class Command(msgspec.Struct, frozen=True):
    """A command to the launcher: `workers` is for `scale`, `name` (a process) for the other commands."""

    do: Literal["scale", "stop", "start", "restart"]
    name: str = ""
    workers: int = 0


class CommandResult(msgspec.Struct, frozen=True):
    """Result of a command, with a message for the operator."""

    ok: bool
    message: str


class CommandRejected(Exception):
    """Raised when a command can't be executed now; the message says why."""


Handler = Callable[[Command], Awaitable[str]]


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Yield a path of the socket that fits into the 108 bytes of `sun_path`, also for a long home path (Linux)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        through = Path(f"/proc/self/fd/{descriptor}")
        yield str((through if through.exists() else folder) / SOCKET)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def listening(home: Home, handle: Handler) -> AsyncIterator[None]:
    """While the context lasts, pass commands that arrive at the socket of `home` to `handle`, and send its results."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await _answer(await reader.readline(), handle)
            writer.write(msgspec.json.encode(reply) + b"\n")
            await writer.drain()
        except ConnectionError:
            pass  # the client has disconnected; the command is executed anyway
        finally:
            writer.close()

    (home.run / SOCKET).unlink(missing_ok=True)
    with _short(home.run) as path:
        server = await asyncio.start_unix_server(answer, path)
        (home.run / SOCKET).chmod(0o600)
        try:
            yield
        finally:
            server.close()
            (home.run / SOCKET).unlink(missing_ok=True)


async def _answer(line: bytes, handle: Handler) -> CommandResult:
    try:
        return CommandResult(True, await handle(msgspec.json.decode(line, type=Command)))
    except (CommandRejected, StartupError) as error:
        return CommandResult(False, str(error))
    except msgspec.DecodeError as error:
        return CommandResult(False, f"not a command: {error}")


def send_command(home: Home, command: Command) -> str:
    """Send a command to the launcher that runs in `home`, wait for its result, and return the result's message.

    Raises:
        StartupError: no launcher runs there, or it rejected the command.
    """
    try:
        with _short(home.run) as path, socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(msgspec.json.encode(command) + b"\n")
            with connection.makefile("rb") as lines:
                answer = msgspec.json.decode(lines.readline(), type=CommandResult)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise StartupError(f"no platform runs in {home.path}: start one with `headrace up`") from error
    except (ConnectionError, msgspec.DecodeError) as error:
        raise StartupError("the launcher ended before it answered") from error
    if not answer.ok:
        raise StartupError(answer.message)
    return answer.message
