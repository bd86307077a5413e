"""Converts the vocabulary in a GGUF model file to the content of a Hugging Face `tokenizer.json`.

Only byte-level BPE with a pre-tokenizer listed here: a GGUF names its pre-tokenizer but does not describe it.
The regular expressions are those of the models' `tokenizer.json` files and of llama.cpp's `llama-vocab.cpp`.
"""

from __future__ import annotations

from typing import Any

from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.gguf_metadata import GGUFTokenizer

CONTROL, USER_DEFINED = 3, 4
"""Values of `tokenizer.ggml.token_type`."""

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_SPLITS = {"llama-bpe": _LLAMA3, "llama3": _LLAMA3, "smaug-bpe": _LLAMA3, "qwen2": _QWEN2}
_GPT2_LIKE = {"gpt-2", "default", ""}
_DIGITS_FIRST = {"smollm", "starcoder", "refact", "command-r"}


def tokenizer_definition(gguf: GGUFTokenizer) -> dict[str, Any]:
    """Convert the tokenizer of a GGUF file to the content of a Hugging Face `tokenizer.json`, and return that.

    Raises:
        UnsupportedModel: the tokenizer is not byte-level BPE, or its pre-tokenizer is not listed here.
    """
    if gguf.model != "gpt2":
        raise UnsupportedModel(
            f"GGUF tokenizer of kind {gguf.model!r}: only byte-level BPE (gpt2) is served from a .gguf"
        )
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
    token = gguf.tokens[gguf.bos_token_id]
    begin = {"SpecialToken": {"id": token, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [begin, text],
        "pair": [begin, text, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {token: {"id": token, "ids": [gguf.bos_token_id], "tokens": [token]}},
    }
