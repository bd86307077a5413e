"""A private Podman: images, containers, volumes and networks in a folder of its own, apart from those of the user."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path

from infra.install.step import StepFailed, apt_install, can_use_apt

PROGRAMS = {
    "podman": "podman",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "runc": "runc",
    "iptables": "iptables",
    "netavark": "netavark",
    "aardvark-dns": "aardvark-dns",
}
"""Debian package of each program that the tests need."""
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", "/usr/lib/podman"])
PROCESSES = 32768
"""Limit on a container's processes. Podman's own default is above what some machines allow."""

_STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
# No events: `podman system reset` removes the folder of their log while the writer may still be at work, and fails.
_CONTAINERS = """[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
runtime = "runc"
events_logger = "none"
tmp_dir = "{folder}/run/libpod"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""
_REGISTRIES = 'unqualified-search-registries = ["docker.io"]\n'


class CommandFailed(Exception):
    """Raised when a program fails; the message has its last output."""


def install_programs(log: Path) -> None:
    """Install the missing ones of `PROGRAMS`.

    Raises:
        StepFailed: some are missing, and this process is not root on Debian; the message names the packages.
    """
    missing = [package for name, package in PROGRAMS.items() if shutil.which(name, path=SEARCH_PATH) is None]
    if not missing:
        return
    if not can_use_apt():
        raise StepFailed(f"these programs are not installed: `sudo apt-get install {' '.join(missing)}`")
    apt_install(missing, log)


class Podman:
    """Runs `podman`, `buildah` and `podman-compose` with all their state below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "networks").mkdir(parents=True, exist_ok=True)
        files = {"storage": _STORAGE, "containers": _CONTAINERS, "registries": _REGISTRIES}
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        processes = min(PROCESSES, resource.getrlimit(resource.RLIMIT_NPROC)[1])
        for name, text in files.items():
            filled = text.format(folder=folder, files=limit, processes=processes)
            (folder / f"{name}.conf").write_text(filled)
        self.environment = {
            **os.environ,
            "PATH": SEARCH_PATH,
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
            "DISABLE_HC_SYSTEMD": "true",  # the tests run the health checks themselves
        }

    def run(self, *command: str, timeout: float = 600, cwd: Path | None = None) -> str:
        """Run a program with this Podman's environment and return its standard output.

        Raises:
            CommandFailed: it exited with another status than 0.
        """
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
            raise CommandFailed(f"`{' '.join(command[:6])} ...` exited with {done.returncode}:\n{output}")
        return done.stdout

    def podman(self, *arguments: str, timeout: float = 600) -> str:
        """Run `podman` and return its standard output. Raises `CommandFailed`."""
        return self.run("podman", *arguments, timeout=timeout)

    def succeeds(self, *arguments: str, timeout: float = 600) -> bool:
        """Whether `podman` with these arguments exits with 0 within `timeout` seconds."""
        try:
            self.podman(*arguments, timeout=timeout)
        except (CommandFailed, subprocess.TimeoutExpired):
            return False
        return True

    def import_image(self, root: Path, name: str) -> None:
        """Import the file system below `root` as the image `name`, without apt's caches."""
        leave_out = ["--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*"]
        with subprocess.Popen(["tar", "-C", str(root), *leave_out, "-c", "."], stdout=subprocess.PIPE) as archive:
            done = subprocess.run(
                ["podman", "import", "--quiet", "-", name],
                env=self.environment,
                stdin=archive.stdout,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode != 0:
            raise CommandFailed(f"`podman import {name}` failed: {done.stderr.strip()}")

    def remove_everything(self) -> None:
        """Remove all containers, volumes, networks and images of this Podman, and its folder."""
        self.podman("system", "reset", "--force")
        shutil.rmtree(self._folder, ignore_errors=True)
