"""One platform in containers for all tests of this folder; without `HEADRACE_TEST_CONTAINERS` they are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.install.models import MODEL_FILE
from infra.install.step import ROOT
from infra.launcher.readiness import free_port
from tests.containers.compose import Compose, environment_file, override_file, third_party_images
from tests.containers.images import Images, timed
from tests.containers.podman import Podman, install_programs

PROJECT = "headrace-test"
HOME = Path(os.environ.get("HEADRACE_HOME") or ROOT / ".headrace").resolve()


@dataclass(frozen=True)
class Built:
    """The images, and the names of the stand-ins for third-party images that can't be pulled."""

    podman: Podman
    images: Images
    stand_ins: dict[str, str]


@dataclass(frozen=True)
class Platform:
    """A healthy platform in containers."""

    compose: Compose
    origin: str
    """The URL of its page."""


@pytest.fixture(scope="package")
def built() -> Iterator[Built]:
    """The shipped images. In CI they are removed in the end, elsewhere they shorten the next run."""
    folder = HOME / "containers"
    folder.mkdir(parents=True, exist_ok=True)
    install_programs(folder / "programs.log")
    podman = Podman(folder)
    images = Images(podman, folder)
    yield Built(podman, images, images.build_all(third_party_images().values()))
    if os.environ.get("CI"):
        podman.remove_everything()


@pytest.fixture(scope="package")
def compose(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Compose, int]]:
    """A project that is not started yet, and the port of its gateway."""
    folder, port = tmp_path_factory.mktemp("compose"), free_port()
    override, environment = folder / "override.yml", folder / "env"
    override.write_text(override_file(built.stand_ins))
    environment.write_text(environment_file(port))
    compose = Compose(built.podman, PROJECT, override, environment)
    compose.remove()
    yield compose, port
    compose.remove()


@pytest.fixture(scope="package")
def platform(compose: tuple[Compose, int]) -> Platform:
    """The started platform, with the default model in its volume as docs/containers.md says."""
    project, port = compose
    volumes = ["--volume", f"{PROJECT}_models:/models", "--volume", f"{HOME / 'models'}:/from:ro"]
    copy = ["--user", "root", "--entrypoint", "cp", "localhost/headrace/worker", f"/from/{MODEL_FILE}", "/models/"]
    project.podman.podman("run", "--rm", *volumes, *copy)
    with timed("start until healthy"):
        project.up()
        project.wait_until_healthy()
    return Platform(project, f"http://127.0.0.1:{port}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these tests unless they are asked for: they take minutes and build images."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(2400))
            if not os.environ.get("HEADRACE_TEST_CONTAINERS"):
                item.add_marker(pytest.mark.skip(reason="`make containers-test`"))
