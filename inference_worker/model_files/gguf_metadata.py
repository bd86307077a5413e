"""Reads the header of a GGUF model file: metadata, tokenizer, chat template, and tensors' names, shapes and offsets.

    tokenizer = read_tokenizer(path)          # -> GGUFTokenizer: tokens, types, merges, pre, chat_template, bos/eos ids
    header = read_header(path)                # -> GGUFHeader
    header.metadata["llama.context_length"]   # every key as Python values: int, float, bool, str, list
    header.tensors                            # names, shapes, types, offsets

Both raise `BadWeights` on a damaged or hostile file: every length is checked against the file's size before it is
used (the `gguf` library's reader trusts them, and takes seconds for a vocabulary that takes milliseconds here).
Specification: ggml's `docs/gguf.md`, versions 2 and 3, little-endian. `engine/weights/gguf_file.py` reads the tensors.
Must not import torch or numpy: the worker process uses it too.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference_worker.errors import BadWeights, ModelNotFound, UnsupportedModel

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_DIMENSIONS = 4
_MIN_ENTRY = 12
"""Bytes of the shortest metadata entry or tensor description; bounds the number of entries in a file."""
_MAX_ITEMS = 1 << 23
"""Items of one list. The largest vocabularies have under a million; a list costs far more memory than its bytes."""


@dataclass(frozen=True)
class TensorInfo:
    """Name, shape, type and offset of one tensor. `shape` is in PyTorch's order: the contiguous dimension last."""

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int
    """Bytes from the start of the file."""


@dataclass(frozen=True)
class GGUFHeader:
    """Header of a GGUF file: metadata and tensor descriptions."""

    metadata: dict[str, Any]
    tensors: tuple[TensorInfo, ...]
    file_size: int

    @property
    def architecture(self) -> str:
        """Name of the model family in the GGUF's metadata (`general.architecture`), which prefixes the family's keys.

        "" if the metadata lacks it.
        """
        return str(self.metadata.get("general.architecture", ""))


@dataclass(frozen=True)
class GGUFTokenizer:
    """Tokenizer and chat template of a GGUF file. Lists are indexed by token id, and empty if the file lacks them.

    Attributes:
        model: kind of tokenizer: `gpt2` (byte-level BPE), `llama` (SentencePiece), ...
        pre: name of the pre-tokenizer (`smollm`, `llama-bpe`, `qwen2`, ...), "" if the file names none.
        token_types: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
        merges: "left right" pairs in order of rank.
        scores: SentencePiece log probabilities.
        add_space_prefix: whether SentencePiece puts a space before a text.
        eos_token_ids: ids that end a text, a turn or a message.
    """

    model: str
    pre: str
    tokens: list[str]
    token_types: list[int]
    merges: list[str]
    scores: list[float]
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    unknown_token_id: int | None
    padding_token_id: int | None
    add_bos_token: bool
    add_space_prefix: bool
    chat_template: str | None


def read_header(path: Path) -> GGUFHeader:
    """Read the metadata and the tensor descriptions of the GGUF file at `path`, but no tensor data.

    Raises:
        ModelNotFound: the file can't be opened.
        BadWeights: the file is not a GGUF, or is damaged.
        UnsupportedModel: the file's version is not 2 or 3, or it is big-endian.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(data)
    except OSError as error:
        raise ModelNotFound(f"can't read {path}: {error.strerror}") from error
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise BadWeights(f"{path} is not a sound GGUF file: {error}") from error
    except BadWeights as error:
        raise BadWeights(f"{path} is not a sound GGUF file: {error}") from error


def read_tokenizer(path: Path) -> GGUFTokenizer:
    """Read the tokenizer (vocabulary, merges, special tokens) and the chat template of the GGUF file at `path`.

    Raises:
        ModelNotFound: the file can't be opened.
        BadWeights: the file is not a GGUF, or is damaged.
        UnsupportedModel: the file's version is not 2 or 3, or it is big-endian.
    """
    header = read_header(path)

    def get(key: str, default: Any = None) -> Any:
        return header.metadata.get(f"tokenizer.ggml.{key}", default)

    return GGUFTokenizer(
        model=get("model", ""),
        pre=get("pre", ""),
        tokens=get("tokens", []),
        token_types=get("token_type", []),
        merges=get("merges", []),
        scores=get("scores", []),
        bos_token_id=get("bos_token_id"),
        eos_token_ids=eos_token_ids(header),
        unknown_token_id=get("unknown_token_id"),
        padding_token_id=get("padding_token_id"),
        add_bos_token=get("add_bos_token", get("model") == "llama"),
        add_space_prefix=get("add_space_prefix", get("model") == "llama"),
        chat_template=header.metadata.get("tokenizer.chat_template"),
    )


def eos_token_ids(header: GGUFHeader) -> tuple[int, ...]:
    """Return the distinct token ids that a GGUF's header names as end of text, turn or message, in this order."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    ids = (header.metadata.get(f"tokenizer.ggml.{key}") for key in keys)
    return tuple(dict.fromkeys(token for token in ids if isinstance(token, int)))


class _Cursor:
    """Reads consecutive values of a GGUF file; raises `BadWeights` before it would read past the end."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.size = len(data)
        self.at = 0

    def take(self, length: int) -> bytes:
        """Return the next `length` bytes of the file and move past them."""
        self.expect(length)
        start, self.at = self.at, self.at + length
        return self.data[start : self.at]

    def expect(self, length: int) -> None:
        """Check that `length` more bytes are left in the file.

        Raises:
            BadWeights: the file is too short.
        """
        if length > self.size - self.at:
            raise BadWeights(f"{length} bytes declared at {self.at}, the file has {self.size}")

    def scalars(self, code: str, count: int) -> list[Any]:
        """Read the next `count` numbers of the struct format character `code`."""
        width = struct.calcsize(f"<{code}")
        self.expect(width * count)
        return list(struct.unpack(f"<{count}{code}", self.take(width * count)))

    def u32(self) -> int:
        """Read the next unsigned 32-bit integer."""
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        """Read the next unsigned 64-bit integer."""
        return int.from_bytes(self.take(8), "little")

    def count(self, smallest: int) -> int:
        """Read the number of items that follow in the file, each at least `smallest` bytes long.

        Raises:
            BadWeights: the rest of the file is too short for so many items.
        """
        number = self.u64()
        self.expect(number * smallest)
        if number > _MAX_ITEMS:
            raise BadWeights(f"{number} items in one list")
        return number

    def string(self) -> str:
        """Read the next string: its length and its UTF-8 bytes."""
        return self.strings(1)[0]

    def strings(self, count: int) -> list[str]:
        """Read the next `count` strings. Written for speed: a vocabulary has hundreds of thousands."""
        data, size, at, found = self.data, self.size, self.at, list[str]()
        for _ in range(count):
            start = at + 8
            at = start + int.from_bytes(data[at:start], "little")
            if at > size or start > size:
                raise BadWeights(f"a string of {at - start} bytes declared at {start}, the file has {size}")
            found.append(data[start:at].decode())
        self.at = at
        return found


def _parse(data: mmap.mmap) -> GGUFHeader:
    cursor = _Cursor(data)
    if cursor.take(4) != MAGIC:
        raise BadWeights("it does not start with GGUF")
    version = cursor.u32()
    if version not in VERSIONS:
        raise UnsupportedModel(
            f"GGUF version {version} (or a big-endian file): we read versions 2 and 3, little-endian"
        )
    tensor_count = cursor.count(_MIN_ENTRY)
    metadata = dict(_entry(cursor) for _ in range(cursor.count(_MIN_ENTRY)))
    described = [_tensor_info(cursor) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise BadWeights(f"general.alignment is {alignment!r}, not a power of two")
    start = -(-cursor.at // alignment) * alignment
    tensors = tuple(TensorInfo(name, shape, kind, start + offset) for name, shape, kind, offset in described)
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise BadWeights("two tensors have the same name")
    return GGUFHeader(metadata, tensors, cursor.size)


def _entry(cursor: _Cursor) -> tuple[str, Any]:
    key = cursor.string()
    return key, _value(cursor, cursor.u32())


def _value(cursor: _Cursor, kind: int) -> Any:
    if kind == _STRING:
        return cursor.string()
    if kind == _ARRAY:
        return _array(cursor)
    return cursor.scalars(_scalar_code(kind), 1)[0]


def _array(cursor: _Cursor) -> list[Any]:
    kind = cursor.u32()
    if kind == _STRING:
        return cursor.strings(cursor.count(8))
    return cursor.scalars(_scalar_code(kind), cursor.count(1))


def _scalar_code(kind: int) -> str:
    code = _SCALARS.get(kind)
    if code is None:
        raise BadWeights(f"metadata of unknown type {kind}")
    return code


def _tensor_info(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name = cursor.string()
    dimensions = cursor.u32()
    if dimensions > _MAX_DIMENSIONS:
        raise BadWeights(f"tensor {name[:80]!r} has {dimensions} dimensions")
    shape = tuple(reversed(cursor.scalars("Q", dimensions)))
    return name, shape, cursor.u32(), cursor.u64()
