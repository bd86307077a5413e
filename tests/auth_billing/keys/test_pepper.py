"""The pepper is created once, in a private file, and is the same for concurrent starts."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from auth_billing.keys.pepper import FILE_NAME, control_secret, load_pepper
from runtime.lifecycle import StartupError


def test_it_is_created_once_and_private(tmp_path: Path) -> None:
    pepper = load_pepper(tmp_path)
    path = tmp_path / "secrets" / FILE_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert load_pepper(tmp_path) == pepper
    assert len(pepper) >= 32


def test_concurrent_starts_get_the_same_pepper(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        peppers = set(pool.map(load_pepper, [tmp_path] * 64))
    assert len(peppers) == 1
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_file_readable_by_other_users_is_refused(tmp_path: Path, mode: int) -> None:
    load_pepper(tmp_path)
    (tmp_path / "secrets" / FILE_NAME).chmod(mode)
    with pytest.raises(StartupError, match="chmod 600"):
        load_pepper(tmp_path)


def test_a_short_pepper_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="shorter than 32"):
        load_pepper(tmp_path, "short")
    load_pepper(tmp_path)
    (tmp_path / "secrets" / FILE_NAME).write_text("short")
    with pytest.raises(StartupError, match="shorter than 32"):
        load_pepper(tmp_path)


def test_a_configured_pepper_is_used_and_nothing_written(tmp_path: Path) -> None:
    assert load_pepper(tmp_path, "g" * 32) == b"g" * 32
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_a_startup_error(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("a file")
    with pytest.raises(StartupError, match="can't use"):
        load_pepper(tmp_path)


def test_the_control_secret_is_derived_and_does_not_reveal_the_pepper() -> None:
    secrets = {control_secret(pepper) for pepper in (b"p" * 32, b"p" * 32, b"q" * 32)}
    assert len(secrets) == 2
    assert all(len(secret) == 64 for secret in secrets)
