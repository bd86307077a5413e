"""Errors of the inference worker, drawn as a tree.

    WorkerError
    └── ModelError                 the model can't be served; the message is one line for the operator
        ├── ModelNotFound          no such file, folder or repository, or it can't be reached
        ├── UnsupportedModel       understood, but outside what the engine serves
        └── BadWeights             a file is damaged, incomplete or hostile

This module does not know HTTP, queues or torch.
"""

from __future__ import annotations


class WorkerError(Exception):
    """Base of everything that this package raises on purpose."""


class ModelError(WorkerError):
    """The model can't be served."""


class ModelNotFound(ModelError):
    """There is no model at the place named."""


class UnsupportedModel(ModelError):
    """The model is understood, but the engine does not serve its kind."""


class BadWeights(ModelError):
    """A model file is damaged, incomplete or hostile."""
