"""Errors of the text layer. Knows no queue and no HTTP; `code` is the wire's word for what went wrong.

WorkerError
└── PromptRejected    this prompt can't be generated from; the message is for the client
"""

from __future__ import annotations

from inference_worker.errors import WorkerError
from router.messages import FailureCode


class PromptRejected(WorkerError):
    """A prompt or option that the model can't take. `message` is for the client, `param` names the field."""

    def __init__(self, code: FailureCode, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
