"""The embedded store: its command, and whether it answers."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from infra.accounts.embedded_store import EmbeddedStore, StoreNotInstalled, answers
from infra.launcher.readiness import free_port
from tests.child_process import start_or_skip
from tests.store_fixtures import make_store


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


def test_a_missing_program_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreNotInstalled, match="make setup"):
        EmbeddedStore(tmp_path, free_port()).command()


def test_only_this_user_can_read_the_data(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path, free_port(), program=Path(sys.executable)).command()
    assert os.stat(tmp_path / "store").st_mode & 0o077 == 0
