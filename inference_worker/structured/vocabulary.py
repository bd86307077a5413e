"""What a grammar has to know of a vocabulary: the bytes of each token. Knows no tokenizer: nothing is ever encoded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import llguidance


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model.

    Attributes:
        tokens: bytes by token id; empty for ids that nothing has.
        controls: ids that are no text. A grammar allows them only where it names them.
    """

    tokens: list[bytes]
    controls: frozenset[int]


def trie(vocabulary: Vocabulary, width: int, eos_token_ids: Collection[int]) -> llguidance.LLTokenizer:
    """Index a vocabulary for masks of `width` tokens (what the model gives scores for); takes about 0.1 s.

    Args:
        eos_token_ids: at least one; they end what a grammar matches.
    """
    return llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(_Tokens(vocabulary, width, min(eos_token_ids))),
        n_vocab=width,
        eos_token=sorted(eos_token_ids),
    )


class _Tokens:
    """In the shape that the library asks for."""

    def __init__(self, vocabulary: Vocabulary, width: int, eos_token_id: int) -> None:
        self.tokens = vocabulary.tokens[:width]
        self.special_token_ids = sorted(token for token in vocabulary.controls if token < width)
        self.eos_token_id = eos_token_id
        self.bos_token_id = None

    def __call__(self, text: str | bytes) -> list[int]:
        """Asked for only to guess at forced tokens, which we never do."""
        return []
