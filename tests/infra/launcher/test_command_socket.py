"""Commands to a running launcher, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infra.home.home import Home
from infra.launcher.command_socket import SOCKET, Command, CommandRejected, listening, send_command
from runtime.lifecycle import StartupError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / ("deep" * 40))  # longer than a socket's address may be
    home.prepare()
    return home


async def test_a_command_is_executed_and_answered(home: Home) -> None:
    heard: list[Command] = []

    async def handle(command: Command) -> str:
        heard.append(command)
        return "4 workers"

    async with listening(home, handle):
        assert (home.run / SOCKET).stat().st_mode & 0o077 == 0
        assert await asyncio.to_thread(send_command, home, Command("scale", workers=4)) == "4 workers"
    assert heard == [Command("scale", workers=4)]
    assert not (home.run / SOCKET).exists()


async def test_a_rejected_command_is_an_error_of_the_client(home: Home) -> None:
    async def handle(command: Command) -> str:
        raise CommandRejected(f"no process {command.name!r}")

    async with listening(home, handle):
        with pytest.raises(StartupError, match="no process 'worker-9'"):
            await asyncio.to_thread(send_command, home, Command("stop", "worker-9"))


def test_without_a_launcher_there_is_an_error(home: Home) -> None:
    with pytest.raises(StartupError, match="no platform runs"):
        send_command(home, Command("scale", workers=4))
