"""What the shipped images have in them."""

from __future__ import annotations

import json
import re

import pytest

from infra.install.python_packages import LOCKS
from tests.containers.conftest import Built
from tests.containers.images import TARGETS, base_images, public_name

WITHOUT_TORCH = ("assistant", "billing", "gateway", "proxy")
LARGEST = {"assistant": 600_000_000, "gateway": 400_000_000}
"""Bytes that an image without PyTorch may add to its base, if more than 250 MB.

The assistant has SciPy and SymPy; the gateway has NumPy, parsers of documents, text recognition and dictionaries for
their search.
"""
KERNELS = """
from inference_worker.engine.native.build import built_library, own_instruction_sets
print(*(built_library(kind.name).name.split("-")[1] for kind in own_instruction_sets()))
"""


def run(built: Built, target: str, *command: str) -> str:
    """Run a program in an image, confined as in docker-compose.yml, and return its output."""
    confined = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--network", "none"]
    program, *arguments = command
    image = f"localhost/headrace/{target}"
    return built.podman.podman("run", "--rm", *confined, "--entrypoint", program, image, *arguments)


def bill_of_materials(built: Built, target: str) -> dict[str, list[object]]:
    """The Python packages that an image lists, with their licences."""
    listed = json.loads(run(built, target, "cat", "/usr/share/sbom/python.cdx.json"))
    return {normalised(each["name"]): each.get("licenses", []) for each in listed["components"]}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: str) -> set[str]:
    """The packages of a lock that are installed on Linux and Python 3.11."""
    lines = re.findall(r"^([a-z0-9.-]+)==\S+(.*)", (LOCKS / f"{lock}.txt").read_text(), re.MULTILINE)
    return {normalised(name) for name, marker in lines if not re.search("win32|Windows|darwin|python_full", marker)}


@pytest.mark.parametrize("target", WITHOUT_TORCH)
def test_a_service_without_a_model_is_small(built: Built, target: str) -> None:
    (python,) = (name for name in base_images() if name.startswith("python:"))
    added = built.images.size(f"localhost/headrace/{target}") - built.images.size(public_name(python))
    print(f"containers: headrace/{target} adds {added / 1e6:.0f} MB to its base")
    assert added < LARGEST.get(target, 250_000_000)
    assert not [name for name in bill_of_materials(built, target) if re.match(r"torch|triton|nvidia|cuda", name)]


def test_a_worker_for_cpus_has_no_cuda(built: Built) -> None:
    print(f"containers: headrace/worker has {built.images.size('localhost/headrace/worker') / 1e6:.0f} MB")
    if built.images.torch != "cpu":
        pytest.skip("this machine's pip selects PyTorch for CUDA")
    packages = bill_of_materials(built, "worker")
    assert "torch" in packages
    assert not [name for name in packages if re.match(r"triton|nvidia|cuda", name)]
    assert run(built, "worker", "sh", "-c", "command -v g++ gcc || echo none") == "none\n"


@pytest.mark.parametrize("target", TARGETS)
def test_packages_and_licences_are_listed(built: Built, target: str) -> None:
    packages = bill_of_materials(built, target)
    assert locked(target) <= set(packages)
    assert [name for name, licences in packages.items() if not licences] == []
    assert "libc6 " in run(built, target, "cat", "/usr/share/sbom/debian.txt")


def test_the_gateway_recognises_text_in_english_and_polish(built: Built) -> None:
    loaded = "from documents.parsing.tesseract import Tesseract; print(bool(Tesseract('eng+pol')))"
    assert run(built, "gateway", "python", "-c", loaded) == "True\n"
    assert "libtesseract5 " in run(built, "gateway", "cat", "/usr/share/sbom/debian.txt")


def test_the_page_lists_its_packages(built: Built) -> None:
    listed = json.loads(run(built, "gateway", "cat", "/usr/share/sbom/page.cdx.json"))
    assert len(listed["components"]) > 10
    assert [each["name"] for each in listed["components"] if not each.get("licenses")] == []


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_is_not_run_by_root(built: Built, target: str) -> None:
    assert run(built, target, "id", "-u") == "10001\n"
    assert run(built, target, "sh", "-c", "touch /srv/headrace/x 2>/dev/null || echo refused") == "refused\n"


def test_a_worker_has_the_packages_of_models_of_images(built: Built) -> None:
    assert {"diffusers", "pillow"} <= set(bill_of_materials(built, "worker"))
    run(built, "worker", "python", "-c", "import diffusers, PIL.Image")


def test_kernels_for_every_processor_are_found_without_a_compiler(built: Built) -> None:
    assert run(built, "worker", "python", "-c", KERNELS).split() == ["amx", "avx512bf16", "avx512", "avx2"]
