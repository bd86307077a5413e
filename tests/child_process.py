"""A RabbitMQ node and an embedded store as child processes of the tests, which stop, kill and restart them.

On a platform the supervisor of a launcher runs the same commands.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.accounts.embedded_store import EmbeddedStore, StoreNotInstalled, answers
from infra.home.process_records import kill_group
from infra.launcher.processes import AMQP_GREETING, AMQP_METHOD_FRAME
from infra.launcher.readiness import port_answers_now
from infra.rabbitmq.node import BrokerNotInstalled, RabbitMQNode, find_program

START_TIMEOUT, STOP_TIMEOUT, CTL_TIMEOUT = 90.0, 30.0, 60.0


class ChildProcess:
    """A program that is started, stopped and killed by this process."""

    home: Path
    _process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> tuple[list[str], Mapping[str, str]]:
        """Return the command line and the environment."""

    @abstractmethod
    def _answers(self) -> bool: ...

    @property
    def pid(self) -> int | None:
        """Process id of the program while it runs, else `None`."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the program and wait until it answers."""
        argv, environment = self._command()
        log = self.home / "log" / "child.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        atexit.register(self.kill)
        with log.open("ab") as output:
            # A separate session: Ctrl-C reaches only the tests, which stop the program after its clients.
            self._process = subprocess.Popen(
                argv, cwd=self.home, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if self.pid is None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{argv[0]} did not start: see {log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the program gracefully; kill it after a timeout."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT)
            finally:
                self.kill()

    def kill(self) -> None:
        """Kill the program (SIGKILL), as a crash would. `start` restores its data."""
        process, self._process = self._process, None
        if process is not None:
            atexit.unregister(self.kill)
            kill_group(process.pid)
            process.wait()


class NodeProcess(ChildProcess, RabbitMQNode):
    """A RabbitMQ node that the tests run."""

    def _command(self) -> tuple[list[str], Mapping[str, str]]:
        return self.command()

    def _answers(self) -> bool:
        return port_answers_now(self.ports.amqp, AMQP_GREETING, AMQP_METHOD_FRAME)


class StoreProcess(ChildProcess, EmbeddedStore):
    """An embedded store that the tests run."""

    def _command(self) -> tuple[list[str], Mapping[str, str]]:
        return self.command()

    def _answers(self) -> bool:
        return answers(self.port)


def start_or_skip(child: ChildProcess) -> None:
    """Start the program; if it is not installed, skip the test, or fail it where `CI` is set."""
    try:
        child.start()
    except (BrokerNotInstalled, StoreNotInstalled) as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def rabbitmqctl(node: RabbitMQNode, *arguments: str) -> str:
    """Run `rabbitmqctl` on a node and return its output; raise `CalledProcessError` if it fails."""
    command = [str(find_program("rabbitmqctl")), *arguments]
    return subprocess.run(
        command, env=node.environment(), capture_output=True, text=True, timeout=CTL_TIMEOUT, check=True
    ).stdout
