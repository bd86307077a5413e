"""`docker-compose.yml` run by podman-compose: settings, start, health, scaling, and access to containers."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.install.environment_file import fill_in
from infra.install.models import MODEL_FILE
from infra.install.step import ROOT
from tests.containers.podman import CommandFailed, Podman

SHIPPED = ROOT / "docker-compose.yml"
PROFILE = "embedded-store"
STOP_GRACE = 150
"""Seconds that a worker may take to drain, as in docker-compose.yml."""
_HEALTH_CHECK_SECONDS = 30
"""A health check that takes longer is run again: Podman before 5.5 waits without end if the container restarts."""
_MOST_RESTARTS = 5
"""Restarts from which a container is given up."""


def environment_file(port: int) -> str:
    """Return the content of an environment file as `make env` writes it, for the embedded store and a local model."""
    text = fill_in((ROOT / ".env.example").read_text())
    text = re.sub(r"^(COMPOSE_PROFILES|HEADRACE_MONGODB_URL)=", r"# \1=", text, flags=re.MULTILINE)
    text = re.sub(rf"^# (COMPOSE_PROFILES={PROFILE})$", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^# (HEADRACE_MONGODB_URL=mongodb://\S*@store:.*)$", r"\1", text, flags=re.MULTILINE)
    return f"{text}HEADRACE_MODEL=/models/{MODEL_FILE}\nHEADRACE_PORT={port}\n"


def third_party_images() -> dict[str, str]:
    """Return the images of the services in the tested profile that are not built here, by service."""
    services = yaml.safe_load(SHIPPED.read_text())["services"]
    return {
        name: service["image"]
        for name, service in services.items()
        if "build" not in service and set(service.get("profiles", [PROFILE])) & {PROFILE}
    }


def override_file(stand_ins: dict[str, str]) -> str:
    """Return a Compose file that gives the services whose image can't be pulled its stand-in, and changes no more."""
    services = {name: {"image": stand_ins[image]} for name, image in third_party_images().items() if image in stand_ins}
    return yaml.safe_dump({"services": services})


@dataclass(frozen=True)
class Compose:
    """The platform of one project, started from the shipped file and an override of images."""

    podman: Podman
    project: str
    override: Path
    environment: Path

    def __call__(self, *arguments: str, timeout: float = 600) -> str:
        """Run podman-compose and return its standard output. Raises `CommandFailed`."""
        return self._compose((SHIPPED, self.override), arguments, timeout)

    def configuration(self, *, overridden: bool) -> dict[str, Any]:
        """Return the configuration that podman-compose reads, with the override or without."""
        files = (SHIPPED, self.override) if overridden else (SHIPPED,)
        configuration: dict[str, Any] = yaml.safe_load(self._compose(files, ("config",), 60))
        return configuration

    def up(self) -> None:
        """Start everything from the images that are there."""
        self("up", "--detach", "--no-build")

    def exec(self, service: str, *command: str) -> str:
        """Run a command in a service's container and return its standard output."""
        return self("exec", "-T", service, *command).strip()

    def containers(self, service: str | None = None) -> list[str]:
        """Return the names of the containers, sorted."""
        filters = [f"label=com.docker.compose.project={self.project}"]
        filters += [f"label=com.docker.compose.service={service}"] if service else []
        options = [word for each in filters for word in ("--filter", each)]
        return sorted(self.podman.podman("ps", "--all", "--format", "{{.Names}}", *options).split())

    def running(self) -> list[str]:
        """Return the names of the containers that run."""
        return [name for name in self.containers() if self.inspect(name)["State"]["Running"]]

    def inspect(self, container: str) -> dict[str, Any]:
        """Return what Podman says of a container."""
        inspected: dict[str, Any] = json.loads(self.podman.podman("inspect", container))[0]
        return inspected

    def wait_until_healthy(self, timeout: float = 600) -> None:
        """Wait until the health check of each container that has one succeeds.

        Raises:
            TimeoutError: a container is not healthy before the timeout, or restarts again and again; the message has
                its log.
        """
        until = time.monotonic() + timeout
        for container in self.containers():
            if not self.inspect(container)["Config"].get("Healthcheck"):
                continue
            while not self.podman.succeeds("healthcheck", "run", container, timeout=_HEALTH_CHECK_SECONDS):
                if time.monotonic() > until or self.inspect(container).get("RestartCount", 0) >= _MOST_RESTARTS:
                    log = self.podman.run("sh", "-c", f"podman logs --tail 30 {container} 2>&1")
                    raise TimeoutError(f"{container} is not healthy:\n{log}")
                time.sleep(1)

    def scale_workers(self, count: int) -> None:
        """Run `count` workers; those above that drain and are removed, which podman-compose leaves to the user."""
        self("up", "--detach", "--no-build", "--no-recreate", "--scale", f"worker={count}", "worker")
        for container in self.containers("worker")[count:]:
            self.podman.podman("stop", "--time", str(STOP_GRACE), container)
            self.podman.podman("rm", container)

    def remove(self) -> None:
        """Remove the containers, volumes and networks."""
        if containers := self.containers():
            self.podman.podman("rm", "--force", "--time", "5", "--depend", *containers)
        for kind in ("volume", "network"):
            names = self.podman.podman(kind, "ls", "--format", "{{.Name}}").split()
            if own := [name for name in names if name.startswith(f"{self.project}_")]:
                self.podman.podman(kind, "rm", "--force", *own)

    def _compose(self, files: tuple[Path, ...], arguments: tuple[str, ...], timeout: float) -> str:
        program = str(Path(sys.executable).with_name("podman-compose"))
        if not Path(program).exists():
            raise CommandFailed("podman-compose is not installed: `make setup-dev`")
        options = [word for file in files for word in ("--file", str(file))]
        options += ["--project-name", self.project, "--env-file", str(self.environment)]
        return self.podman.run(program, *options, *arguments, timeout=timeout, cwd=ROOT)
