"""Parses and validates an upstream provider's response with embeddings: one vector per input, finite numbers."""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from proxy.errors import InvalidAnswer

FLOAT = 4
"""Bytes of a float32."""


class _Vector(msgspec.Struct):
    index: Annotated[int, msgspec.Meta(ge=0)]
    embedding: list[float] | str


class _Answer(msgspec.Struct):
    data: list[_Vector]
    usage: Any = None


_ANSWERS = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True)
class Embeddings:
    """An upstream's vectors in the order of the inputs, each float32, little-endian; `usage` as reported, unchecked."""

    vectors: list[bytes]
    usage: Any


def parse(body: bytes, inputs: int, dimensions: int | None) -> Embeddings:
    """Parse an upstream's response with embeddings of `inputs` inputs, of `dimensions` numbers each (`None`: any).

    Raises:
        InvalidAnswer: the answer does not have exactly one valid vector per input.
    """
    try:
        answer = _ANSWERS.decode(body)
        vectors = {each.index: _floats(each.embedding) for each in answer.data}
    except (msgspec.DecodeError, ValueError, RecursionError, struct.error, OverflowError) as error:
        raise InvalidAnswer(f"no embeddings: {error}") from error
    lengths = {len(vector) // FLOAT for vector in vectors.values()}
    if len(answer.data) != inputs or vectors.keys() != set(range(inputs)) or len(lengths) != 1:
        raise InvalidAnswer(f"{len(answer.data)} vectors for {inputs} inputs, of {len(lengths)} lengths")
    if lengths == {0} or (dimensions is not None and lengths != {dimensions}):
        raise InvalidAnswer(f"vectors of {lengths} numbers instead of {dimensions}")
    return Embeddings([vectors[index] for index in range(inputs)], answer.usage)


def _floats(embedding: list[float] | str) -> bytes:
    if isinstance(embedding, list):
        numbers, packed = tuple(embedding), struct.pack(f"<{len(embedding)}f", *embedding)
    else:
        packed = b64decode(embedding, validate=True)
        numbers = struct.unpack(f"<{len(packed) // FLOAT}f", packed)
    if not all(map(math.isfinite, numbers)):
        raise InvalidAnswer("a vector with a number that is none")
    return packed
