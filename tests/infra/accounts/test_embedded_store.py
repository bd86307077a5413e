"""The store as a child process: it answers when `start` returns, and errors are one line."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from infra.accounts.embedded_store import EmbeddedStore, StoreFailed, StoreNotInstalled, answers
from infra.launcher.readiness import free_port
from tests.store_fixtures import make_store, start_or_skip


@pytest.mark.store
def test_it_answers_after_start_and_is_gone_after_stop(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    start_or_skip(store)
    pid = store.pid
    assert pid is not None
    assert answers(store.port)
    assert str(store.port) in store.url
    store.stop()
    assert store.pid is None
    assert not answers(store.port)
    assert not psutil.pid_exists(pid)


@pytest.mark.store
def test_a_store_left_by_a_killed_launcher_is_stopped_first(tmp_path: Path) -> None:
    first = make_store(tmp_path)
    start_or_skip(first)
    left = first.pid
    second = make_store(tmp_path)
    second.start()
    assert second.pid != left
    first.stop()  # reaps it
    assert answers(second.port)
    second.stop()


def test_a_missing_program_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreNotInstalled, match="make setup"):
        EmbeddedStore(tmp_path, free_port()).start()


def program(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "program"
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(body)}")
    path.chmod(0o700)
    return path


def test_a_program_that_ends_names_its_status_and_the_log(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path, free_port(), program=program(tmp_path, "raise SystemExit(3)"))
    with pytest.raises(StoreFailed, match=r"status 3: see .*store\.log"):
        store.start()


def test_a_program_that_never_answers_is_ended(tmp_path: Path) -> None:
    silent = program(tmp_path, "import time; time.sleep(600)")
    store = EmbeddedStore(tmp_path, free_port(), program=silent, start_timeout=0.2)
    with pytest.raises(StoreFailed, match=r"did not answer in 0\.2 s"):
        store.start()
    assert store.pid is None


def test_a_stale_pid_of_another_process_is_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        store = EmbeddedStore(tmp_path, free_port(), program=program(tmp_path, "raise SystemExit(0)"))
        store.command()
        (tmp_path / "store" / "embedded.pid").write_text(str(bystander.pid))
        with pytest.raises(StoreFailed):
            store.start()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_only_this_user_can_read_the_data(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path, free_port(), program=program(tmp_path, "")).command()
    assert os.stat(tmp_path / "store").st_mode & 0o077 == 0
