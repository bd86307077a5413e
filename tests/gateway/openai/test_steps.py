"""Steps as responses show them: without what they used."""

from __future__ import annotations

import msgspec

from gateway.openai.steps import AnswerStep
from router.messages import StepState
from stored_objects.blobs.blobs import new_blob_id
from tests.contract.examples import STEPS


def test_a_step_is_shown_without_its_usage() -> None:
    shown = AnswerStep.of(STEPS[1], lambda blob: f"https://x/{blob}").model_dump()
    assert shown == {
        "number": 1,
        "kind": "tool",
        "name": "weather",
        "state": "failed",
        "data": STEPS[1].data,
    }


def test_images_of_a_step_get_their_addresses() -> None:
    blob = new_blob_id()
    data = {"result": {"type": "image", "images": [{"blob": blob}]}}
    step = msgspec.structs.replace(STEPS[1], state=StepState.DONE, data=data)
    shown = AnswerStep.of(step, lambda blob: f"https://x/{blob}")
    assert shown.data["result"]["images"] == [{"blob": blob, "url": f"https://x/{blob}"}]
    assert data["result"]["images"] == [{"blob": blob}]
