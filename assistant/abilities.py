"""Resolves one assistant's catalogue entry to models that are served and to tools; bounds what its steps can bill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import structlog

from assistant.catalogue import AssistantSpec
from assistant.routing import function_prompt, rewriting
from assistant.routing.function_router import MAX_TOKENS
from assistant.routing.router import Router
from assistant.tools.sentences import UNKNOWN_TOOL
from assistant.tools.tool import NotFound, Tool, UsesModels
from assistant.tools.toolbox import Toolbox
from assistant.tools.unit_prices import UnitPrices
from router.messages import ChatPrompt, OwnTool, Task, Usage, UsagePart
from router.model_registry import ModelInfo
from router.producer.child_jobs import ChildJobs
from router.producer.errors import ModelUnavailable
from router.usage_arithmetic import merged

ALL_TOOLS = "*"
"""In `ChatPrompt.tools_off`: no tool at all."""
ROUTER_TOKENS = 2 * MAX_TOKENS
"""Most tokens that a model writes to choose a tool: a call is cut off when it is too long, some tokens later."""
ROUTER_WAIT = 3.0
"""Seconds that a job waits for the first heartbeat of the model that routes, which comes each second."""
POLL_INTERVAL = 0.05

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Abilities:
    """What the answers of one assistant are made with."""

    worker: str
    """Id of the consumer of the assistant's jobs."""
    spec: AssistantSpec
    classifier: Router | None
    """The router of the way `classifier` without embeddings, if an assistant of the catalogue uses it."""
    toolbox: Toolbox
    children: ChildJobs
    assistants: Collection[str]
    """Names of the models of the catalogue, which do not answer for one another."""
    patience: float = 30.0
    """Seconds that a job waits for the first heartbeat of the answering model, as after this process was restarted."""
    embedding_router: Callable[[str], Router] | None = None
    """Returns the router of the way `classifier` with an embedding model, always the same one for a model."""
    prices: UnitPrices | None = None
    """The prices in force; `None`: the process has no store."""
    _unpriced: set[str] = field(default_factory=set)
    """Embedding models whose missing price was logged."""

    @property
    def answers_with(self) -> ModelInfo | None:
        """The model that writes this assistant's answers; `None` if no worker has reported it in the last hour.

        It is the one that the catalogue names, else the first generating model that is served.
        """
        models = self.children.models
        if self.spec.answers_with is not None:
            return models.find(self.spec.answers_with)
        texts = [each for each in models.models() if self._may_answer(each)]
        return next((each for each in texts if each.alive), texts[0] if texts else None)

    @property
    def sees_with(self) -> ModelInfo | None:
        """The model that answers conversations that contain images; `None` if no served model reads images.

        It is the answering model if that reads images, else another generating model.
        """
        models = [self.answers_with, *(each for each in self.children.models.models() if self._may_answer(each))]
        return next((each for each in models if each is not None and each.reads_images and each.alive), None)

    @property
    def routes_with(self) -> ModelInfo | None:
        """The model that chooses the tool for a question; `None` if no worker has reported it.

        Not used if a classifier chooses tools.
        """
        name = self.spec.routing.model
        return self.answers_with if name is None else self.children.models.find(name)

    @property
    def embeds_with(self) -> ModelInfo | None:
        """The embedding model that the classifier of tools asks; `None` if it asks none.

        That is so if the catalogue says so, or if no worker serves an embedding model that has a price.
        """
        routing, models = self.spec.routing, self.children.models
        if routing.way != "classifier" or routing.embeddings is False or self.embedding_router is None:
            return None
        named = models.models() if routing.embeddings is None else [models.find(routing.embeddings)]
        served = (each for each in named if each is not None and each.alive and each.task is Task.EMBED)
        return next((each for each in served if self._may_be_billed(each.name)), None)

    async def models_known(self) -> None:
        """Wait, before a job is answered, until workers have reported the models that answer and choose tools.

        For the model that chooses tools it waits a few seconds at most, and returns without it.

        Raises:
            ModelUnavailable: no worker reported the answering model within `patience`.
        """
        began = time.monotonic()
        while (answering := self.answers_with is None) or self.routes_with is None:
            waited = time.monotonic() - began
            if answering and waited >= self.patience:
                raise ModelUnavailable
            if not answering and waited >= ROUTER_WAIT:
                return
            await asyncio.sleep(POLL_INTERVAL)

    def tools(self, off: Collection[str] = ()) -> list[Tool]:
        """Return the assistant's tools without those named in `off`, which a conversation switched off.

        Tools that the installation lacks are among them: a call of one fails with the reason.
        """
        if ALL_TOOLS in off:
            return []
        return self.toolbox.known([name for name in self.spec.tools if name not in off])

    def tools_for(self, prompt: ChatPrompt) -> list[Tool]:
        """Return the assistant's tools for a prompt: beside the client's functions those that it offers.

        A function of the client with the name of a tool takes its place.
        """
        tools = self.tools(prompt.tools_off)
        if not prompt.tools:
            return tools
        taken = set(function_prompt.function_names(prompt.tools))
        offered = [each for each in tools if each.name in prompt.own_tools]
        return [each for each in offered if function_prompt.function_name(each.name) not in taken]

    def unnamed_models(self) -> list[str]:
        """Return names of models that this assistant uses only because they are served; the catalogue names none."""
        named = {self.spec.answers_with, self.spec.routing.model, self.spec.routing.embeddings}
        served = (self.answers_with, self.sees_with, self.embeds_with)
        used = {each.name for each in served if each is not None}
        for tool in self.tools():
            if isinstance(tool, UsesModels):
                used.update(tool.unnamed_models())
        return sorted(each for each in used if each not in named)

    def callable_tools(self) -> list[OwnTool]:
        """Return the tools that clients may call by name, as MCP tools, for the assistant's heartbeat.

        Only tools that are on, and none of MCP servers; each with the most that a call can use.
        """
        on = self.toolbox.available()
        return [
            OwnTool(name=tool.name, description=tool.description, parameters=tool.parameters, parts=parts)
            for tool in on
            if self.may_be_called(tool.name) and (parts := self._parts_of(tool)) is not None
        ]

    def may_be_called(self, tool: str) -> bool:
        """Return whether clients may call the tool named `tool`, if it is on; false for tools of MCP servers."""
        return tool in self.spec.tools and not tool.startswith("mcp.")

    def check_call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Check a call of a tool that a client chose by name, before it becomes a step of the answer.

        Raises:
            NotFound: the assistant has no such tool, or clients may not call it.
            InvalidArguments: the arguments do not match the tool's schema.
        """
        if not self.may_be_called(tool):
            raise NotFound(UNKNOWN_TOOL, tool=tool)
        self.toolbox.check(tool, arguments)

    def _parts_of(self, tool: Tool) -> list[UsagePart] | None:
        """Return the most that a call of a tool uses; `None` if the models that it needs are not served."""
        if not isinstance(tool, UsesModels):
            return [tool_part(tool.name)]
        of_models = tool.most_parts(self.answers_with)
        return [tool_part(tool.name), *of_models] if of_models else None

    def most_parts(self) -> list[UsagePart]:
        """Return the most that one job's steps can use, as parts of a bill: rewriting, tool choice, each tool once.

        The gateway holds credit for these. What a step used in a process that died is not billed.
        """
        parts = []
        if self.spec.rewrites == "model" and self.spec.tools:
            parts += _call(self.answers_with, rewriting.MAX_TOKENS)
        if self.spec.routing.way != "classifier" and self.spec.tools:
            parts += _call(self.routes_with, ROUTER_TOKENS)
        if self.spec.tools and (embedding := self.embeds_with) is not None:
            parts += _call(embedding, 0)
        for tool in self.tools():
            parts.append(tool_part(tool.name))
            if isinstance(tool, UsesModels):
                parts += tool.most_parts(self.answers_with)
        return list(merged(parts))

    def _may_be_billed(self, model: str) -> bool:
        """Return whether bills may have tokens of a model; without a store its price is not known, and taken as set."""
        if self.prices is None or self.prices.has_tokens(model):
            return True
        if self.prices.known is not None and model not in self._unpriced:
            self._unpriced.add(model)
            _log.warning("embedding model has no price, questions are routed without it", model=model)
        return False

    def _may_answer(self, model: ModelInfo) -> bool:
        """Return whether a model may be the default answerer: a text model, and no assistant, here or elsewhere."""
        return model.task is Task.GENERATE and model.name not in self.assistants and not model.max_parts


def tool_part(name: str) -> UsagePart:
    """Return the part of a bill that stands for one call of the tool `name`."""
    return UsagePart(model=f"tool.{name}", usage=Usage(prompt_tokens=0, units={"call": 1}))


def _call(model: ModelInfo | None, tokens: int) -> list[UsagePart]:
    """Return the most that a call of `model` uses that generates `tokens`."""
    if model is None:
        return []
    context = model.longest_model_len
    usage = Usage(prompt_tokens=context, completion_tokens=min(tokens, context))
    return [UsagePart(model=model.name, usage=usage)]
