"""Builds prompts for fill-in-the-middle (Bavarian et al. 2022): prefix and suffix, between which the model writes.

Models differ only in the names of the three control tokens that separate the parts.
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
"""Names of the three tokens in Qwen and CodeGemma, StarCoder, SantaCoder, Code Llama, DeepSeek."""


def fill_in_ids(tokenizer: Tokenizer, text: str, suffix: str) -> list[int] | None:
    """Return the token ids of a prompt that has the model generate what stands between `text` and `suffix`.

    `None` if the model's vocabulary lacks the control tokens for that.
    """
    for names in _NAMES:
        marks = [tokenizer.added[name] for name in names if name in tokenizer.added]
        if len(marks) == len(names):
            before, between, end = marks
            parts = [before, *tokenizer.encode_inside(text), between, *tokenizer.encode_inside(suffix), end]
            return tokenizer.encode("") + parts
    return None
