"""Admission control of the gateway: accepts or refuses a request by model, length and wait, before it is queued.

Decisions use only local state: the model registry, queue estimates and health flags. So a refusal is as fast as an
admission, holds no resources, and calls neither the broker nor the store (docs/design/queue-topology.md#back-pressure).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from auth_billing.access.principal import Principal
from gateway.admission.model_catalogue import ModelCatalogue
from gateway.admission.queue_estimator import QueueEstimator
from gateway.admission.self_protection import SelfProtection
from gateway.errors import ContextLengthExceeded, InvalidRequest, Overloaded
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.images import AUTO_SIZE, ImageRequest
from gateway.openai.messages import image_urls, text_of
from gateway.openai.scores import MAX_CANDIDATES
from router.messages import ScorePrompt, ServiceClass, Task
from router.model_registry import ModelInfo
from router.producer.errors import ModelUnavailable

GenerationRequest = ChatCompletionRequest | CompletionRequest

_CLASSES = {
    "auto": ServiceClass.DEFAULT,
    "default": ServiceClass.DEFAULT,
    "flex": ServiceClass.FLEX,
    "priority": ServiceClass.PRIORITY,
    "fast": ServiceClass.PRIORITY,
}
"""Service classes by `service_tier`."""


BEGIN_TIMEOUT_FACTOR = 3.0
"""Multiple of the maximum estimated wait after which an admitted job that no worker has begun expires."""
MIN_BEGIN_TIMEOUT = 30.0
"""Minimum of that timeout in seconds."""
MAX_WAITING_PER_SLOT = 4
"""Maximum number of waiting sequences per slot of a fleet whose throughput was not measured yet."""
UNMEASURED_RETRY_AFTER = 5.0
"""`Retry-After` in seconds while a fleet is full and its throughput was not measured yet."""


_BUDGET = "test_time_compute.budget_tokens"
_VERIFIER = "test_time_compute.verifier"
_NO_VERIFIER = "No worker is serving the verifier at the moment. Please try again later."


@dataclass(frozen=True)
class AdmittedRequest:
    """An admitted request: its caller, model, service class and the time by which a worker must begin it."""

    principal: Principal
    model: ModelInfo
    service_class: ServiceClass
    begin_by: float
    """Unix time after which a job that no worker has begun expires."""
    verifier: ModelInfo | None = None
    """Model that scores the paths of a search; `None` if there is none."""


@dataclass(eq=False, repr=False)
class AdmissionController:
    """Accepts or refuses requests by model, length and estimated wait; `submission.py` holds their credit later."""

    protection: SelfProtection
    catalogue: ModelCatalogue
    queues: QueueEstimator
    _: KW_ONLY
    max_choices: int
    max_search_tokens: int
    """Maximum budget of a search in tokens."""
    max_wait: Mapping[ServiceClass, float]
    """Maximum estimated queueing time in seconds, by service class."""

    async def admit(self, principal: Principal, body: GenerationRequest) -> AdmittedRequest:
        """Check whether a chat completion or completion may be queued; return its admission: model and start deadline.

        Raises:
            InvalidRequest: The request has more choices or a larger search than the operator allows, the model does not
                generate text or does not search, or the verifier does not score.
            ModelNotFound: The model or the verifier is unknown, or the caller may not use it.
            ModelUnavailable: No worker has served the model, or the verifier, within the last minute.
            BrokerDown: The connection to the broker is down.
            Overloaded: The estimated wait is too long, or this gateway is overloaded.
            ContextLengthExceeded: The prompt is too long under any tokenisation.
        """
        if body.candidates > self.max_choices:
            param = "n" if body.choices > self.max_choices else "best_of"
            raise InvalidRequest(
                f"Invalid '{param}': at most {self.max_choices} choices are allowed here.", param=param
            )
        model = self._model(principal, body.model, Task.GENERATE)
        _check_length(body, model)
        verifier = self._verifier(principal, model, body) if isinstance(body, ChatCompletionRequest) else None
        service_class = _CLASSES[body.service_tier or "auto"]
        self._check_wait(principal, model, service_class)
        return self._admitted(principal, model, service_class, verifier)

    def check_images(self, principal: Principal, body: ChatCompletionRequest) -> None:
        """Check that the model of a chat completion with images reads images; call it before the images are read.

        Without images does nothing.

        Raises:
            InvalidRequest: The model reads no images, or the answer is searched for; `param` names the first one.
            ModelNotFound, ModelUnavailable: As `admit` does.
        """
        path, _ = next(image_urls(body.messages), ("", ""))
        if path and not (model := self.catalogue.find(body.model, principal.models)).reads_images:
            raise InvalidRequest(f"Invalid '{path}': the model '{model.name}' reads no images.", param=path)
        if path and body.search is not None:
            raise InvalidRequest(f"Invalid '{path}': images can't be combined with '{body.search_param}'.", param=path)

    async def admit_embeddings(self, principal: Principal, body: EmbeddingRequest) -> AdmittedRequest:
        """Check whether an embedding request may be queued; return its admission: model and start deadline.

        Raises:
            InvalidRequest: The model does not embed text, or has fewer dimensions than requested.
            ModelNotFound, ModelUnavailable, BrokerDown, Overloaded, ContextLengthExceeded: As `admit` does.
        """
        model = self._model(principal, body.model, Task.EMBED)
        if body.dimensions is not None and 0 < model.dimensions < body.dimensions:
            raise InvalidRequest(
                f"Invalid 'dimensions': this model's embeddings have {model.dimensions} dimensions at most.",
                param="dimensions",
            )
        tokens = max(_min_tokens_of(body.input, model.max_token_bytes))
        if tokens > model.max_model_len:
            raise _too_long(tokens, model, param="input")
        self._check_wait(principal, model, ServiceClass.DEFAULT)
        return self._admitted(principal, model, ServiceClass.DEFAULT)

    async def admit_scores(
        self, principal: Principal, name: str, prompt: ScorePrompt, truncation: int | None
    ) -> AdmittedRequest:
        """Check whether a request for scores may be queued; return its admission: model and start deadline.

        `truncation` is the number of tokens to which pairs are cut, if any.

        Raises:
            InvalidRequest: The model does not score.
            ModelNotFound, ModelUnavailable, BrokerDown, Overloaded, ContextLengthExceeded: As `admit` does.
        """
        model = self._model(principal, name, Task.SCORE)
        if model.labels:
            raise InvalidRequest(f"The model '{model.name}' classifies texts only: use /v1/moderations.", param="model")
        texts = [each if isinstance(each, str) else _text_of_wire(each) for each in prompt.contexts]
        texts += [prompt.text(index) for index in range(len(prompt.candidates))]
        tokens = max(_min_tokens_of(texts, model.max_token_bytes))
        if truncation is None and tokens > model.max_model_len:
            raise _too_long(tokens, model, param=prompt.param)
        self._check_wait(principal, model, ServiceClass.DEFAULT)
        return self._admitted(principal, model, ServiceClass.DEFAULT)

    async def admit_moderation(self, principal: Principal, name: str, prompt: ScorePrompt) -> AdmittedRequest:
        """Check whether a request for moderation may be queued; return its admission: model and start deadline.

        Raises:
            InvalidRequest: The texts are too long.
            ModelNotFound, ModelUnavailable, BrokerDown, Overloaded: As `admit` does.
        """
        model = self._model(principal, name, Task.SCORE)
        if len(prompt.candidates) > MAX_CANDIDATES:
            raise InvalidRequest("Invalid 'input': it is too long to be moderated in one request.", param="input")
        self._check_wait(principal, model, ServiceClass.DEFAULT)
        return self._admitted(principal, model, ServiceClass.DEFAULT)

    async def admit_images(self, principal: Principal, body: ImageRequest) -> AdmittedRequest:
        """Check whether a request to draw images may be queued; return its admission: model and start deadline.

        Raises:
            InvalidRequest: The model does not draw, or not images of this size.
            ModelNotFound, ModelUnavailable, BrokerDown, Overloaded: As `admit` does.
        """
        model = self._model(principal, body.model, Task.IMAGE)
        if not model.image_sizes:  # its workers have no size in common
            raise ModelUnavailable
        if body.size not in (None, AUTO_SIZE, *model.image_sizes):
            raise InvalidRequest(f"Invalid 'size': this model draws {', '.join(model.image_sizes)}.", param="size")
        self._check_wait(principal, model, ServiceClass.DEFAULT)
        return self._admitted(principal, model, ServiceClass.DEFAULT)

    async def admit_tokenisation(self, principal: Principal, name: str) -> AdmittedRequest:
        """Check whether a request to tokenise may be queued; return its admission: model and start deadline.

        Its job takes no slot, so that it does not wait behind other jobs, and goes to the queue of class `priority`,
        which workers read even while jobs of the other classes wait for slots.

        Raises:
            InvalidRequest: The model's workers do not tokenise.
            ModelNotFound, ModelUnavailable, BrokerDown, Overloaded: As `admit` does.
        """
        model = self._served(principal, name)
        if not model.tokenises:
            raise InvalidRequest(f"The tokenizer of the model '{model.name}' is not available here.", param="model")
        return self._admitted(principal, model, ServiceClass.PRIORITY)

    async def admit_tool_call(self, principal: Principal, assistant: str) -> AdmittedRequest:
        """Check whether a call of a tool of `assistant` may be queued; return its admission: model and start deadline.

        Raises:
            ModelNotFound, ModelUnavailable, BrokerDown, Overloaded: As `admit` does.
        """
        model = self._model(principal, assistant, Task.GENERATE)
        self._check_wait(principal, model, ServiceClass.DEFAULT)
        return self._admitted(principal, model, ServiceClass.DEFAULT)

    def _admitted(
        self, principal: Principal, model: ModelInfo, service_class: ServiceClass, verifier: ModelInfo | None = None
    ) -> AdmittedRequest:
        service_class = _class_for(principal, service_class)
        timeout = max(MIN_BEGIN_TIMEOUT, BEGIN_TIMEOUT_FACTOR * self.max_wait[service_class])
        return AdmittedRequest(principal, model, service_class, time.time() + timeout, verifier)

    def _verifier(self, principal: Principal, model: ModelInfo, body: ChatCompletionRequest) -> ModelInfo | None:
        """Check whether `model` may run the request's search, if any; return its verifier, `None` if it has none."""
        if (search := body.search) is None:
            return None
        if not model.searches:
            raise InvalidRequest(
                f"Invalid '{body.search_param}': the workers of the model '{model.name}' run no searches.",
                param=body.search_param,
            )
        if search.budget_tokens is not None and search.budget_tokens > self.max_search_tokens:
            raise InvalidRequest(
                f"Invalid '{_BUDGET}': at most {self.max_search_tokens} tokens are allowed here.", param=_BUDGET
            )
        if search.verifier is None:
            return None
        verifier = self.catalogue.find(search.verifier, principal.models, param=_VERIFIER)
        if not verifier.recently_alive:
            raise ModelUnavailable(_NO_VERIFIER, param=_VERIFIER)
        if verifier.task is Task.GENERATE and verifier.searches:
            # It would wait for a place at the workers on which searches that wait for it have their places.
            if verifier.name == model.name:
                raise InvalidRequest(f"Invalid '{_VERIFIER}': a model can't grade its own paths.", param=_VERIFIER)
        elif verifier.task is not Task.SCORE:
            raise InvalidRequest(f"Invalid '{_VERIFIER}': the model '{verifier.name}' does not score.", param=_VERIFIER)
        if verifier.scores_pairs:
            raise InvalidRequest(
                f"Invalid '{_VERIFIER}': the model '{verifier.name}' scores pairs of texts, not answers.",
                param=_VERIFIER,
            )
        return verifier

    def _model(self, principal: Principal, name: str, task: Task) -> ModelInfo:
        model = self._served(principal, name)
        if model.task is not task:
            raise InvalidRequest(f"The model '{model.name}' {_WRONG_TASK[model.task]}.", param="model")
        return model

    def _served(self, principal: Principal, name: str) -> ModelInfo:
        model = self.catalogue.find(name, principal.models)
        if not model.recently_alive:
            raise ModelUnavailable
        self.protection.check()
        return model

    def _check_wait(self, principal: Principal, model: ModelInfo, service_class: ServiceClass) -> None:
        service_class = _class_for(principal, service_class)
        if not model.workers:  # the request waits, and fails if no worker appears in time
            return
        estimate = self.queues.estimate(model, service_class, tenant=principal.tenant, requester=principal.requester)
        if estimate.seconds is None:
            if estimate.position > MAX_WAITING_PER_SLOT * model.capacity:
                raise Overloaded("line_unmeasured", UNMEASURED_RETRY_AFTER)
        elif estimate.seconds > self.max_wait[service_class]:
            raise Overloaded("wait", estimate.seconds)


_WRONG_TASK = {
    Task.EMBED: "makes embeddings only: use /v1/embeddings",
    Task.GENERATE: "generates text only: use /v1/chat/completions or /v1/completions",
    Task.IMAGE: "draws images only: use /v1/images/generations",
    Task.SCORE: "scores only: use /v1/score or /v1/rerank",
}


def _class_for(principal: Principal, requested: ServiceClass) -> ServiceClass:
    """Return the service class of a request: `FLEX` where no client waits for the answer."""
    return ServiceClass.FLEX if principal.in_background else requested


def _check_length(body: GenerationRequest, model: ModelInfo) -> None:
    """Raise if a prompt is certainly too long: it has at least its bytes / `max_token_bytes` tokens.

    The worker, which has the tokeniser, counts exactly.
    """
    if body.truncate_prompt_tokens is not None:
        return
    param = "messages" if isinstance(body, ChatCompletionRequest) else "prompt"
    tokens = max(_min_tokens(body, model.max_token_bytes))
    if tokens + (body.token_limit != 0) > model.max_model_len:
        raise _too_long(tokens, model, param=param)


def _too_long(at_least: int, model: ModelInfo, *, param: str) -> ContextLengthExceeded:
    return ContextLengthExceeded(
        f"This model's maximum context length is {model.max_model_len} tokens. "
        f"However, your prompt has at least {at_least} tokens. Please reduce its length.",
        param=param,
    )


def _min_tokens(body: GenerationRequest, max_token_bytes: int) -> Iterable[int]:
    if isinstance(body, ChatCompletionRequest):
        texts = [text_of(message.content) or "" for message in body.messages]
        return [_min_tokens_in(sum(len(text.encode()) for text in texts), max_token_bytes)]
    return _min_tokens_of(body.prompt, max_token_bytes)


def _min_tokens_of(prompts: Iterable[str | list[int]], max_token_bytes: int) -> Iterable[int]:
    return [
        _min_tokens_in(len(prompt.encode()), max_token_bytes) if isinstance(prompt, str) else len(prompt)
        for prompt in prompts
    ]


def _text_of_wire(conversation: Iterable[Mapping[str, Any]]) -> str:
    """Return the texts of a conversation in the form of `to_wire`, joined."""
    contents = (message.get("content") for message in conversation)
    return "".join(content for content in contents if isinstance(content, str))


def _min_tokens_in(size: int, max_token_bytes: int) -> int:
    return -(-size // max_token_bytes) if max_token_bytes else 0
