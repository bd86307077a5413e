"""The locks of Python packages agree with pyproject.toml, and each service's lock has what the service imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from infra.install.python_packages import LOCKS, STORE_PACKAGE
from infra.install.step import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FIRST_PARTY = {"gateway", "router", "inference_worker", "auth_billing", "chat_ui", "proxy", "infra", "runtime"} | {
    "assistant",
    "stored_objects",
    "documents",
}
SERVICES = ("gateway", "billing", "worker", "proxy", "assistant")
ABILITIES = ("images", "s3")
"""Extras beside those of the services."""
WITHOUT_TORCH = ("gateway", "billing", "proxy", "assistant")
HASHED = (*SERVICES, "images", "all", "dev", "build", "store", "sbom", "torch-cuda")
TORCH = re.compile(r"torch|triton|nvidia|cuda")


# --- The files ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Locked:
    """A package in a lock."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def version(self) -> Version:
        (pin,) = self.requirement.specifier
        assert pin.operator == "=="
        return Version(pin.version)


@cache
def read_lock(lock: str) -> dict[str, Locked]:
    packages = {}
    text = (LOCKS / f"{lock}.txt").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = line.split(" --hash=")
            locked = Locked(Requirement(requirement.strip()), tuple(value.strip() for value in hashes))
            assert locked.requirement.name not in packages, f"{locked.requirement.name} is in {lock}.txt twice"
            packages[locked.requirement.name] = locked
    return packages


def declared(lock: str) -> list[Requirement]:
    """The requirements of pyproject.toml that a lock has to satisfy."""
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    lines = list(project["dependencies"])
    for extra in {"all": SERVICES, "dev": (*SERVICES, *ABILITIES), "assistant": ("assistant", "s3")}.get(lock, (lock,)):
        lines += extras[extra]
    if lock == "dev":
        groups = PYPROJECT["dependency-groups"]
        lines += [line for name in ("dev", "bench", "sbom") for line in groups[name] if isinstance(line, str)]
    return [Requirement(line) for line in lines]


def test_all_is_every_service() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert extras.keys() == {"all", *SERVICES, *ABILITIES}
    assert extras["all"] == [f"headrace[{','.join(SERVICES)}]"]


@pytest.mark.parametrize("lock", [*SERVICES, "images", "all", "dev"])
def test_a_lock_satisfies_every_requirement(lock: str) -> None:
    packages = read_lock(lock)
    for requirement in declared(lock):
        name = canonicalize_name(requirement.name)
        source = read_lock("torch-cpu") if name == "torch" else packages
        assert name in source, f"{name} is not in {lock}.txt: `make lock`"
        assert requirement.specifier.contains(source[name].version, prereleases=True), f"{lock}.txt: `make lock`"


def test_the_build_lock_satisfies_the_build_requirements() -> None:
    for line in (*PYPROJECT["build-system"]["requires"], "pip>=25.1"):
        requirement = Requirement(line)
        assert requirement.specifier.contains(read_lock("build")[requirement.name].version)


def test_the_store_lock_has_the_store() -> None:
    assert str(read_lock("store")["secantusdb"].requirement) == STORE_PACKAGE


@pytest.mark.parametrize("lock", HASHED)
def test_every_package_has_a_hash(lock: str) -> None:
    assert read_lock(lock)
    for name, locked in read_lock(lock).items():
        assert locked.hashes, f"{name} in {lock}.txt has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in locked.hashes)


def test_the_locks_are_all_that_lie_there() -> None:
    assert {path.stem for path in LOCKS.iterdir()} == {*HASHED, "torch-cpu"}


def test_every_lock_has_the_same_version_of_a_package() -> None:
    versions: dict[str, set[Version]] = {}
    for lock in (*HASHED, "torch-cpu"):
        for name, locked in read_lock(lock).items():
            versions.setdefault(name, set()).add(locked.version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


@pytest.mark.parametrize("lock", WITHOUT_TORCH)
def test_only_a_worker_needs_torch(lock: str) -> None:
    assert [name for name in read_lock(lock) if TORCH.match(name)] == []


def test_torch_is_locked_apart_from_the_workers_other_packages() -> None:
    for lock in ("worker", "images", "all", "dev"):
        names = [name for name in read_lock(lock) if TORCH.match(name)]
        assert names == (["triton"] if lock == "dev" else [])  # the tests interpret kernels on the CPU
    assert list(read_lock("torch-cpu")) == ["torch"]
    assert all(TORCH.match(name) for name in read_lock("torch-cuda"))


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_installs_its_own_lock_only(service: str) -> None:
    stages = re.split(r"^FROM ", (ROOT / "infra/containers/Dockerfile").read_text(), flags=re.MULTILINE)
    (stage,) = (stage for stage in stages if stage.splitlines()[0].endswith(f" AS {service}-packages"))
    expected = {"images", "torch-"} if service == "worker" else {service}  # any worker can serve a model of images
    assert set(re.findall(r"-r locks/([a-z-]+)", stage)) == expected


# --- What the services import ---------------------------------------------------------------------

COMMAND_LINE = ("infra.cli.main", *(f"{package}.settings" for package in ("chat_ui", "gateway", "inference_worker")))
ADMINISTRATION = ("infra.accounts.account_services", "infra.accounts.sign_in_services", "infra.cli.people_commands")
"""What the commands for keys, people and credit import; they are run in the container of billing or a gateway."""
ROOTS = {
    "gateway": (
        "gateway.app",
        "infra.web_app.app",
        "chat_ui.importing.parser",
        "documents.parsing.reader",
        *ADMINISTRATION,
    ),
    "billing": ("auth_billing.__main__", *ADMINISTRATION),
    "worker": (
        "inference_worker.__main__",
        "inference_worker.search.equality",
        "inference_worker.structured.sandbox_process",
    ),
    "proxy": ("proxy.server",),
    "assistant": ("assistant.server", "assistant.tools.mathematics.computation"),
}
"""Modules that each service's process starts with, besides the command line."""
ONE_PROJECT = {"pydantic-core": "pydantic"}
"""Distributions that are part of another, which requires one exact version of them."""


def source_of(module: str) -> Path | None:
    """The file of a first-party module; None if it is none."""
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def import_statements(nodes: list[ast.stmt], *, in_functions: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements that run; those under `if TYPE_CHECKING` do not."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from import_statements(node.orelse, in_functions=in_functions)
        elif in_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from import_statements(getattr(node, blocks, []), in_functions=in_functions)


@cache
def imported_by(module: str) -> frozenset[str]:
    """The modules that a first-party module imports: at the top, or in a function.

    The command line's functions are left out: each is a command, and imports what this command needs.
    """
    source = source_of(module)
    assert source is not None
    names = set()
    tree = ast.parse(source.read_text())
    for statement in import_statements(tree.body, in_functions=not module.startswith("infra.")):
        if isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
        else:
            assert statement.level == 0, f"{module} has a relative import"
            assert statement.module is not None
            members = {f"{statement.module}.{alias.name}" for alias in statement.names}
            names |= {statement.module, *(member for member in members if source_of(member) is not None)}
    return frozenset(names)


def third_party_imports(roots: tuple[str, ...]) -> dict[str, str]:
    """The top-level packages that `roots` import directly or not, each with a module that imports it."""
    packages: dict[str, str] = {}
    seen: set[str] = set()
    waiting = [(root, "") for root in roots]
    while waiting:
        name, importer = waiting.pop()
        package, *_ = parts = name.split(".")
        if package not in FIRST_PARTY:
            if package not in sys.stdlib_module_names:
                packages.setdefault(package, importer)
            continue
        for module in (".".join(parts[: count + 1]) for count in range(len(parts))):
            if module not in seen and source_of(module) is not None:
                seen.add(module)
                waiting += [(imported, module) for imported in imported_by(module)]
    return packages


@pytest.mark.parametrize("service", ROOTS)
def test_a_service_imports_its_own_requirements_only(service: str) -> None:
    allowed: set[str] = {canonicalize_name(requirement.name) for requirement in declared(service)}
    if service == "worker":  # diffusers is imported for a pipeline only
        allowed |= {*read_lock("torch-cuda"), *(canonicalize_name(each.name) for each in declared("images"))}
    installed = packages_distributions()
    for package, importer in third_party_imports((*ROOTS[service], *COMMAND_LINE)).items():
        distributions = [canonicalize_name(name) for name in installed.get(package, [package])]
        names = {ONE_PROJECT.get(name, name) for name in distributions}
        assert names & allowed, f"{importer} imports {package}, which {service} does not require in pyproject.toml"


def test_every_root_exists() -> None:
    assert [root for roots in (*ROOTS.values(), COMMAND_LINE) for root in roots if source_of(root) is None] == []


def test_the_import_graph_reaches_what_is_known_to_be_imported() -> None:
    assert {"fastapi", "motor", "pika", "jwt", "uvicorn"} <= third_party_imports(ROOTS["gateway"]).keys()
    assert {"torch", "transformers", "gguf", "triton"} <= third_party_imports(ROOTS["worker"]).keys()
