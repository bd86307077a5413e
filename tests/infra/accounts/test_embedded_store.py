"""The embedded store: its command, and whether it answers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import MongoClient
from pymongo.errors import BulkWriteError, OperationFailure

from infra.accounts.embedded_store import EmbeddedStore, StoreNotInstalled, answers
from infra.launcher.readiness import free_port
from tests.child_process import StoreProcess, start_or_skip
from tests.store_fixtures import make_store


@pytest.fixture
def running(tmp_path: Path) -> Iterator[StoreProcess]:
    store = make_store(tmp_path)
    start_or_skip(store)
    yield store
    store.stop()


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
def test_it_serves_no_client_without_the_password(running: StoreProcess, tmp_path: Path) -> None:
    with MongoClient[dict[str, Any]](running.url) as owner:
        owner.headrace.accounts.insert_one({"_id": "acme", "available": 1})
    password = (tmp_path / "secrets" / "store").read_text().strip()
    wrong = running.url.replace(password, "guessed")
    anonymous = f"mongodb://127.0.0.1:{running.port}/headrace?directConnection=true"
    for url in (anonymous, wrong):
        with MongoClient[dict[str, Any]](url) as stranger:
            with pytest.raises(OperationFailure):
                stranger.headrace.accounts.update_one({"_id": "acme"}, {"$set": {"available": 10**18}})
            with pytest.raises(OperationFailure):
                stranger.headrace.accounts.find_one()
            with pytest.raises(OperationFailure):
                stranger.admin.command("createUser", "eve", pwd="eve", roles=["root"])
            with pytest.raises(OperationFailure):
                stranger.list_database_names()
    assert os.stat(tmp_path / "secrets" / "store").st_mode & 0o077 == 0
    assert password not in " ".join(psutil.Process(running.pid).cmdline())
    running.stop()
    (tmp_path / "secrets" / "store").unlink()
    running.start()  # its user exists, and gets a new password
    assert password not in running.url
    with MongoClient[dict[str, Any]](running.url) as owner:
        assert owner.headrace.accounts.find_one() == {"_id": "acme", "available": 1}


@pytest.mark.store
def test_writes_of_many_documents_maintain_the_indexes_of_that_moment(running: StoreProcess) -> None:
    with MongoClient[dict[str, Any]](running.url) as client:
        things = client.headrace.things
        things.create_index([("tags", 1)])
        things.insert_many([{"_id": 1, "tags": "a"}, {"_id": 2, "tags": ["b", "c"]}, {"_id": 3, "tags": "c"}])
        assert [each["_id"] for each in things.find({"tags": "c"}).sort("_id", 1)] == [2, 3]
        assert things.index_information()["tags_1"]["key"] == [("tags", 1)]
        things.update_many({"_id": {"$in": [1, 2]}}, {"$set": {"tags": ["d", "e"], "number": 1}})
        assert [each["_id"] for each in things.find({"tags": "e"}).sort("_id", 1)] == [1, 2]
        assert [each["_id"] for each in things.find({"tags": "c"})] == [3]
        things.delete_many({"number": 1})
        things.create_index([("number", 1)], unique=True, sparse=True)
        with pytest.raises(BulkWriteError):
            things.insert_many([{"_id": 4, "number": 2}, {"_id": 5, "number": 2}])
        assert things.count_documents({"number": 2}) == 1
        things.drop_index("number_1")
        things.insert_many([{"_id": 6, "number": 2}, {"_id": 7, "number": 2}])
        assert things.count_documents({"number": 2}) == 3
        assert things.count_documents({"tags": "d"}) == 0


@pytest.mark.store
def test_it_does_not_start_without_a_password(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    start_or_skip(store)
    store.stop()
    argv, environment = store.command()
    without = {name: value for name, value in environment.items() if name != "HEADRACE_MONGODB_PASSWORD"}
    done = subprocess.run(argv, env=without, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "HEADRACE_MONGODB_PASSWORD" in done.stderr


def test_a_missing_program_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreNotInstalled, match="make setup"):
        EmbeddedStore(tmp_path, free_port()).command()


def test_the_program_gets_no_secrets_but_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_API_KEY_PEPPER", "secret")
    _, environment = EmbeddedStore(tmp_path, free_port(), program=Path(sys.executable)).command()
    assert {name for name in environment if name.startswith("HEADRACE_")} == {"HEADRACE_MONGODB_PASSWORD"}


def test_only_this_user_can_read_the_data(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path, free_port(), program=Path(sys.executable)).command()
    assert os.stat(tmp_path / "store").st_mode & 0o077 == 0
