"""Builds the shipped images, on public base images or, where these can't be pulled, on stand-ins made of Debian."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from infra.install.python_packages import LOCKS, torch_lock
from infra.install.step import ROOT
from tests.containers.podman import CommandFailed, Podman

DOCKERFILE = ROOT / "infra" / "containers" / "Dockerfile"
STAND_INS = Path(__file__).parent / "stand_ins"
TARGETS = ("assistant", "billing", "gateway", "proxy", "store", "worker")
DEBIAN = "localhost/headrace-debian"
STAND_IN = "localhost/headrace-stand-in"
NPM = "npm@10.8.2"
"""The npm that `node:20` images have; Debian's is older."""
PYTHON_PACKAGES = ("python3", "python3-venv", "ca-certificates")
LOCKS_OF_IMAGES = ("build", "sbom", "assistant", "billing", "gateway", "proxy", "store", "images")


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long the block took."""
    begin = time.monotonic()
    yield
    print(f"containers: {what}: {time.monotonic() - begin:.0f} s", flush=True)


def base_images() -> list[str]:
    """Return the public images that the shipped Dockerfile is built on."""
    return re.findall(r"^FROM (\S+:\S+) AS", DOCKERFILE.read_text(), re.MULTILINE)


def debian_mirror() -> str:
    """Return the address of the Debian mirror that this machine's apt is configured with."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Identifier: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    mirrors = [line.split()[1] for line in listed.splitlines() if line.startswith("Debian ")]
    if not mirrors:
        raise CommandFailed("apt has no Debian mirror, so no base images can be made: run `apt-get update`")
    return mirrors[0]


class Images:
    """Makes all images in a private Podman; what is there already is not made again."""

    def __init__(self, podman: Podman, folder: Path) -> None:
        self._podman = podman
        self._folder = folder
        self._wheels = folder / "wheels"
        self.torch = ""
        """The build of PyTorch in the worker's image: cpu or cuda."""

    def build_all(self, third_party: Iterable[str]) -> dict[str, str]:
        """Build the shipped images; return the stand-ins of those third-party images that can't be pulled, by name."""
        wanted = {*base_images(), *third_party}
        missing = [name for name in sorted(wanted) if not self._pull(name)]
        with ThreadPoolExecutor(3) as threads, timed("base images and wheels"):
            python = threads.submit(self._make_python, [name for name in missing if "python" in name])
            others = threads.submit(self._make_others, [name for name in missing if "python" not in name])
            threads.submit(self._download_wheels).result()
            python.result()
            stand_ins = others.result()
        with timed("shipped images"):
            self._build("sbom")
            with ThreadPoolExecutor(2) as threads:
                builds = [threads.submit(self._build, target) for target in reversed(TARGETS)]
                for build in builds:
                    build.result()
        return {name: stand_ins[name] for name in missing if name not in base_images()}

    def size(self, image: str) -> int:
        """Return an image's size in bytes, with its base."""
        return int(json.loads(self._podman.podman("image", "inspect", image))[0]["Size"])

    def _pull(self, name: str) -> bool:
        return self._podman.succeeds("image", "exists", public_name(name)) or self._podman.succeeds(
            "pull", "--quiet", public_name(name)
        )

    def _make_python(self, names: list[str]) -> None:
        for name in names:
            suite = name.rpartition("-")[2]
            root = self._debootstrap(suite, PYTHON_PACKAGES)
            (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
            self._podman.import_image(root, public_name(name))
            shutil.rmtree(root)

    def _make_others(self, names: list[str]) -> dict[str, str]:
        """Make the stand-ins for images other than Python's; return their names by that of the public image."""
        if not names:
            return {}
        if not self._podman.succeeds("image", "exists", f"{DEBIAN}:trixie"):
            root = self._debootstrap("trixie", ("ca-certificates",))
            self._podman.import_image(root, f"{DEBIAN}:trixie")
            shutil.rmtree(root)
        context = self._folder / "npm"
        shutil.rmtree(context, ignore_errors=True)
        context.mkdir()
        (archive,) = subprocess.run(
            ["npm", "pack", "--silent", NPM], cwd=context, capture_output=True, text=True, check=True
        ).stdout.split()
        self._podman.run("tar", "-xf", archive, cwd=context)
        (context / "package").rename(context / "npm")
        stand_ins = {}
        for name in names:
            target = re.sub(r":.*", "", name).rpartition("/")[2]
            stand_ins[name] = public_name(name) if name in base_images() else f"{STAND_IN}/{target}"
            self._buildah(STAND_INS / "Dockerfile", target, stand_ins[name], context)
        return stand_ins

    def _debootstrap(self, suite: str, packages: Iterable[str]) -> Path:
        root = self._folder / f"root-{suite}"
        shutil.rmtree(root, ignore_errors=True)
        include = f"--include={','.join(packages)}"
        self._podman.run("debootstrap", "--variant=minbase", include, suite, str(root), debian_mirror(), timeout=1200)
        return root

    def _download_wheels(self) -> None:
        """Download the locked wheels with this machine's pip, whose configuration then holds for the builds too."""
        self._wheels.mkdir(exist_ok=True)
        lock = torch_lock(Path(sys.executable), self._folder / "wheels.log")
        self.torch = lock.stem.removeprefix("torch-")
        for names in ([lock.stem], LOCKS_OF_IMAGES):  # pip verifies all hashes or none
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            requirements = [word for name in names for word in ("--requirement", str(LOCKS / f"{name}.txt"))]
            self._podman.run(*download, "--dest", str(self._wheels), *requirements, timeout=1800)
        (self._folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")

    def _build(self, target: str) -> None:
        volumes = {self._wheels: "/wheels", self._folder / "pip.conf": "/etc/pip.conf"}
        arguments = {"TORCH": self.torch, "NPM_CONFIG_REGISTRY": _npm_setting("registry")}
        if certificates := _npm_setting("cafile"):
            volumes[Path(certificates)] = arguments["NPM_CONFIG_CAFILE"] = "/etc/build-certificates.pem"
        mounts = [word for source, place in volumes.items() for word in ("--volume", f"{source}:{place}:ro")]
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        self._buildah(DOCKERFILE, target, f"localhost/headrace/{target}", ROOT, [*mounts, *given])

    def _buildah(self, dockerfile: Path, target: str, image: str, context: Path, options: Iterable[str] = ()) -> None:
        build = ["buildah", "bud", "--isolation", "chroot", "--layers", "--file", str(dockerfile), "--target", target]
        with timed(f"image {image}"):
            self._podman.run(*build, *options, "--tag", image, str(context), timeout=1800)


def public_name(name: str) -> str:
    """Return the full name of a public image: `docker.io/library/python:...` for `python:...`."""
    return f"docker.io/{name}" if "/" in name else f"docker.io/library/{name}"


def _npm_setting(name: str) -> str:
    value = subprocess.run(["npm", "config", "get", name], capture_output=True, text=True, check=True).stdout.strip()
    return "" if value in ("null", "undefined") else value
