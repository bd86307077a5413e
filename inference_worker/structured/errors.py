"""Errors of structured output.

WorkerError
└── GrammarRejected    not a grammar, or too much work; the message is for the client
"""

from __future__ import annotations

from inference_worker.errors import WorkerError


class GrammarRejected(WorkerError):
    """A grammar that can't be used; the message is one line for the client."""
