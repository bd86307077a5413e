"""All parts of a split GGUF are found from its first; missing and foreign parts are refused in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from inference_worker.errors import BadWeights, ModelError, ModelNotFound, UnsupportedModel
from inference_worker.model_files.gguf_parts import read_parts, stem_of_all

TENSORS = {f"t{i}": np.full((4, 32), i, np.float32) for i in range(5)}


def write_split(path: Path, tensors: Mapping[str, np.ndarray] = TENSORS, per_part: int = 2) -> list[Path]:
    """Write `path` in parts by the `gguf` library, and return their paths."""
    writer = gguf.GGUFWriter(path, "llama", split_max_tensors=per_part)
    writer.add_context_length(64)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(path.parent.glob(f"{path.stem}-*.gguf"))


def write_part(path: Path, **keys: Any) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in keys.items():
        key = name.replace("_", ".")
        writer.add_string(key, value) if isinstance(value, str) else writer.add_uint64(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def test_all_parts_are_read_in_order(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "tiny.gguf")
    parts = read_parts(paths[0])
    assert [part.path for part in parts] == paths
    assert paths[0].name == "tiny-00001-of-00003.gguf"
    assert [[tensor.name for tensor in part.header.tensors] for part in parts] == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    assert parts[0].header.metadata["llama.context_length"] == 64


def test_a_file_that_is_not_split_is_its_only_part(tmp_path: Path) -> None:
    write_part(tmp_path / "tiny.gguf")
    assert [part.path for part in read_parts(tmp_path / "tiny.gguf")] == [tmp_path / "tiny.gguf"]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "tiny.gguf")
    paths[1].unlink()
    with pytest.raises(ModelNotFound, match=r"part 2 of 3 .*tiny-00002-of-00003\.gguf"):
        read_parts(paths[0])


def test_a_later_part_names_the_first(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "tiny.gguf")
    with pytest.raises(UnsupportedModel, match=r"tiny-00001-of-00003\.gguf"):
        read_parts(paths[1])


def test_parts_of_another_model_are_refused(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "tiny.gguf")
    paths[1].write_bytes(paths[2].read_bytes())
    with pytest.raises(BadWeights, match="is not part 2 of 3"):
        read_parts(paths[0])


def test_tensors_that_are_missing_or_twice_are_refused(tmp_path: Path) -> None:
    paths = write_split(tmp_path / "tiny.gguf")
    six = write_split(tmp_path / "six.gguf", {**TENSORS, "t5": TENSORS["t0"]})
    six[2].rename(paths[2])
    with pytest.raises(BadWeights, match="once"):
        read_parts(paths[0])
    again = write_split(
        tmp_path / "again.gguf", {**dict.fromkeys(("a", "b", "c", "d"), TENSORS["t0"]), "t1": TENSORS["t1"]}
    )
    again[2].rename(paths[2])
    with pytest.raises(BadWeights, match="once"):
        read_parts(paths[0])


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("tiny.gguf", {"split_count": 2, "split_no": 0}),
        ("tiny-00001-of-00003.gguf", {"split_count": 2, "split_no": 0}),
        ("tiny-00001-of-00002.gguf", {"split_count": 2**63, "split_no": 0}),
        ("tiny-00001-of-00002.gguf", {"split_count": "2", "split_no": 0}),
        ("tiny-00001-of-99999.gguf", {"split_count": 99_999, "split_no": 0}),
        ("tiny-00001-of-00002.gguf", {"split_count": 2, "split_no": 1}),
    ],
)
def test_impossible_numbers_of_parts(name: str, keys: dict[str, Any], tmp_path: Path) -> None:
    write_part(tmp_path / name, **keys)
    with pytest.raises(ModelError) as caught:
        read_parts(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_parts_share_a_stem() -> None:
    assert stem_of_all(Path("/models/Big-Q4_K_M-00001-of-00003.gguf")) == "Big-Q4_K_M"
    assert stem_of_all(Path("/models/Small-1-of-3.gguf")) == "Small-1-of-3"
