"""Vocabularies of GGUF files give the words and token ids of llama.cpp; damaged ones are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.gguf_metadata import GGUFTokenizer
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.tokenizer.tokenizer_gguf import tokenizer_definition

PIECES = [
    "▁t", "he", "▁the", "in", "▁a", "er", "▁the▁", "at", "▁at", "on", "▁in", "the", "ing", "▁th", "▁ing", "th", "e▁a",
    "▁", "e", "t", "a", "o", "i", "n", "s", "h", "r", "g", "é", "<", ">", "0", "x", "A",
]  # fmt: skip
"""The pieces with the highest scores first."""
CONTROLS, BYTES = ["<unk>", "<s>", "</s>", "<|user|>"], [f"<0x{byte:02X}>" for byte in range(256)]
TOKENS = [*CONTROLS, *BYTES, *PIECES, "▁▁▁"]
FIRST_PIECE = len(CONTROLS) + len(BYTES)
RUN = len(TOKENS) - 1


def vocabulary(**changes: Any) -> GGUFTokenizer:
    found = GGUFTokenizer(
        model="llama",
        pre="default",
        tokens=TOKENS,
        token_types=[2, 3, 3, 3, *[6] * 256, *[1] * len(PIECES), 4],
        merges=[],
        scores=[0.0] * FIRST_PIECE + [-float(rank) for rank in range(len(PIECES))] + [0.0],
        bos_token_id=1,
        eos_token_ids=(2,),
        unknown_token_id=0,
        padding_token_id=None,
        add_bos_token=True,
        add_space_prefix=True,
        chat_template=None,
    )
    return replace(found, **changes)


def expected(text: str, *, prefix: bool) -> list[int]:
    """The tokens of llama.cpp: of all neighbours whose piece is in the vocabulary those with the highest score join."""
    rank = {piece: index for index, piece in enumerate(PIECES)}
    found: list[int] = []
    for index, part in enumerate(text.split("   ")):
        symbols = list((("▁" if prefix else "") + part).replace(" ", "▁")) if part else []
        while pairs := [(rank[a + b], at) for at, (a, b) in enumerate(pairwise(symbols)) if a + b in rank]:
            at = min(pairs)[1]
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        found += [RUN] if index else []
        for symbol in symbols:
            found += [FIRST_PIECE + rank[symbol]] if symbol in rank else [len(CONTROLS) + b for b in symbol.encode()]
    return found


@pytest.mark.parametrize("prefix", [True, False])
@given(text=st.text(alphabet="the aino sgré日🏳x<>0A", max_size=40))
@example(text="the thing at the inn   eating")
@example(text="<0x0A> <s>")
def test_ids_are_those_of_llama_cpp(prefix: bool, text: str) -> None:
    tokenizer = Tokenizer(tokenizer_definition(vocabulary(add_space_prefix=prefix)))
    assert tokenizer.encode(text) == [1, *expected(text, prefix=prefix)]
    ids = expected(text, prefix=prefix)
    decoded = tokenizer.decode(ids, skip_controls=False)
    assert decoded.replace(" ", "") == text.replace(" ", "")


def test_control_tokens_of_a_template_are_kept_apart_from_text() -> None:
    tokenizer = Tokenizer(tokenizer_definition(vocabulary(add_space_prefix=False)))
    assert tokenizer.encode_rendered("<s><|user|>the", "") == [1, 3, FIRST_PIECE + PIECES.index("the")]
    assert 3 not in tokenizer.encode("<|user|>")


def test_words_of_the_pre_tokenizer_of_gpt_oss() -> None:
    """A capital begins a word, contractions stay with theirs, and slashes with the line's end."""
    definition = tokenizer_definition(vocabulary(model="gpt2", pre="gpt-4o", scores=[]))
    split = tokenizers.Tokenizer.from_str(json.dumps(definition)).pre_tokenizer
    words = [word for word, _ in split.pre_tokenize_str("HelloWorld it's 12345 http://a/\nB")]
    assert words == ["Hello", "World", "Ġit's", "Ġ", "123", "45", "Ġhttp", "://", "a", "/Ċ", "B"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "bert"}, UnsupportedModel, "'bert'"),
        ({"scores": [0.0]}, BadWeights, "1 scores"),
        ({"token_types": [1]}, BadWeights, "1 types"),
        ({"unknown_token_id": 10**6}, BadWeights, "special token 1000000"),
        ({"bos_token_id": -1}, BadWeights, "special token -1"),
        ({"tokens": [*TOKENS[:-2], "a" * 2000, "▁▁▁"]}, BadWeights, "a piece of more than"),
    ],
)
def test_damaged_vocabularies(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tokenizer_definition(vocabulary(**changes))
