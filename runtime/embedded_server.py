"""Runs a uvicorn HTTP server inside a process that has its own event loop and signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator
from typing import Any

import uvicorn

from runtime.lifecycle import StartupError


class EmbeddedServer(uvicorn.Server):
    """A uvicorn server without signal handlers. `listening` is set once it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Override uvicorn's context manager so that it installs no signal handlers; the process has its own."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start uvicorn on the given listening sockets, then set `listening`; uvicorn calls this method when it serves.

        Raises:
            StartupError: the application does not start; uvicorn's log says why.
        """
        try:
            await super().startup(sockets=sockets)
        except SystemExit as exit_:  # from uvicorn, which ends its process; raised in a task, it would skip all cleanup
            raise StartupError("the application did not start; the log says why") from exit_
        if self.started:
            self.listening.set()


async def wait_for(event: asyncio.Event, *tasks: asyncio.Task[Any]) -> None:
    """Wait until `event` is set or one of `tasks`, such as an HTTP server's, has ended; cancels none of the tasks."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
