"""Filling in between two texts, for models trained to (Bavarian et al. 2022): prefix, suffix, then the middle.

Models disagree about the names of the three tokens that separate the parts only. Does not know requests.
"""

from __future__ import annotations

from inference_worker.tokenizer.tokenizer import Tokenizer

_NAMES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)
"""Qwen, CodeGemma; StarCoder; SantaCoder; Code Llama; DeepSeek."""


def fill_in_ids(tokenizer: Tokenizer, text: str, suffix: str) -> list[int] | None:
    """A prompt whose continuation belongs between `text` and `suffix`; `None`: the model has no tokens for it."""
    for names in _NAMES:
        marks = [tokenizer.added[name] for name in names if name in tokenizer.added]
        if len(marks) == len(names):
            before, between, end = marks
            parts = [before, *tokenizer.encode_inside(text), between, *tokenizer.encode_inside(suffix), end]
            return tokenizer.encode("") + parts
    return None
