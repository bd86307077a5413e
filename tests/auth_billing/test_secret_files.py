"""Secret files: created once, private, and never half-written; the pepper's rules are in `keys/test_pepper.py`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from auth_billing.secret_files import read_or_make
from runtime.lifecycle import StartupError


def test_a_secret_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "secret"
    assert read_or_make(path, lambda: "first", "ends sessions") == "first"
    assert read_or_make(path, lambda: "second", "ends sessions") == "first"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["secret"]  # no draft is left


def test_concurrent_processes_get_the_same_secret(tmp_path: Path) -> None:
    numbers = count()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: read_or_make(tmp_path / "secret", lambda: f"s{next(numbers)}", "x"), range(16)))
    assert len(set(made)) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_a_secret_that_other_users_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_text("known")
    path.chmod(mode)
    with pytest.raises(StartupError, match=r"chmod 600 it, or delete it \(which ends sessions\)"):
        read_or_make(path, lambda: "new", "ends sessions")


def test_a_file_that_is_no_text_or_a_folder_is_a_startup_error(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"\xff\xfe")
    path.chmod(0o600)
    for wrong in (path, path / "below"):
        with pytest.raises(StartupError):
            read_or_make(wrong, lambda: "new", "ends sessions")
