"""Computes which UTF-8 bytes each token id of a tokenizer's vocabulary stands for.

Byte-level BPE (GPT-2, section 2.2 of its paper): each character of a token stands for one byte. SentencePiece with byte
fallback: `▁` is a space, `<0x0A>` is a byte, all else is UTF-8. Added tokens stand for their own text.
"""

from __future__ import annotations

import re
from typing import Any

from inference_worker.errors import UnsupportedModel

MAX_IDS = 2**22
"""Largest vocabulary accepted, so that a hostile file can't claim a huge table; real ones have under a million."""

_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def token_bytes(definition: dict[str, Any]) -> list[bytes]:
    """Return the bytes that each token stands for, a list by token id, from the content of a `tokenizer.json`.

    The bytes of unused ids are empty.

    Raises:
        UnsupportedModel: the decoder is neither byte-level BPE nor SentencePiece with byte fallback, or an id is out of
            range.
    """
    pieces = _pieces(definition["model"].get("vocab"))
    added = {token["id"]: token["content"] for token in definition.get("added_tokens") or []}
    if not all(type(id_) is int and 0 <= id_ < MAX_IDS for id_ in (*pieces, *added)):
        raise UnsupportedModel(f"the tokenizer has ids that are not numbers from 0 to {MAX_IDS - 1}")
    table = [b""] * (max((*pieces, *added), default=-1) + 1)
    to_bytes = _reader(definition.get("decoder"))
    for id_, piece in pieces.items():
        table[id_] = to_bytes(piece)
    for id_, content in added.items():
        table[id_] = content.encode()
    return table


def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's mapping of 256 printable characters to byte values, by which byte-level BPE writes tokens."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def _pieces(vocabulary: Any) -> dict[int, str]:
    if isinstance(vocabulary, dict):
        return {id_: piece for piece, id_ in vocabulary.items()}
    return {id_: piece for id_, (piece, _score) in enumerate(vocabulary or [])}


def _reader(decoder: dict[str, Any] | None) -> Any:
    kinds = _kinds(decoder)
    if "ByteLevel" in kinds:
        alphabet = byte_alphabet()

        def byte_level(piece: str) -> bytes:
            try:
                return bytes(map(alphabet.__getitem__, piece))
            except KeyError:
                return piece.encode()

        return byte_level
    if kinds & {"ByteFallback", "Metaspace", "Replace"}:
        return _sentence_piece
    raise UnsupportedModel(f"the tokenizer's decoder is of a kind that is not served: {sorted(kinds) or 'none'}")


def _sentence_piece(piece: str) -> bytes:
    byte = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()


def _kinds(decoder: dict[str, Any] | None) -> set[str]:
    if decoder is None:
        return set()
    return {decoder["type"]}.union(*map(_kinds, decoder.get("decoders") or []))
