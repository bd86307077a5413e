"""Converts the vocabulary in a GGUF model file to the content of a Hugging Face `tokenizer.json`.

Byte-level BPE (`gpt2`) with a pre-tokenizer listed here, because a GGUF names its pre-tokenizer but does not describe
it, and SentencePiece BPE (`llama`). The regular expressions are those of the models' `tokenizer.json` files and of
llama.cpp's `llama-vocab.cpp`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Any

from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.gguf_metadata import GGUFTokenizer

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
"""Values of `tokenizer.ggml.token_type`."""

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_WORD_START, _CONTRACTION = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_GPT4O = (
    rf"{_WORD_START}[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]+{_CONTRACTION}"
    rf"|{_WORD_START}[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*{_CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "smaug-bpe": _LLAMA3,
    "dbrx": _LLAMA3,
    "qwen2": _QWEN2,
    "gpt-4o": _GPT4O,
}
_GPT2_LIKE = {"gpt-2", "olmo", "default", ""}
_DIGITS_FIRST = {"smollm", "starcoder", "refact", "command-r"}

_LONGEST_PIECE = 1024
"""Characters of a SentencePiece piece: a hostile file may have one so long that finding its merges hangs."""


def tokenizer_definition(gguf: GGUFTokenizer) -> dict[str, Any]:
    """Convert the tokenizer of a GGUF file to the content of a Hugging Face `tokenizer.json`, and return that.

    Raises:
        BadWeights: the vocabulary is damaged.
        UnsupportedModel: the kind of tokenizer or its pre-tokenizer is not served.
    """
    if gguf.model == "gpt2":
        return _byte_level_bpe(gguf)
    if gguf.model == "llama":
        return _sentence_piece_bpe(_with_plain_spaces(gguf))
    raise UnsupportedModel(
        f"GGUF tokenizer of kind {gguf.model!r}: byte-level BPE (gpt2) and SentencePiece (llama) are served"
    )


def _byte_level_bpe(gguf: GGUFTokenizer) -> dict[str, Any]:
    return {
        "version": "1.0",
        "added_tokens": _added_tokens(gguf),
        "normalizer": {"type": "NFC"} if gguf.pre == "qwen2" else None,
        "pre_tokenizer": _pre_tokenizer(gguf.pre),
        "post_processor": _post_processor(gguf),
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {token: id_ for id_, token in enumerate(gguf.tokens)},
            "merges": [merge.split(" ") for merge in gguf.merges],
            "ignore_merges": gguf.pre in ("llama-bpe", "llama3"),
            "byte_fallback": False,
        },
    }


def _sentence_piece_bpe(gguf: GGUFTokenizer) -> dict[str, Any]:
    """SentencePiece joins the neighbours whose piece has the highest score: BPE with merges in the order of scores."""
    if not len(gguf.tokens) == len(gguf.scores) == len(gguf.token_types):
        raise BadWeights(f"{len(gguf.tokens)} tokens with {len(gguf.scores)} scores and {len(gguf.token_types)} types")
    prefix: list[dict[str, Any]] = [{"type": "Prepend", "prepend": "▁"}] if gguf.add_space_prefix else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if gguf.add_space_prefix else []
    to_space: dict[str, Any] = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    return {
        "version": "1.0",
        "added_tokens": _added_tokens(gguf),
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*prefix, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}],
        },
        "pre_tokenizer": None,
        "post_processor": _post_processor(gguf),
        "decoder": {"type": "Sequence", "decoders": [to_space, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        "model": {
            "type": "BPE",
            "vocab": {token: id_ for id_, token in enumerate(gguf.tokens)},
            "merges": _sentence_piece_merges(gguf),
            "unk_token": None if gguf.unknown_token_id is None else _token(gguf, gguf.unknown_token_id),
            "fuse_unk": True,
            "ignore_merges": False,
            "byte_fallback": True,
        },
    }


def _with_plain_spaces(gguf: GGUFTokenizer) -> GGUFTokenizer:
    """Write user-defined pieces with spaces: they are found in a text before its spaces are replaced."""
    typed = zip_longest(gguf.tokens, gguf.token_types[: len(gguf.tokens)])
    return replace(gguf, tokens=[t.replace("▁", " ") if kind == USER_DEFINED else t for t, kind in typed])


def _sentence_piece_merges(gguf: GGUFTokenizer) -> list[list[str]]:
    """Return all pairs of pieces that make a third, those of the highest score first, then those of the longest left.

    `transformers` sorts them so too when it converts a SentencePiece model.
    """
    scores = {
        token: score
        for token, score, kind in zip(gguf.tokens, gguf.scores, gguf.token_types, strict=True)
        if kind == NORMAL
    }
    if max(map(len, scores), default=0) > _LONGEST_PIECE:
        raise BadWeights(f"the vocabulary has a piece of more than {_LONGEST_PIECE} characters")
    merges = [
        (score, token[:at], token[at:])
        for token, score in scores.items()
        for at in range(1, len(token))
        if token[:at] in scores and token[at:] in scores
    ]
    merges.sort(key=lambda merge: (-merge[0], -len(merge[1])))
    return [[left, right] for _, left, right in merges]


def _token(gguf: GGUFTokenizer, id_: int) -> str:
    if type(id_) is not int or not 0 <= id_ < len(gguf.tokens):
        raise BadWeights(f"special token {id_!r} of a vocabulary of {len(gguf.tokens)}")
    return gguf.tokens[id_]


def _added_tokens(gguf: GGUFTokenizer) -> list[dict[str, Any]]:
    return [
        {
            "id": id_,
            "content": token,
            "special": kind == CONTROL,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for id_, (token, kind) in enumerate(zip(gguf.tokens, gguf.token_types, strict=False))
        if kind in (CONTROL, USER_DEFINED)
    ]


def _pre_tokenizer(name: str) -> dict[str, Any]:
    if name in _GPT2_LIKE:
        return _byte_level(use_regex=True)
    if name in _DIGITS_FIRST:
        return _sequence({"type": "Digits", "individual_digits": True}, _byte_level(use_regex=True))
    if name in _SPLITS:
        split = {"type": "Split", "pattern": {"Regex": _SPLITS[name]}, "behavior": "Isolated", "invert": False}
        return _sequence(split, _byte_level(use_regex=False))
    raise UnsupportedModel(f"GGUF pre-tokenizer {name!r} is not known here; serve the model's original folder instead")


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


def _post_processor(gguf: GGUFTokenizer) -> dict[str, Any] | None:
    if not gguf.add_bos_token or gguf.bos_token_id is None:
        return None
    token = _token(gguf, gguf.bos_token_id)
    begin = {"SpecialToken": {"id": token, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [begin, text],
        "pair": [begin, text, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {token: {"id": token, "ids": [gguf.bos_token_id], "tokens": [token]}},
    }
