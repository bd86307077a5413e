"""A job's life has one home: every answer route depends on `gateway/jobs/`, and only the recovery in
`router/producer/` changes which attempt is authoritative and how far the output is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OWNERS = {
    "attempt_id": "recovery.py",
    "worker_id": "recovery.py",
    "copy_number": "recovery.py",
    "crashes": "recovery.py",
    "positions": "job_output.py",
    "token_ids": "job_output.py",
    "newest": "job_copies.py",
}
"""Attributes of a job's life, and the one module of the gateway and of the producer that assigns them."""
ROUTES = [
    "gateway/http/job_submission.py",
    "gateway/http/routes/completions.py",
    "gateway/http/routes/embeddings.py",
    "gateway/in_process.py",
]


def modules() -> dict[Path, ast.Module]:
    paths = [*(ROOT / "gateway").rglob("*.py"), *(ROOT / "router" / "producer").rglob("*.py")]
    return {path: ast.parse(path.read_text()) for path in sorted(paths)}


def assigned(tree: ast.AST) -> set[str]:
    """Names of all attributes that a module assigns, changes in place, or declares in a class that it can assign."""
    targets = [
        target
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    nodes = [each for target in targets for each in ast.walk(target)]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}


def test_no_other_module_changes_attempt_or_position() -> None:
    for path, tree in modules().items():
        foreign = {name for name in assigned(tree) if OWNERS.get(name, path.name) != path.name}
        assert not foreign, f"{path.relative_to(ROOT)} assigns {foreign}"


@pytest.mark.parametrize(("attribute", "owner"), OWNERS.items())
def test_the_owners_do(attribute: str, owner: str) -> None:
    """The check above would pass if it looked for names that do not exist."""
    assert attribute in assigned(ast.parse((ROOT / "router/producer" / owner).read_text()))


@pytest.mark.parametrize("route", ROUTES)
def test_deleting_the_home_breaks_every_answer_route(route: str) -> None:
    imported = {
        node.module
        for node in ast.walk(ast.parse((ROOT / route).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert any(module.startswith("gateway.jobs.") for module in imported)


def test_recovery_is_sans_io() -> None:
    source = (ROOT / "router/producer/recovery.py").read_text()
    imported = {
        alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert not imported & {"asyncio", "time", "socket", "threading", "structlog"}
    assert len(source.splitlines()) < 300
