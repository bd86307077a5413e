"""Defines the exceptions of the inference worker: rejected prompts, models that can't be served, engine failures.

WorkerError
├── NativeUnavailable          the compiled kernels can't be built or run on this machine or for this model
├── NativeError                a compiled kernel failed: out of memory
├── GrammarRejected            a grammar is invalid or too complex; the message is for the client
├── ImageRejected              an image of a prompt can't be read; the reason is for the client
├── ImageReaderFailed          the process that reads images failed, for a reason that is not an image's
├── PromptRejected             the model can't process a prompt or an option; the message is for the client
├── ModelError                 the model can't be served; the message is one line for the operator
│   ├── ModelNotFound          no such file, folder or repository, or it can't be reached
│   ├── UnsupportedModel       a valid model of a kind that the engine does not serve
│   └── BadWeights             a model file is damaged, incomplete or hostile
└── EngineError                the engine process is not running
    ├── EngineStartFailed      it could not start; the message is one line for the operator
    └── EngineDied             it exited, and the state of every request is lost
"""

from __future__ import annotations

from router.messages import FailureCode


class WorkerError(Exception):
    """Base class of the inference worker's exceptions."""


class NativeUnavailable(WorkerError):
    """Raised when the compiled kernels can't be built or run on this machine, or can't compute this model."""


class NativeError(WorkerError):
    """Raised when a compiled kernel fails for lack of memory."""


class GrammarRejected(WorkerError):
    """Raised when a grammar is invalid or too complex; the message is one line for the client."""


class PromptRejected(WorkerError):
    """Raised when the model can't process a prompt or an option. The client gets `message`; `param` is the field."""

    def __init__(self, message: str, param: str, code: FailureCode = FailureCode.INVALID_PARAMETER) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


class ImageRejected(WorkerError):
    """Raised when an image of a prompt can't be read; `index` counts its images, `reason` is for the client."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"image {index}: {reason}")
        self.index = index
        self.reason = reason


class ImageReaderFailed(WorkerError):
    """Raised when the images of a prompt were not read for a reason of the worker's; the message is for its log."""


class ModelError(WorkerError):
    """Raised when a model can't be served; the message is one line for the operator."""


class ModelNotFound(ModelError):
    """Raised when there is no model at the given path or Hugging Face id."""


class UnsupportedModel(ModelError):
    """Raised when a model is valid but of a kind that the engine does not serve."""


class BadWeights(ModelError):
    """Raised when a model file is damaged, incomplete or hostile."""


class EngineError(WorkerError):
    """Raised when the engine process is not running."""


class EngineStartFailed(EngineError):
    """Raised when the engine can't start; the message is one line for the operator."""


class EngineDied(EngineError):
    """Raised when the engine process exited; the state of all its requests is lost. The engine can be restarted.

    `elsewhere`: whether another model's engine in the process was computing, so no request of this one is at fault.
    """

    def __init__(self, message: str, *, elsewhere: bool = False) -> None:
        super().__init__(message)
        self.elsewhere = elsewhere
