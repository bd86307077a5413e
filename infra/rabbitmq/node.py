"""A private RabbitMQ node as a child process: for tests and for the platform on one machine.

RabbitMQ is configured by environment variables and files below one directory, so several nodes run side by side,
independent of the system service: separate node name, ports, cookie, data and `epmd` (Erlang's port mapper). The
children run in separate sessions, so Ctrl-C in the terminal reaches only this process, which stops them in order, at
exit too.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from infra.rabbitmq import definitions
from infra.rabbitmq.errors import BrokerFailed, BrokerNotInstalled

_CONFIG_TEMPLATE = Path(__file__).with_name("rabbitmq.conf")
_DEBIAN_PROGRAMS = Path("/usr/lib/rabbitmq/bin")
"""Directory of the real scripts: Debian's `rabbitmq-server` on the PATH switches to the user `rabbitmq`."""
_PLUGINS = "[rabbitmq_management,rabbitmq_prometheus].\n"
_NO_BUSY_WAITING = "+sbwt none +sbwtdcpu none +sbwtdio none"
"""Erlang flags against busy waiting of idle schedulers: other processes need the cores."""
_CTL_TIMEOUT = 60.0
_STOP_TIMEOUT = 30.0


@dataclass(frozen=True)
class NodePorts:
    """TCP ports of one node, all on the loopback interface."""

    amqp: int
    management: int
    prometheus: int
    distribution: int
    epmd: int


def find_program(name: str) -> Path:
    """Return the path of RabbitMQ's script `name`.

    Raises:
        BrokerNotInstalled: it is not found, or Erlang is missing.
    """
    debian = _DEBIAN_PROGRAMS / name
    found = str(debian) if debian.exists() else shutil.which(name)
    if found is None or shutil.which("erl") is None:
        raise BrokerNotInstalled(
            f"{name} is not installed; on Debian: apt-get install rabbitmq-server (needs root), "
            "or set HEADRACE_AMQP_URL to a broker that runs already"
        )
    return Path(found)


class RabbitMQNode:
    """A private RabbitMQ node. `passwords` has one entry for each user of `definitions.permissions()`."""

    def __init__(
        self,
        home: Path,
        ports: NodePorts,
        passwords: Mapping[str, str],
        *,
        disk_free_limit: str = "2GB",
        start_timeout: float = 90.0,
    ) -> None:
        self.home = home.resolve()
        self.ports = ports
        self._passwords = dict(passwords)
        self._disk_free_limit = disk_free_limit
        self._start_timeout = start_timeout
        self._server: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Erlang name of the node, e.g. for `rabbitmqctl --node`."""
        return f"headrace-{self.ports.amqp}@localhost"

    @property
    def pid(self) -> int | None:
        """Process id of the broker while it runs, else `None`."""
        return self._server.pid if self._server is not None and self._server.poll() is None else None

    @property
    def log_path(self) -> Path:
        """Path of the broker's log."""
        return self.home / "log" / "rabbitmq.log"

    @property
    def management_url(self) -> str:
        """URL of the management console."""
        return f"http://127.0.0.1:{self.ports.management}"

    def amqp_url(self, user: str) -> str:
        """Return the AMQP URL for `user`. It contains the password: never log it."""
        return f"amqp://{user}:{self._passwords[user]}@127.0.0.1:{self.ports.amqp}/{definitions.VIRTUAL_HOST}"

    def start(self) -> None:
        """Start the node and wait until AMQP answers.

        Raises:
            BrokerNotInstalled: a program is missing.
            BrokerFailed: it did not start before the timeout; the message names the log.
        """
        server = find_program("rabbitmq-server")
        self._write_files()
        self._stop_leftovers()
        atexit.register(self.kill)
        self._epmd = self._spawn([shutil.which("epmd") or "epmd", "-port", str(self.ports.epmd)], "epmd.log")
        self._server = self._spawn([str(server)], "rabbitmq.log")
        (self.home / "server.pid").write_text(f"{self._server.pid} {self._epmd.pid}\n")
        try:
            self._wait_until_up()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the node gracefully and wait: connections are closed, data is flushed to disk."""
        self._end(self._server, signal.SIGTERM)
        self._end(self._epmd, signal.SIGTERM)
        self._forget()

    def kill(self) -> None:
        """Kill the node (SIGKILL), as a crash would. `start` restores its data."""
        self._end(self._server, signal.SIGKILL)
        self._end(self._epmd, signal.SIGKILL)
        self._forget()

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Write the node's files; return the command line and environment that run it, for a process supervisor.

        The process becomes the broker itself (each script `exec`s the next), with its `epmd` in the same process group.

        Raises:
            BrokerNotInstalled: a program is missing.
        """
        server = find_program("rabbitmq-server")
        self._write_files()
        script = 'epmd -port "$ERL_EPMD_PORT" & exec "$0"'
        return ["/bin/sh", "-c", script, str(server)], self._environment()

    def ctl(self, *arguments: str) -> str:
        """Run `rabbitmqctl` on this node and return its output.

        Raises:
            BrokerFailed: `rabbitmqctl` failed; the message has its output.
        """
        done = subprocess.run(
            [str(find_program("rabbitmqctl")), *arguments],
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=_CTL_TIMEOUT,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerFailed(f"rabbitmqctl {' '.join(arguments[:1])} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        return inherited | {
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.home),  # the Erlang cookie is read from here
            "ERL_EPMD_PORT": str(self.ports.epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_PORT": str(self.ports.amqp),
            "RABBITMQ_DIST_PORT": str(self.ports.distribution),
            "RABBITMQ_CTL_DIST_PORT_MIN": "35672",
            "RABBITMQ_CTL_DIST_PORT_MAX": "35872",
            "RABBITMQ_MNESIA_BASE": str(self.home / "data"),
            "RABBITMQ_LOG_BASE": str(self.home / "log"),
            "RABBITMQ_PID_FILE": str(self.home / "rabbitmq.pid"),
            "RABBITMQ_CONFIG_FILE": str(self.home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self.home / "no-such-file"),  # ignores the system service's file
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {{127,0,0,1}} {_NO_BUSY_WAITING}",
            # Makes the start script `exec` Erlang: the child process is then the broker, not a shell.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
        }

    def _write_files(self) -> None:
        (self.home / "log").mkdir(parents=True, exist_ok=True)
        cookie = self.home / ".erlang.cookie"
        if not cookie.exists():
            cookie.touch(mode=0o600)
            cookie.write_text(secrets.token_hex(20))
            cookie.chmod(0o400)
        definitions_path = self.home / "definitions.json"
        definitions_path.touch(mode=0o600)
        definitions_path.write_text(json.dumps(definitions.render(self._passwords), indent=1))
        (self.home / "enabled_plugins").write_text(_PLUGINS)
        config = _CONFIG_TEMPLATE.read_text()
        (self.home / "rabbitmq.conf").write_text(
            config.format(
                host="127.0.0.1",
                amqp_port=self.ports.amqp,
                management_port=self.ports.management,
                prometheus_port=self.ports.prometheus,
                definitions=definitions_path,
                disk_free_limit=self._disk_free_limit,
            )
        )

    def _spawn(self, command: list[str], log: str) -> subprocess.Popen[bytes]:
        with (self.home / "log" / log).open("ab") as output:
            return subprocess.Popen(
                command,
                env=self._environment(),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + self._start_timeout
        while not self._answers():
            if self.pid is None:
                raise BrokerFailed(f"RabbitMQ exited while starting; see {self.log_path}")
            if time.monotonic() > deadline:
                raise BrokerFailed(f"RabbitMQ did not answer within {self._start_timeout:.0f} s; see {self.log_path}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        """Whether the AMQP port opens a connection; RabbitMQ listens only after its boot steps are done."""
        try:
            with socket.create_connection(("127.0.0.1", self.ports.amqp), timeout=2) as connection:
                connection.sendall(b"AMQP\x00\x00\x09\x01")
                return connection.recv(1) == b"\x01"
        except OSError:
            return False

    def _stop_leftovers(self) -> None:
        """Stop the node that a killed process left running in this directory."""
        pid_file = self.home / "server.pid"
        if self._server is not None or not pid_file.exists():
            return
        for pid in pid_file.read_text().split():
            try:
                process = psutil.Process(int(pid))
                if process.environ().get("RABBITMQ_MNESIA_BASE") == str(self.home / "data"):
                    process.terminate()
                    process.wait(_STOP_TIMEOUT)
            except psutil.Error:
                continue

    def _end(self, process: subprocess.Popen[bytes] | None, number: signal.Signals) -> None:
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _forget(self) -> None:
        self._server = self._epmd = None
        (self.home / "server.pid").unlink(missing_ok=True)
        atexit.unregister(self.kill)
