"""Embedding answers are valid OpenAI bodies whose numbers are exact."""

from __future__ import annotations

import base64
from array import array

from gateway.answers.embedding_answer import write
from gateway.openai.embeddings import EmbeddingList
from router.messages import Usage

NUMBERS = array("f", [0.1, -1.0, 3.4028235e38, 1e-45])
USAGE = Usage(prompt_tokens=7, completion_tokens=0)


def test_floats_are_restored_exactly() -> None:
    written = write([NUMBERS.tobytes()] * 2, model='a "model"', usage=USAGE, as_base64=False)
    answer = EmbeddingList.model_validate_json(written)
    assert [each.index for each in answer.data] == [0, 1]
    assert array("f", answer.data[1].embedding) == NUMBERS
    assert (answer.model, answer.usage.prompt_tokens, answer.usage.total_tokens) == ('a "model"', 7, 7)


def test_base64_has_the_bytes_themselves() -> None:
    answer = EmbeddingList.model_validate_json(write([NUMBERS.tobytes()], model="m", usage=USAGE, as_base64=True))
    assert base64.b64decode(str(answer.data[0].embedding)) == NUMBERS.tobytes()
