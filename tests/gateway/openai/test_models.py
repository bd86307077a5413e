"""Models of `/v1/models`."""

from __future__ import annotations

from gateway.openai.models import Model, ModelList
from router.messages import Task


def test_a_model_is_written_with_vllms_extensions() -> None:
    model = Model(
        id="alias", root="org/model", created=1, max_model_len=2048, task=Task.EMBED, input_modalities=["text"]
    )
    assert ModelList(data=[model]).model_dump(mode="json") == {
        "object": "list",
        "data": [
            {
                "id": "alias",
                "object": "model",
                "created": 1,
                "owned_by": "headrace",
                "root": "org/model",
                "max_model_len": 2048,
                "task": "embed",
                "input_modalities": ["text"],
            }
        ],
    }
