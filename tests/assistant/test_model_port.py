"""Requests of the model port."""

from __future__ import annotations

from assistant.model_port import ModelPiece, ModelRequest
from router.messages import ToolMode


def test_a_request_is_greedy_and_free_by_default() -> None:
    request = ModelRequest("m", [{"role": "user", "content": "hi"}])
    assert (request.temperature, request.grammar, request.max_tokens) == (0.0, None, None)
    assert request.tool_choice.mode is ToolMode.AUTO
    assert ModelPiece() == ModelPiece(text="", tool_calls=(), token_ids=(), usage=None)
