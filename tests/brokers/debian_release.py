"""RabbitMQ of another Debian release than this machine's: installed in a folder, started by `chroot`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from runtime.lifecycle import StartupError

_PROGRAMS = {
    "rabbitmq-server": "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "rabbitmqctl": "/usr/lib/rabbitmq/bin/rabbitmqctl",
    "epmd": "/usr/bin/epmd",
    "erl": "/usr/bin/erl",
}
"""Programs by the names under which `RabbitMQNode` starts them."""

_WRAPPER = """#!/bin/sh
# Runs {program} of {root}. The mounts are those of this process alone. Each command is replaced by the next, so that
# the process id stays.
mkdir -p {root}"$HOME"
exec unshare --mount -- sh -c '
    mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --bind "$HOME" "$0$HOME" || exit 1
    exec chroot "$0" "$@"
' {root} {program} "$@"
"""


def install(release: str, folder: Path) -> Path:
    """Install a Debian release with its RabbitMQ in `folder` unless it is there; about a minute and 400 MB.

    Returns the directory of scripts that run this RabbitMQ; to be put first on the `PATH`.

    Raises:
        StartupError: this process is not root, `debootstrap` is missing, or it failed.
    """
    root, programs = folder / "root", folder / "bin"
    if not programs.exists():
        if os.geteuid() != 0 or shutil.which("debootstrap") is None:
            raise StartupError("another release's RabbitMQ needs root and debootstrap (apt-get install debootstrap)")
        shutil.rmtree(root, ignore_errors=True)  # of an installation that was interrupted
        root.mkdir(parents=True)
        command = ["debootstrap", "--variant=minbase", "--include=rabbitmq-server", release, str(root)]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            raise StartupError(f"debootstrap failed; see {root / 'debootstrap' / 'debootstrap.log'}")
        (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    programs.mkdir(exist_ok=True)
    for name, program in _PROGRAMS.items():
        script = programs / name
        script.write_text(_WRAPPER.format(root=shlex.quote(str(root)), program=program))
        script.chmod(0o755)
    return programs
