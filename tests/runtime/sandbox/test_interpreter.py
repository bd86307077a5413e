"""Interpreters for untrusted work: what they get of the process that starts them, and their end with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from inference_worker.structured.sandbox import GrammarSandbox
from inference_worker.worker.vision.image_reader import ImageReader
from runtime.sandbox import interpreter
from tests.inference_worker.structured.test_matchers import VOCABULARY


def show(argument: str) -> None:
    """Send the argument, the environment, the working directory and the open descriptors, until the connection ends."""
    pipe = interpreter.parent_connection()
    descriptors = [int(each) for each in os.listdir("/proc/self/fd")]
    pipe.send_bytes(msgspec.msgpack.encode([argument, dict(os.environ), str(Path.cwd()), sorted(descriptors)]))
    pipe.poll(None)


def test_a_function_gets_its_arguments_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONTROL_SECRET", "secret")
    left, right = socket.socketpair()
    with left, right:
        left.set_inheritable(True)
        process, pipe = interpreter.start_connected(f"{__name__}:show", "an argument: of two words")
        argument, environment, folder, descriptors = msgspec.msgpack.decode(pipe.recv_bytes())
    assert (argument, folder) == ("an argument: of two words", "/")
    assert "secret" not in str(environment)
    assert len(descriptors) == 5  # the standard files, the connection, and the folder that is listed
    pipe.close()
    assert process.wait(60) == 0


def start_grammars() -> tuple[Callable[[], None], int]:
    """Start the process that checks grammars; return what closes it, and its id."""
    grammars = GrammarSandbox(VOCABULARY)
    grammars.start()
    assert grammars._process is not None
    return grammars.close, grammars._process._process.pid


def start_images(folder: str) -> tuple[Callable[[], None], int]:
    """Start the process that reads images; return what closes it, and its id."""
    reader = ImageReader(Path(folder))
    reader.start()
    assert reader._running is not None
    return reader.close, reader._running[0].pid


@pytest.mark.parametrize("kind", ["grammars", "images"])
def test_processes_that_read_untrusted_bytes_have_no_secrets(
    kind: str, monkeypatch: pytest.MonkeyPatch, vision_folder: Path
) -> None:
    monkeypatch.setenv("HEADRACE_CONTROL_SECRET", "secret")
    close, pid = start_grammars() if kind == "grammars" else start_images(str(vision_folder))
    assert b"HEADRACE" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    close()
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("kind", ["grammars", "images"])
def test_a_worker_that_is_killed_leaves_none(kind: str, vision_folder: Path) -> None:
    started = "start_grammars()" if kind == "grammars" else f"start_images({str(vision_folder)!r})"
    code = f"from {__name__} import *; print({started}[1], flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    worker = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        stdout=subprocess.PIPE,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert worker.returncode == -signal.SIGKILL
    while psutil.pid_exists(int(worker.stdout)):
        time.sleep(0.05)
