"""Set-up steps that use npm: build the web chat, and install the Node clients of the tests.

Must use the standard library only.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from infra.install.step import ROOT, STAMP, Installation, Step, StepFailed, fingerprint, has_stamp, run

WEB = ROOT / "chat_ui" / "web"
NODE_CLIENTS = ROOT / "tests" / "e2e" / "clients" / "node"
OIDC_PROVIDER = ROOT / "tests" / "oidc"
MINIMUM_NODE = 20


def front_end_step(_: Installation, log: Path) -> Step:
    """Create the set-up step that builds the web chat with Vite into `chat_ui/web/dist/`."""
    stamp = WEB / "node_modules" / STAMP
    built = WEB / "node_modules" / f"built-{STAMP}"  # not in dist/, which is served
    sources = [path for path in WEB.rglob("*") if path.is_file() and not _is_generated(path)]
    modules = fingerprint([path for path in sources if path.name in ("package.json", "package-lock.json")])
    value = fingerprint(sources)

    def done() -> bool:
        return (WEB / "dist" / "index.html").is_file() and has_stamp(built, value) and has_stamp(stamp, modules)

    def do() -> None:
        npm = _npm()
        if not has_stamp(stamp, modules):
            run([npm, "ci", "--no-audit", "--no-fund"], log, cwd=WEB)
            stamp.write_text(modules)
        run([npm, "run", "build"], log, cwd=WEB)
        built.write_text(value)

    return Step("web chat", done, do)


def _is_generated(path: Path) -> bool:
    return not {"node_modules", "dist", "coverage"}.isdisjoint(path.relative_to(WEB).parts)


def _npm() -> str:
    """Return the path of npm. Raises `StepFailed` if Node is missing or too old."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise StepFailed(f"Node {MINIMUM_NODE} or newer with npm is needed to build the web chat, and is not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    if int(version.lstrip("v").split(".")[0] or 0) < MINIMUM_NODE:
        raise StepFailed(f"Node {MINIMUM_NODE} or newer is needed to build the web chat, this is {version}")
    return npm


def node_clients_step(installation: Installation, log: Path) -> Step:
    """Create the set-up step that installs Node programs of tests: client libraries, an OpenID Connect provider."""
    folders = (NODE_CLIENTS, OIDC_PROVIDER)

    def done(folder: Path) -> bool:
        return has_stamp(folder / "node_modules" / STAMP, _packages(folder))

    def do() -> None:
        for folder in folders:
            if not done(folder):
                run([_npm(), "ci", "--no-audit", "--no-fund", "--ignore-scripts"], log, cwd=folder)
                (folder / "node_modules" / STAMP).write_text(_packages(folder))

    return Step("Node programs for tests", lambda: not installation.dev or all(map(done, folders)), do)


def _packages(folder: Path) -> str:
    return fingerprint([folder / "package.json", folder / "package-lock.json"])
