"""Prompts in English: which are translated, and which answers of a model are taken."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from assistant.model_port import Embeddings, ModelCallFailed, ModelPiece, ModelRequest
from assistant.tools.prompt_translation import is_english, translate
from router.messages import Usage

USAGE = Usage(prompt_tokens=9, completion_tokens=4)


class Model:
    """Says one text; fails after it without one."""

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.requests: list[ModelRequest] = []

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        raise NotImplementedError

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        self.requests.append(request)
        if self.text is None:
            yield ModelPiece("a c")
            raise ModelCallFailed("gone")
        for each in self.text:
            yield ModelPiece(each)
        yield ModelPiece(usage=USAGE)


@pytest.mark.parametrize(
    ("prompt", "question", "english"),
    [
        ("a cat in a hat", "draw a cat in a hat", True),
        ("cat", "draw a cat", True),
        ("a cat in a hat", "narysuj kota w kapeluszu", True),
        ("kota w kapeluszu", "narysuj kota w kapeluszu", False),
        ("kota", "narysuj kota", False),
        ("żółw", "draw żółw", False),
        ("кот", "кот", False),
    ],
)
def test_a_prompt_that_is_not_english_is_translated(prompt: str, question: str, english: bool) -> None:
    assert is_english(prompt, question) is english


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("a cat in a hat", "a cat in a hat"),
        ('\n"A cat in a hat"\nThis is my translation.', "A cat in a hat"),
        ("", None),
        ("  \n ", None),
        ("kota w kapeluszu", None),
        ("Kota  w kapeluszu", None),
        ("kot jest w kapeluszu", None),
        ("żółty kot", None),
        ("0 1 2 3", None),
        ("a cat " * 100, None),
    ],
)
async def test_only_an_english_answer_of_another_text_is_taken(said: str, taken: str | None) -> None:
    model = Model(said)
    translation = await translate("kota w kapeluszu", model, "text", limit=100)
    assert translation == (taken, USAGE)
    assert model.requests[0].messages[-1] == {"role": "user", "content": "kota w kapeluszu"}


async def test_a_model_that_fails_translates_nothing() -> None:
    assert (await translate("kota", Model(None), "text", limit=100)).text is None
