"""Errors of the inference worker, drawn as a tree.

    WorkerError
    ├── NativeUnavailable          the compiled kernels can't be built or run here, or not for this model
    ├── NativeError                a compiled kernel failed: no memory
    ├── ModelError                 the model can't be served; the message is one line for the operator
    │   ├── ModelNotFound          no such file, folder or repository, or it can't be reached
    │   ├── UnsupportedModel       understood, but outside what the engine serves
    │   └── BadWeights             a file is damaged, incomplete or hostile
    └── EngineError                the engine process is not there
        ├── EngineStartFailed      it can't start; the message is one line for the operator
        └── EngineDied             it has gone, and with it the state of every request

This module does not know HTTP, queues or torch.
"""

from __future__ import annotations


class WorkerError(Exception):
    """Base of everything that this package raises on purpose."""


class NativeUnavailable(WorkerError):
    """The compiled kernels can't be built or run here, or can't compute this model; the message says why."""


class NativeError(WorkerError):
    """A compiled kernel failed."""


class ModelError(WorkerError):
    """The model can't be served."""


class ModelNotFound(ModelError):
    """There is no model at the place named."""


class UnsupportedModel(ModelError):
    """The model is understood, but the engine does not serve its kind."""


class BadWeights(ModelError):
    """A model file is damaged, incomplete or hostile."""


class EngineError(WorkerError):
    """The engine process is not there."""


class EngineStartFailed(EngineError):
    """The engine can't start; the message is one line for the operator."""


class EngineDied(EngineError):
    """The engine has gone, and with it the state of every request. It can be started again."""
