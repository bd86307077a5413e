"""Exceptions of structured output.

WorkerError
└── GrammarRejected    the grammar is invalid or too complex; the message is for the client
"""

from __future__ import annotations

from inference_worker.errors import WorkerError


class GrammarRejected(WorkerError):
    """Raised when a grammar is invalid or too complex; the message is one line for the client."""
