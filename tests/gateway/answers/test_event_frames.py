"""Event frames are ASCII, and no text can break out of one."""

from __future__ import annotations

import json

import pytest

from gateway.answers.event_frames import ChunkFrames, compact, frame


def data_of(text: str) -> dict[str, object]:
    assert text.isascii()
    assert text.startswith("data: ")
    assert text.endswith("\n\n")
    assert text.count("\n") == 2
    value: dict[str, object] = json.loads(text.removeprefix("data: "))
    return value


def test_line_separators_stay_inside_a_frame() -> None:
    text = "a\n\r\u2028\u0085data: {}\n\n\N{GRINNING FACE}"
    assert data_of(frame({"text": text})) == {"text": text}


def test_not_a_number_is_not_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        compact({"x": float("nan")})


@pytest.mark.parametrize("usage", [True, False])
def test_every_chunk_has_the_shared_fields(usage: bool) -> None:
    frames = ChunkFrames({"id": "x", "object": "chunk"}, usage=usage)
    chunk = data_of(frames.choice('{"index":0}', ',"prompt_token_ids":[1]'))
    expected = {"id": "x", "object": "chunk", "choices": [{"index": 0}], "prompt_token_ids": [1]}
    assert chunk == (expected | {"usage": None} if usage else expected)
    assert data_of(frames.usage({"total_tokens": 3})) == {
        "id": "x",
        "object": "chunk",
        "choices": [],
        "usage": {"total_tokens": 3},
    }
