"""The GGUF header reader reads what the `gguf` library writes, and rejects damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from inference_worker.errors import BadWeights, ModelError, ModelNotFound, UnsupportedModel
from inference_worker.model_files.gguf_metadata import read_header, read_tokenizer


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["a", "Ġb", "é"])
    writer.add_token_types([1, 3, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{{ messages }}")
    writer.add_tensor("output_norm.weight", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_header_equals_what_the_library_wrote(small: Path) -> None:
    header = read_header(small)
    assert header.architecture == "llama"
    assert header.metadata["llama.context_length"] == 64
    assert header.metadata["llama.rope.freq_base"] == 10000.0
    (tensor,) = header.tensors
    assert (tensor.name, tensor.shape) == ("output_norm.weight", (2, 3))
    data = small.read_bytes()[tensor.offset : tensor.offset + 24]
    assert np.frombuffer(data, np.float32).tolist() == [0, 1, 2, 3, 4, 5]


def test_tokenizer_metadata(small: Path) -> None:
    tokenizer = read_tokenizer(small)
    assert (tokenizer.model, tokenizer.pre) == ("gpt2", "smollm")
    assert tokenizer.tokens == ["a", "Ġb", "é"]
    assert tokenizer.token_types == [1, 3, 1]
    assert tokenizer.merges == ["a b"]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_ids) == (1, (2, 0))
    assert tokenizer.add_bos_token is False
    assert tokenizer.chat_template == "{{ messages }}"


def test_every_truncation_is_a_model_error(small: Path, tmp_path: Path) -> None:
    whole = small.read_bytes()
    header_end = read_header(small).tensors[0].offset - 32
    cut = tmp_path / "cut.gguf"
    for length in range(1, header_end):
        cut.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            read_header(cut)


def prelude(tensors: int, entries: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, entries)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", BadWeights),
        (b"PK\x03\x04" + bytes(64), BadWeights),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), UnsupportedModel),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), UnsupportedModel),
        (prelude(10**15, 0), BadWeights),
        (prelude(0, 10**15), BadWeights),
        (prelude(0, 1) + struct.pack("<Q", 10**15), BadWeights),
        (prelude(0, 1) + text(b"a") + struct.pack("<IIQ", 9, 8, 10**15), BadWeights),
        (prelude(0, 1) + text(b"a") + struct.pack("<IIQ", 9, 9, 1), BadWeights),
        (prelude(0, 1) + text(b"a") + struct.pack("<I", 77) + bytes(8), BadWeights),
        (prelude(0, 1) + text(b"\xff") + struct.pack("<IB", 0, 1) + bytes(8), BadWeights),
        (prelude(1, 0) + text(b"t") + struct.pack("<I", 2**31) + bytes(64), BadWeights),
        (prelude(0, 1) + text(b"general.alignment") + struct.pack("<II", 4, 0), BadWeights),
    ],
)
def test_a_damaged_file_is_rejected(content: bytes, error: type[Exception], tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    with pytest.raises(error) as caught:
        read_header(path)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        read_header(tmp_path / "none.gguf")
