"""Installs RabbitMQ on Debian if it is missing and this process is root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping

from infra.rabbitmq.errors import BrokerFailed, BrokerNotInstalled
from infra.rabbitmq.node import find_program


def ensure_installed(print_line: Callable[[str], None]) -> None:
    """Install Debian's `rabbitmq-server` if it is missing.

    Raises:
        BrokerNotInstalled: it is missing and this process is not root; the message says what to run.
        BrokerFailed: `apt-get` failed.
    """
    try:
        find_program("rabbitmq-server")
    except BrokerNotInstalled:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise
        print_line("RabbitMQ is not installed: apt-get install rabbitmq-server (about a minute) ...")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        _run(["apt-get", "update"], environment)
        _run(["apt-get", "install", "-y", "--no-install-recommends", "rabbitmq-server"], environment)
        find_program("rabbitmq-server")


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
        raise BrokerFailed(f"`{' '.join(command[:2])}` failed: {last[0]}")
