"""Fresh interpreters for work on untrusted bytes, which have nothing of the process that starts them to give away: an
empty environment, `/` as the working directory, and no open files but those that are passed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from typing import TypedDict

_START = (
    "import sys; sys.path[:] = sys.argv[1].split(':'); from importlib import import_module; "
    "getattr(import_module(sys.argv[2]), sys.argv[3])(*sys.argv[4:])"
)
STDIN = 0


class Surroundings(TypedDict):
    """Arguments of a process' start that keep the environment and the working directory of its parent from it."""

    cwd: str
    env: dict[str, str]


EMPTY: Surroundings = {"cwd": "/", "env": {}}


def command(function: str, *arguments: str) -> list[str]:
    """Return the command line of an interpreter that calls `function` (`MODULE:NAME`) and exits.

    The interpreter ignores the environment and the user's packages; it imports what this process can import.
    """
    paths = ":".join(path or os.getcwd() for path in sys.path)
    return [sys.executable, "-I", "-c", _START, paths, *function.split(":"), *arguments]


def start(function: str, *arguments: str, stdin: int) -> subprocess.Popen[bytes]:
    """Start an interpreter that calls `function`, with the file `stdin` as its standard input.

    What it writes to its standard error until it is confined appears among this process' logs.
    """
    return subprocess.Popen(command(function, *arguments), stdin=stdin, stdout=subprocess.DEVNULL, **EMPTY)


def start_connected(function: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start an interpreter that calls `function`, which gets its end of a connection by `parent_connection`.

    The function must end when its end is closed, as by this process' death.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = start(function, *arguments, stdin=theirs.fileno())
    return process, Connection(ours.detach())


def parent_connection() -> Connection:
    """Return the connection to the process that called `start_connected`."""
    return Connection(os.dup(STDIN))
