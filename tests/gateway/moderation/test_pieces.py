"""Pieces of texts fit into the context, and leave nothing out."""

from __future__ import annotations

import pytest

from gateway.moderation.pieces import MAX_PIECE_BYTES, pieces
from router.messages import PromptBounds, Task
from router.model_registry import ModelInfo, ModelRegistry
from tests.contract.examples import msgspec_replace
from tests.fakes.scripted_worker import status


def model(context: int, per_text: int = 2) -> ModelInfo:
    registry = ModelRegistry(lambda: 0.0)
    bounds = PromptBounds(per_byte=1, per_text=per_text)
    registry.observe(msgspec_replace(status("m", max_model_len=context, task=Task.SCORE), prompt_bounds=bounds))
    found = registry.find("m")
    assert found is not None
    return found


@pytest.mark.parametrize("text", ["", "short", "x" * 62])
def test_a_text_that_fits_is_one_piece(text: str) -> None:
    assert pieces(text, model(64)) == [text]


def test_pieces_are_in_the_form_that_rules_read() -> None:
    assert pieces("p\u200bi\u00adpe \u202ebomb \uff42", model(64)) == ["pipe bomb b"]


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"word{number}" for number in range(500)),
        "".join(f"{number:05}" for number in range(1000)),
        "".join(chr(0x4E00 + number) for number in range(3000)),
        "".join(chr(0x1F300 + number) for number in range(700)),
        "a " + "".join(chr(0x400 + number) for number in range(300)) + " " + "".join(map(str, range(100, 900))),
    ],
)
@pytest.mark.parametrize("context", [18, 64, 100_000])
def test_long_texts(text: str, context: int) -> None:
    split = pieces(text, model(context))
    assert max(len(each.encode()) for each in split) <= min(context - 2, MAX_PIECE_BYTES)
    end = 0
    for piece in split:
        start = text.find(piece, max(0, end - len(piece)))
        assert 0 <= start <= end  # it overlaps the one before, or follows it
        end = max(end, start + len(piece))
    assert end == len(text)


def test_a_word_at_the_end_of_a_piece_is_whole_in_the_next() -> None:
    text = " ".join(f"word{number:03}" for number in range(100))
    split = pieces(text, model(66))
    assert len(split) > 10
    assert all(any(f"word{number:03}" in piece for piece in split) for number in range(100))
