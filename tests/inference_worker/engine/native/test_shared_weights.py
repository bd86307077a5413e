"""Tests of shared weights: the first process writes the file, others map it, and unused files go."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from inference_worker.engine.native.packing import PackedWeight, pack
from inference_worker.engine.native.shared_weights import build_shared
from inference_worker.engine.native.weight_arena import ALIGNMENT, WeightArena, WeightStore
from inference_worker.errors import ModelError, NativeError

WEIGHTS = {name: torch.randn(40, 64, generator=torch.Generator().manual_seed(i)) for i, name in enumerate("ab")}


class Builder:
    """Packs two weights, the first with a bias; counts how many it packed."""

    def __init__(self) -> None:
        self.packed = 0

    def __call__(self, store: WeightStore) -> tuple[WeightStore, list[PackedWeight]]:
        return store, [store.keep(name, self._pack(name)) for name in WEIGHTS]

    def _pack(self, name: str) -> Callable[[], PackedWeight]:
        def packed() -> PackedWeight:
            self.packed += 1
            return pack(WEIGHTS[name], torch.arange(40.0) if name == "a" else None, panel=16)

        return packed


def equal(one: PackedWeight, other: PackedWeight) -> bool:
    biases = (one.bias, other.bias)
    same_bias = torch.equal(*biases) if None not in biases else biases == (None, None)  # type: ignore[arg-type]
    return (
        torch.equal(one.panels, other.panels)
        and same_bias
        and (one.format, one.inputs, one.outputs, one.panel) == (other.format, other.inputs, other.outputs, other.panel)
    )


def test_weights_are_packed_once_and_equal(tmp_path: Path) -> None:
    first, second = Builder(), Builder()
    (_, ours), (_, theirs) = build_shared(tmp_path, {"a": 1}, first), build_shared(tmp_path, {"a": 1}, second)
    assert (first.packed, second.packed) == (2, 0)
    _, expected = Builder()(WeightArena())
    for one, other, reference in zip(ours, theirs, expected, strict=True):
        assert equal(one, reference)
        assert equal(other, reference)
        assert one.panels.data_ptr() % ALIGNMENT == 0


def test_files_that_no_process_has_mapped_are_removed(tmp_path: Path) -> None:
    kept = build_shared(tmp_path, {"a": 1}, Builder())
    (first,) = tmp_path.glob("*.weights")
    others = tmp_path / "others.weights"
    others.touch()
    (tmp_path / f"{'0' * 32}.partial").write_bytes(b"by a process that was killed")
    build_shared(tmp_path, {"a": 2}, Builder())  # not kept
    (second,) = set(tmp_path.glob("*.weights")) - {first, others}
    build_shared(tmp_path, {"a": 3}, Builder())
    assert first.exists()
    assert not second.exists()
    assert not list(tmp_path.glob("*.partial"))
    assert others.exists()
    assert kept[1][0].panels.numel()


def test_a_failure_leaves_no_file_and_no_lock(tmp_path: Path) -> None:
    def fail(_: WeightStore) -> None:
        raise NativeError("no memory")

    with pytest.raises(NativeError):
        build_shared(tmp_path, {}, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"can't share weights in .*file"):
        build_shared(tmp_path / "file", {}, Builder())


@pytest.mark.parametrize("content", [b"", b"short", b"{}" + (2).to_bytes(8, "little"), b"nothing".ljust(64, b"\xff")])
def test_a_damaged_file_is_written_anew(tmp_path: Path, content: bytes) -> None:
    build_shared(tmp_path, {"a": 1}, Builder())
    (path,) = tmp_path.glob("*.weights")
    path.write_bytes(content)
    builder = Builder()
    _, found = build_shared(tmp_path, {"a": 1}, builder)
    assert builder.packed == 2
    assert all(equal(one, other) for one, other in zip(found, Builder()(WeightArena())[1], strict=True))


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(ModelError, match="another user"):
        build_shared(tmp_path, {}, Builder())
