"""Jobs for tests."""

from __future__ import annotations

from typing import Any

from router.messages import Job, SamplingParams, TextPrompt


def make_job(id: str = "j", **fields: Any) -> Job:
    """Return a job with defaults for the fields that are not given."""
    defaults: dict[str, Any] = {
        "model": "m",
        "tenant": "t",
        "reply_to": "g",
        "created": 0.0,
        "deadline": 1.0,
        "prompt": TextPrompt("x"),
        "sampling": SamplingParams(seed=1),
    }
    return Job(id=id, **{**defaults, **fields})
