"""Defines the vocabulary by which grammars match tokens: the bytes of each token, without a tokenizer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import llguidance


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model, as bytes, as a grammar matches them.

    Attributes:
        tokens: bytes by token id; empty for unused ids.
        controls: ids of control tokens. A grammar allows them only where it names them.
    """

    tokens: list[bytes]
    controls: frozenset[int]


def trie(vocabulary: Vocabulary, width: int, eos_token_ids: Collection[int]) -> llguidance.LLTokenizer:
    """Build llguidance's token trie of a vocabulary, which its matchers need; takes about 0.1 s.

    Args:
        width: number of tokens in a mask: the model's number of logits.
        eos_token_ids: ids of end-of-sequence tokens, at least one; allowed once the output is complete.
    """
    return llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(_Tokens(vocabulary, width, min(eos_token_ids))),
        n_vocab=width,
        eos_token=sorted(eos_token_ids),
    )


class _Tokens:
    """Adapter of a vocabulary to llguidance's tokenizer interface."""

    def __init__(self, vocabulary: Vocabulary, width: int, eos_token_id: int) -> None:
        known = vocabulary.tokens[:width]
        self.tokens = known + [b""] * (width - len(known))  # a draft may be any id; one out of range ends the matcher
        self.special_token_ids = sorted(token for token in vocabulary.controls if token < width)
        self.eos_token_id = eos_token_id
        self.bos_token_id = None

    def __call__(self, text: str | bytes) -> list[int]:
        """Return no ids: llguidance encodes only to find forced tokens, which `no_forcing` disables."""
        return []
