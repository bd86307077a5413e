"""Configures a private RabbitMQ node on loopback ports, for tests and for `headrace up`.

RabbitMQ is configured by environment variables and files below one directory, so several nodes run side by side,
independent of the system service: separate node name, ports, cookie, data and `epmd` (Erlang's port mapper).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.rabbitmq import definitions
from runtime.lifecycle import StartupError

_CONFIG_TEMPLATE = Path(__file__).with_name("rabbitmq.conf")
_DEBIAN_PROGRAMS = Path("/usr/lib/rabbitmq/bin")
"""Directory of the real scripts: Debian's `rabbitmq-server` on the PATH switches to the user `rabbitmq`."""
_PLUGINS = "[rabbitmq_management,rabbitmq_prometheus].\n"
_NO_BUSY_WAITING = "+sbwt none +sbwtdcpu none +sbwtdio none"
"""Erlang flags against busy waiting of idle schedulers: other processes need the cores."""


@dataclass(frozen=True)
class NodePorts:
    """TCP ports of one node, all on the loopback interface."""

    amqp: int
    management: int
    prometheus: int
    distribution: int
    epmd: int


class BrokerNotInstalled(StartupError):
    """Raised when `rabbitmq-server` or Erlang is not installed."""


def find_program(name: str) -> Path:
    """Return the path of RabbitMQ's program `name`: the first on the `PATH`, or Debian's real script.

    Raises:
        BrokerNotInstalled: it is not found, or Erlang is missing.
    """
    debian = _DEBIAN_PROGRAMS / name
    on_path = shutil.which(name)
    is_wrapper = on_path is None or Path(on_path).resolve().parent == _DEBIAN_PROGRAMS
    found = debian if is_wrapper and debian.exists() else on_path
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
    ) -> None:
        self.home = home.resolve()
        self.ports = ports
        self._passwords = dict(passwords)
        self._disk_free_limit = disk_free_limit

    @property
    def name(self) -> str:
        """Erlang name of the RabbitMQ node, e.g. for `rabbitmqctl --node`."""
        return f"headrace-{self.ports.amqp}@localhost"

    @property
    def management_url(self) -> str:
        """URL of the RabbitMQ node's management console."""
        return f"http://127.0.0.1:{self.ports.management}"

    def amqp_url(self, user: str) -> str:
        """Return the AMQP URL of this RabbitMQ node for `user`. It contains the password: never log it."""
        return f"amqp://{user}:{self._passwords[user]}@127.0.0.1:{self.ports.amqp}/{definitions.VIRTUAL_HOST}"

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Write the RabbitMQ node's configuration files; return the command line and environment that run it.

        The process becomes the broker itself (each script `exec`s the next), with its `epmd` in the same process group.

        Raises:
            BrokerNotInstalled: a program is missing.
        """
        server = find_program("rabbitmq-server")
        self._write_files()
        script = 'setpriv --pdeathsig KILL epmd -port "$ERL_EPMD_PORT" & exec "$0"'
        return ["/bin/sh", "-c", script, str(server)], self.environment()

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which RabbitMQ's programs, such as `rabbitmqctl`, find this node."""
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
