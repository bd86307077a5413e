"""Exceptions of preparing a job's prompt: its inputs, chat template, tokens and options.

WorkerError
└── PromptRejected    the model can't process a prompt or an option; the message is for the client
"""

from __future__ import annotations

from inference_worker.errors import WorkerError
from router.messages import FailureCode


class PromptRejected(WorkerError):
    """Raised when the model can't process a prompt or an option. The client gets `message`; `param` is the field."""

    def __init__(self, message: str, param: str, code: FailureCode = FailureCode.INVALID_PARAMETER) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
