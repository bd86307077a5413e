"""What tests read of an assistant's answer."""

from __future__ import annotations

from router.messages import ChatPrompt, Delta, Job, Step
from tests.fakes.fleet import Answer, FleetWorker


def ended_steps(answer: Answer) -> list[Step]:
    """The ended steps that came, in order."""
    deltas = [each for each in answer.replies if isinstance(each, Delta)]
    return [each.step for each in deltas if each.step is not None and each.step.state.ended]


def kinds(answer: Answer) -> list[tuple[str, str, str]]:
    """Kind, name and state of each step, running ones included."""
    steps = [each.step for each in answer.replies if isinstance(each, Delta) and each.step is not None]
    return [(step.kind, step.name, step.state.value) for step in steps]


def child_jobs(worker: FleetWorker) -> list[Job]:
    """The jobs of a worker that its engine has begun."""
    begun = {each.id for each in worker.engine.requests}
    return [each.job for each in worker.worker._consumer.attempts if begun]


def last_message(job: Job) -> str:
    """Text of the prompt's last message."""
    assert isinstance(job.prompt, ChatPrompt)
    return str(job.prompt.messages[-1]["content"])
