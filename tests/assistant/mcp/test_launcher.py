"""Processes of MCP servers: they end with the process that started them, and have the listed environment."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from assistant.mcp.launcher import parameters

STARTER = """
import subprocess, sys, time
from assistant.mcp.launcher import parameters
script = "import os, time; print(os.getpid(), sorted(os.environ), flush=True); time.sleep(60)"
started = parameters([sys.executable, "-c", script], {"A": "1"})
subprocess.Popen([started.command, *started.args], env={"HOME": "/", **started.env})
time.sleep(60)
"""


async def test_a_server_ends_with_a_killed_assistant() -> None:
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STARTER, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert starter.stdout is not None
    number, names = (await starter.stdout.readline()).decode().split(" ", 1)
    assert "HOME" not in names
    assert "'A'" in names
    starter.send_signal(signal.SIGKILL)
    await starter.wait()
    async with asyncio.timeout(10):
        while _runs(int(number)):
            await asyncio.sleep(0.02)


def test_the_command_is_not_read_by_a_shell() -> None:
    assert parameters(["a b", "$(c)"], {}).args[-2:] == ["a b", "$(c)"]


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
