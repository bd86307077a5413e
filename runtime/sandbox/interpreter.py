"""Starts fresh Python interpreters for work on untrusted bytes, with an empty environment and no open files.

Their working directory is `/`, and files stay open only if they are passed.
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
    """Return the command line of a fresh Python that calls `function` (`MODULE:NAME`) with `arguments` and exits.

    The interpreter ignores the environment and the user's packages; it imports what this process can import.
    """
    paths = ":".join(path or os.getcwd() for path in sys.path)
    return [sys.executable, "-I", "-c", _START, paths, *function.split(":"), *arguments]


def start(function: str, *arguments: str, stdin: int) -> subprocess.Popen[bytes]:
    """Start a fresh Python that calls `function` (`MODULE:NAME`), with descriptor `stdin` as its standard input.

    Its environment is empty. What it writes to standard error until it is confined appears in this process's logs.
    """
    return subprocess.Popen(command(function, *arguments), stdin=stdin, stdout=subprocess.DEVNULL, **EMPTY)


def start_connected(function: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a fresh Python interpreter that calls `function` (`MODULE:NAME`).

    Return the process and a connection to it. The function gets its end by `parent_connection`, and must end when that
    is closed, as by this process's death.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = start(function, *arguments, stdin=theirs.fileno())
    return process, Connection(ours.detach())


def parent_connection() -> Connection:
    """Return the connection to the parent process; call it in a process that `start_connected` started."""
    return Connection(os.dup(STDIN))
