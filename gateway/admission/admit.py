"""Decides, before any work is done, whether a request may be queued, and says no at once when it may not.

Everything here is answered from memory: the registry that heartbeats fill, the line of jobs, and local flags. So a
refusal takes no longer than an admission, holds nothing, and asks neither broker nor store
(docs/design/queue-topology.md#back-pressure). Does not
know HTTP, and sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from auth_billing.access.principal import Principal
from gateway.admission.aliases import Catalogue
from gateway.admission.job_queues import JobQueues
from gateway.admission.self_protection import SelfProtection
from gateway.errors import ContextLengthExceeded, InvalidRequest, ModelUnavailable, Overloaded
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.messages import text_of
from router.messages import ServiceClass, Task
from router.registry import ModelInfo

Body = ChatCompletionRequest | CompletionRequest

_CLASSES = {
    "auto": ServiceClass.DEFAULT,
    "default": ServiceClass.DEFAULT,
    "flex": ServiceClass.FLEX,
    "priority": ServiceClass.PRIORITY,
    "fast": ServiceClass.PRIORITY,
}
"""By `service_tier`."""


PATIENCE = 3.0
"""Longest waits after which a request that was let in is given up: the estimate was that wrong ..."""
SHORTEST_PATIENCE = 30.0
"""... but not before so many seconds."""
UNMEASURED_LINE = 4
"""Sequences that may wait for each place of a fleet while nobody has measured how fast it is."""
UNMEASURED_RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Reservation:
    """Leave to queue one request: who for, at which model, in which class."""

    principal: Principal
    model: ModelInfo
    service_class: ServiceClass
    begin_by: float
    """Unix time after which nobody need begin with it."""


class Admission:
    """The door of the queue."""

    def __init__(
        self,
        protection: SelfProtection,
        catalogue: Catalogue,
        queues: JobQueues,
        *,
        max_choices: int,
        max_wait: Mapping[ServiceClass, float],
    ) -> None:
        """`max_wait`: seconds that a request of a class may have to wait for its turn."""
        self._protection = protection
        self._catalogue = catalogue
        self._queues = queues
        self._max_choices = max_choices
        self._max_wait = max_wait

    async def admit(self, principal: Principal, body: Body) -> Reservation:
        """Leave to queue `body`.

        Raises:
            InvalidRequest: more choices than the operator allows, or a model that generates no text.
            ModelNotFound: nobody knows the model, or the caller may not ask for it.
            ModelUnavailable: nobody has served it for a minute.
            BrokerDown: there is no broker to queue it at.
            Overloaded: its turn would come too late, or this gateway can't keep up.
            ContextLengthExceeded: the prompt is too long, however it may be tokenised.
        """
        if body.candidates > self._max_choices:
            param = "n" if body.choices > self._max_choices else "best_of"
            raise InvalidRequest(
                f"Invalid '{param}': at most {self._max_choices} choices are allowed here.", param=param
            )
        model = self._model(principal, body.model, Task.GENERATE)
        _check_length(body, model)
        self._check_wait(principal, model, _service_class(body))
        return self._reservation(principal, model, _service_class(body))

    async def admit_embeddings(self, principal: Principal, body: EmbeddingRequest) -> Reservation:
        """Leave to queue `body`; raises as `admit` does.

        Raises:
            InvalidRequest: a model that makes no embeddings, or none of so many dimensions.
        """
        model = self._model(principal, body.model, Task.EMBED)
        if body.dimensions is not None and 0 < model.dimensions < body.dimensions:
            raise InvalidRequest(
                f"Invalid 'dimensions': this model's embeddings have {model.dimensions} dimensions at most.",
                param="dimensions",
            )
        tokens = max(_fewest_tokens_of(body.input, model.max_token_bytes))
        if tokens > model.max_model_len:
            raise _too_long(tokens, model, param="input")
        self._check_wait(principal, model, ServiceClass.DEFAULT)
        return self._reservation(principal, model, ServiceClass.DEFAULT)

    def _reservation(self, principal: Principal, model: ModelInfo, service_class: ServiceClass) -> Reservation:
        patience = max(SHORTEST_PATIENCE, PATIENCE * self._max_wait[service_class])
        return Reservation(principal, model, service_class, time.time() + patience)

    def _model(self, principal: Principal, name: str, task: Task) -> ModelInfo:
        model = self._catalogue.find(name, principal.models)
        if not model.recently_alive:
            raise ModelUnavailable
        if model.task is not task:
            raise InvalidRequest(f"The model '{model.name}' {_INSTEAD[model.task]}.", param="model")
        self._protection.check()
        return model

    def _check_wait(self, principal: Principal, model: ModelInfo, service_class: ServiceClass) -> None:
        if not model.workers:  # none just now: whoever waits is told so when one has not come in time
            return
        outlook = self._queues.outlook(model, service_class, tenant=principal.tenant)
        if outlook.seconds is None:
            if outlook.position > UNMEASURED_LINE * model.capacity:
                raise Overloaded("line_unmeasured", UNMEASURED_RETRY_SECONDS)
        elif outlook.seconds > self._max_wait[service_class]:
            raise Overloaded("wait", outlook.seconds)


_INSTEAD = {
    Task.EMBED: "makes embeddings and generates no text: use /v1/embeddings",
    Task.GENERATE: "generates text and makes no embeddings: use /v1/chat/completions or /v1/completions",
}


def _service_class(body: Body) -> ServiceClass:
    return _CLASSES[body.service_tier or "auto"]


def _check_length(body: Body, model: ModelInfo) -> None:
    """A token has at most `max_token_bytes` bytes, so a prompt has at least bytes / that many tokens.

    The worker, which has the tokenizer, counts exactly.
    """
    if body.truncate_prompt_tokens is not None:
        return
    param = "messages" if isinstance(body, ChatCompletionRequest) else "prompt"
    tokens = max(_fewest_tokens(body, model.max_token_bytes))
    if tokens + (body.token_limit != 0) > model.max_model_len:
        raise _too_long(tokens, model, param=param)


def _too_long(at_least: int, model: ModelInfo, *, param: str) -> ContextLengthExceeded:
    return ContextLengthExceeded(
        f"This model's maximum context length is {model.max_model_len} tokens. "
        f"However, your prompt has at least {at_least} tokens. Please reduce its length.",
        param=param,
    )


def _fewest_tokens(body: Body, max_token_bytes: int) -> Iterable[int]:
    if isinstance(body, ChatCompletionRequest):
        texts = [text_of(message.content) or "" for message in body.messages]
        return [_fewest_in(sum(len(text.encode()) for text in texts), max_token_bytes)]
    return _fewest_tokens_of(body.prompt, max_token_bytes)


def _fewest_tokens_of(prompts: Iterable[str | list[int]], max_token_bytes: int) -> Iterable[int]:
    return [
        _fewest_in(len(prompt.encode()), max_token_bytes) if isinstance(prompt, str) else len(prompt)
        for prompt in prompts
    ]


def _fewest_in(size: int, max_token_bytes: int) -> int:
    return -(-size // max_token_bytes) if max_token_bytes else 0
