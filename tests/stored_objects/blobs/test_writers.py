"""Writers of blobs: nothing is visible before the commit, and nothing is left after a discard."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from stored_objects.blobs.writers import DRAFT, BlobWriter, FileSystemWriter, FolderWriter


def test_a_draft_becomes_the_file_by_a_rename(tmp_path: Path) -> None:
    path = tmp_path / "ab" / "blob"
    writer = FolderWriter(str(path))
    for piece in (b"one ", b"", b"two"):
        writer.add(piece)
    assert [each.name for each in path.parent.iterdir()] == [f"blob{DRAFT}"]
    writer.commit()
    assert path.read_bytes() == b"one two"
    assert [each.name for each in path.parent.iterdir()] == ["blob"]


def test_two_writers_of_one_blob_do_not_mix(tmp_path: Path) -> None:
    first = FolderWriter(str(tmp_path / "blob"))
    with pytest.raises(FileExistsError):
        FolderWriter(str(tmp_path / "blob"))
    first.discard()


@pytest.fixture(params=["folder", "memory"])
def make_writer(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[BlobWriter, Callable[[], bool]]:
    """A writer, and whether anything of it exists."""
    if request.param == "folder":
        return FolderWriter(str(tmp_path / "blob")), lambda: any(tmp_path.iterdir())
    files, path = MemoryFileSystem(), f"/{uuid.uuid4().hex}/blob"
    return FileSystemWriter(files, path), lambda: files.exists(path)


def test_a_discarded_blob_does_not_exist(make_writer: tuple[BlobWriter, Callable[[], bool]]) -> None:
    writer, exists = make_writer
    writer.add(b"content")
    writer.discard()
    writer.add(b"late")  # a thread that was still running
    assert not exists()
