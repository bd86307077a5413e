"""Counts the tokens of a request for its rate limits: of the answer, and of an assistant's steps, by model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from auth_billing.prices.pricing import TOOL_PREFIX
from auth_billing.rate_limits.limiter import TokenUse
from router.messages import ChatPrompt, Job, Usage, UsagePart
from router.model_registry import ModelInfo


def token_use(model: ModelInfo, jobs: Sequence[Job], answer: Usage, parts: Iterable[UsagePart]) -> TokenUse:
    """Return the tokens that rate limits charge for `jobs` of `model`, by the usage of the `answer` and of `parts`.

    The answer of an assistant counts at the assistant and at the model that writes it, a part at its own model. Calls
    of tools have no tokens.
    """
    answered = answer.prompt_tokens + answer.completion_tokens
    of_models = Counter({model.name: answered})
    if answered:
        images = any(isinstance(job.prompt, ChatPrompt) and job.prompt.images for job in jobs)
        of_models.update(dict.fromkeys(model.sees_with if images else model.answers_with, answered))
    steps = 0
    for part in parts:
        if not part.model.startswith(TOOL_PREFIX):
            tokens = part.usage.prompt_tokens + part.usage.completion_tokens
            of_models.update({part.model: tokens})
            steps += tokens
    return TokenUse(answered + steps, of_models)
