"""Checks the prompts and answers of projects that have a moderation policy, by a classifier or by the operator's rules.

Every job is submitted by `gateway/jobs/submission.py`, which asks here; so requests of all routes and dialects are
checked, those of batches, background responses and the web chat included. A check that fails refuses the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from auth_billing.access.model_access import ALL_MODELS, ModelAccess
from auth_billing.people.moderation_policies import ModerationPolicies, ModerationPolicy
from gateway.admission.controller import AdmittedRequest
from gateway.admission.model_catalogue import ModelCatalogue
from gateway.errors import ModelNotFound, ModerationUnavailable, PromptBlocked
from gateway.jobs.generation_services import GenerationServices
from gateway.moderation.answer_guard import AnswerGuard, Window
from gateway.moderation.checked_texts import prompt_texts
from gateway.moderation.classifier import check_jobs, classify
from gateway.moderation.rules import CUT, RULES_MODEL, ModerationRules
from gateway.moderation.visible_text import visible
from router.errors import PublishError
from router.messages import ChatPrompt, ImagePrompt, Job, TextPrompt, TokenPrompt, Usage, UsagePart
from router.model_registry import ModelInfo
from router.producer.errors import GenerationError, ModelUnavailable
from router.usage_arithmetic import total
from router.usage_bound import max_usage

DEFAULT_MODEL = "omni-moderation-latest"
"""OpenAI's name for the model of a request of `/v1/moderations` that names none."""
OPENAI_MODELS = frozenset(
    {DEFAULT_MODEL, "omni-moderation-2024-09-26", "text-moderation-latest", "text-moderation-stable"}
)
"""OpenAI's moderation models, which the rules stand for unless a model or alias has the name."""
CHECK_TIMEOUT = 60.0
"""Seconds that one check may take."""
WINDOW = 160
"""New characters of an answer from which a classifier checks them; the rules check at once."""
ANSWER_TOKENS = 16
"""Most tokens that the checks of an answer are billed for each of its tokens: eight bytes, read twice."""

_NO_DEFAULT = (
    "You must provide a model: the operator of this service has chosen none for moderation requests without one."
)

_log = structlog.get_logger(__name__)


class RequestModeration:
    """The checks of one request's prompts and answers by its project's policy."""

    def __init__(
        self,
        moderation: Moderation,
        policy: ModerationPolicy,
        model: ModelInfo | None,
        admitted: AdmittedRequest,
        jobs: Sequence[Job],
    ) -> None:
        """`model`: the classifier that `policy` names; `None`: the rules.

        Raises:
            InvalidRequest: a prompt consists of token ids.
        """
        self._services = moderation.services
        self._rules = moderation.rules
        self._policy = policy
        self._model = model
        self._jobs = jobs
        self._prompts = [text for job in jobs for text in prompt_texts(job.prompt)] if policy.prompts else []
        self._checks = 0
        """Number of check jobs until now."""
        self.used: Callable[[UsagePart], None] = lambda _: None
        """Called with what each check used."""
        self.bound = () if model is None else self._bound(model, admitted)
        """The most that the checks are billed, by model."""

    async def check_prompts(self) -> None:
        """Check the prompts of the request, unless the policy leaves them out or an answer to them has begun.

        Raises:
            PromptBlocked: a category that blocks was found.
            InvalidRequest: the prompts are too long to be checked.
            ModerationUnavailable: the check failed.
        """
        if not self._prompts or any(job.begun for job in self._jobs):
            return
        if found := frozenset[str]().union(*await self._found(self._prompts, "prompt")):
            raise PromptBlocked(sorted(found))

    @property
    def guard(self) -> AnswerGuard | None:
        """Guard that holds the answers of the request back until they are checked; `None`: they are not checked."""
        if not self._policy.answers:
            return None
        choices = len(self._jobs) * self._jobs[0].n
        return AnswerGuard(choices, self._is_blocked, window=0 if self._model is None else WINDOW)

    async def _is_blocked(self, windows: Sequence[Window]) -> list[bool]:
        cut = CUT if self._model is None else ""
        texts = [("" if each.begins else cut) + visible(each.text) + ("" if each.ends else cut) for each in windows]
        return [bool(found) for found in await self._found(texts, "answer")]

    async def _found(self, texts: Sequence[str], kind: str) -> list[frozenset[str]]:
        """Return the categories that block each of the texts, which are a `prompt` or an `answer`."""
        checks = self._services.metrics.moderation_checks
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                scores = await self._scores(texts)
        except (GenerationError, PublishError, TimeoutError) as error:
            _log.warning("moderation failed", job=self._jobs[0].id, model=self._policy.model, reason=repr(error))
            checks.labels(kind, "failed").inc()
            raise ModerationUnavailable from error
        blocking = self._policy.categories
        found = [self._rules.flagged(each) for each in scores]
        found = found if blocking is None else [each & blocking for each in found]
        checks.labels(kind, "blocked" if any(found) else "passed").inc()
        return found

    async def _scores(self, texts: Sequence[str]) -> list[dict[str, float]]:
        if self._model is None:
            return await self._rules.match(texts)
        jobs = check_jobs(texts, self._model, self._jobs[0], self._checks)
        self._checks += len(jobs)
        classified = await classify(self._services, texts, self._model, jobs, self._rules)
        self.used(UsagePart(model=self._model.name, usage=classified.usage))
        return classified.scores

    def _bound(self, model: ModelInfo, admitted: AdmittedRequest) -> tuple[UsagePart, ...]:
        checks = check_jobs(self._prompts, model, self._jobs[0], 0)
        used = [max_usage(job, model.longest_model_len, model.prompt_bounds) for job in checks]
        if self._policy.answers:
            of = admitted.model
            answers = (max_usage(job, of.longest_model_len, of.prompt_bounds).completion_tokens for job in self._jobs)
            used.append(Usage(prompt_tokens=ANSWER_TOKENS * sum(answers)))
        return (UsagePart(model=model.name, usage=total(used)),)


@dataclass(frozen=True)
class Moderation:
    """Moderation of one gateway: finds the policies of requests, and the models or rules that they name."""

    services: GenerationServices
    catalogue: ModelCatalogue
    rules: ModerationRules
    policies: ModerationPolicies

    async def of_request(self, admitted: AdmittedRequest, jobs: Sequence[Job]) -> RequestModeration | None:
        """Return the checks of an admitted request; `None` if its project has no policy or its jobs generate nothing.

        Raises:
            InvalidRequest: a prompt can't be checked; `param` names it.
            ModerationUnavailable: the policy's model is not served, or there are no rules.
            StoreUnavailable: the policy is not known.
        """
        if not isinstance(jobs[0].prompt, ChatPrompt | TextPrompt | TokenPrompt | ImagePrompt):
            return None
        principal = admitted.principal
        policy = await self.policies.of_request(principal.tenant, principal.project)
        if policy is None:
            return None
        try:
            model = self.find(policy.model)
        except (ModelNotFound, ModelUnavailable) as error:
            _log.warning("a moderation model is not served", tenant=principal.tenant, model=policy.model)
            raise ModerationUnavailable from error
        return RequestModeration(self, policy, model, admitted, jobs)

    def names(self) -> list[str]:
        """Return the names by which a policy can choose the rules, if there are some, and the served classifiers."""
        listed = self.catalogue.listed(ALL_MODELS)
        classifiers = [name for name, each in listed if each.recently_alive and any(self.rules.meaning(each.labels))]
        return [RULES_MODEL, *classifiers] if self.rules.matchers else classifiers

    def requested(self, name: str | None, access: ModelAccess) -> ModelInfo | None:
        """Return the classifier of a request of `/v1/moderations`, which may name none; `None`: the operator's rules.

        Raises:
            ModelNotFound, ModelUnavailable: As `find` does.
        """
        if name is not None:
            return self.find(name, access)
        try:
            return self.find(DEFAULT_MODEL, access)
        except ModelNotFound as error:
            raise ModelNotFound(_NO_DEFAULT, param="model") from error

    def find(self, name: str, access: ModelAccess = ALL_MODELS) -> ModelInfo | None:
        """Return the classifier with this name or alias; `None` if the name stands for the operator's rules.

        Raises:
            ModelNotFound: no classifier has this name, or the caller may not use it, or there are no rules.
            ModelUnavailable: no worker has served it within the last minute.
        """
        if self.rules.matchers and name == RULES_MODEL:
            return None
        try:
            model = self.catalogue.find(name, access)
        except (ModelNotFound, ModelUnavailable):
            if self.rules.matchers and name in OPENAI_MODELS:
                return None
            raise
        if not any(self.rules.meaning(model.labels)):
            raise ModelNotFound(f"The model '{model.name}' is no moderation model.", param="model")
        if not model.recently_alive:
            raise ModelUnavailable
        return model
