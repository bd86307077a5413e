"""Builds the commands that answer workers' resume requests, and that dismiss replies to jobs which are not open."""

from __future__ import annotations

from typing import Any, get_args

from router import control_targets, messages
from router.messages import Reply, ResumeDecision, Terminal
from router.producer import recovery_events as events


def decision_on(
    worker_id: str, request: messages.ResumeRequest, decision: ResumeDecision, **continued: Any
) -> events.SendControl:
    """Return the command that sends a worker the `decision` on its resume request, with further fields of `Resume`."""
    answer = messages.Resume(job=request.job_id, attempt=request.attempt_id, decision=decision, **continued)
    return events.SendControl(control_targets.worker(worker_id), answer)


def dismiss(worker_id: str, reply: Reply) -> list[events.Command]:
    """Return the commands for a worker's reply to a job that is not open: drop it, stop the attempt, deny a resume."""
    if isinstance(reply, messages.ResumeRequest):
        return [decision_on(worker_id, reply, ResumeDecision.GONE)]
    drop = events.Drop(known=False, tokens=reply.positions if isinstance(reply, messages.Delta) else 0)
    stop = events.StopAttempt(worker_id, reply.job_id, reply.attempt_id, superseded=False)
    return [drop] if isinstance(reply, get_args(Terminal)) else [drop, stop]
