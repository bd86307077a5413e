"""What a response with the tool `file_search` has searched and answered, from the entries of its log, and what is next.

A state machine without I/O: equal entries give equal states, so that another gateway goes on where a log ends.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.answers.responses.run_log import Entry, JobBegun, JobEnded, SearchBegun, SearchEnded
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.tools import FILE_SEARCH, FileSearchTool
from gateway.openai.tools import AllowedTools, AllowedToolsChoice, FunctionTool, ToolChoiceOption
from gateway.vector_stores.passage_prompt import Budget, not_found_answer, queries_of, quote
from gateway.vector_stores.search import SearchHit
from router.messages import Delta, Usage, UsagePart
from router.model_registry import ModelInfo
from router.usage_arithmetic import merged, total

MAX_SEARCHES = 4
"""Most searches of one response."""
_PLAIN_FIELDS = ("question", "searches_first", "has_format", "shows_results", "max_searches", "address")
_NO_IMAGE = "data:,"
"""URL in a stored conversation in the place of an image, whose file the job has."""


@dataclass(frozen=True)
class SearchPlan:
    """What a response with the tool `file_search` asks for."""

    chat: ChatCompletionRequest
    """The conversation with the texts of its files, without passages."""
    question: list[str]
    """Queries for the user's last message, without files; empty if it has no text."""
    tool: FileSearchTool
    searches_first: bool
    """Whether files are searched before the model answers, and not by the model's choice."""
    has_format: bool
    """Whether the answer's format is prescribed."""
    shows_results: bool
    max_searches: int
    address: str
    """Network address of the client, for the audit log."""

    @classmethod
    def of(
        cls, body: ResponseRequest, given: ChatCompletionRequest, chat: ChatCompletionRequest, address: str
    ) -> SearchPlan:
        """Return the plan of a request with the tool; `chat`: the `given` conversation with the texts of its files."""
        tool, limit = body.file_search, body.max_tool_calls
        assert tool is not None  # noqa: S101 - the route's condition
        searches = MAX_SEARCHES if limit is None else min(MAX_SEARCHES, limit)
        return cls(
            chat=chat,
            question=queries_of(given.messages),
            tool=tool,
            searches_first=body.searches_first,
            has_format=body.format is not None,
            shows_results=body.includes_results,
            max_searches=searches,
            address=address,
        )

    def encoded(self) -> bytes:
        """Encode the plan for the store, without its images."""
        fields = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        chat = self.chat.model_dump(mode="json", by_alias=True, exclude_none=True)
        for message in chat["messages"]:
            for part in message["content"] if isinstance(message.get("content"), list) else ():
                if part["type"] == "image_url":
                    part["image_url"]["url"] = _NO_IMAGE
        tool = self.tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps({**fields, "chat": chat, "tool": tool}).encode()

    @classmethod
    def decoded(cls, plan: bytes) -> SearchPlan:
        """Decode a plan from the store."""
        fields: dict[str, Any] = json.loads(plan)
        chat, tool = ChatCompletionRequest.parse(fields.pop("chat")), FileSearchTool.model_validate(fields.pop("tool"))
        return cls(chat=chat, tool=tool, **fields)


class SearchProgress:
    """The state of one response after the entries that `take` got."""

    def __init__(self, plan: SearchPlan) -> None:
        self.plan = plan
        self.found: list[SearchHit] = []
        """Passages that were found until now, each once."""
        self.jobs = 0
        """Number of the model's jobs that have ended."""
        self.job: JobBegun | None = None
        """The job that runs; `None`: the next one was not submitted yet."""
        self.deltas: list[Delta] = []
        """Deltas of the job that runs."""
        self.is_searching = False
        """Whether a search has begun, and not ended."""
        self.ended = False
        """Whether the answer is whole."""
        self.budget: Budget | None = None
        """Passages in the prompt of the latest job, if there are any."""
        self._searches = 0
        self._wanted: list[list[str]] = []
        """Queries of each search that is to be made before the next job."""
        if plan.searches_first and self.plan.question and self.left > 0:
            self._wanted.append(self.plan.question)
        self._usage: list[Usage] = []
        self._parts: list[UsagePart] = []

    @property
    def left(self) -> int:
        """Number of searches that the response may still make."""
        return self.plan.max_searches - self._searches

    @property
    def next_queries(self) -> list[str] | None:
        """Queries of the search that runs or is next; `None`: a job of the model is next, or the end."""
        return self._wanted[0] if self._wanted else None

    @property
    def not_found_answer(self) -> str | None:
        """The answer without a model, as no passage fits the question; `None`: a model has to answer."""
        searched = self.plan.searches_first and self._searches and not self._wanted
        if not searched or self.found or self.plan.has_format:
            return None
        return not_found_answer(self.plan.question[0])

    @property
    def usage(self) -> Usage:
        """What the ended jobs of the model have used together."""
        return total(self._usage)

    @property
    def parts(self) -> tuple[UsagePart, ...]:
        """What searches and the steps of ended jobs have used, by model."""
        return merged(self._parts)

    def take(self, entry: Entry) -> None:
        """Add the next entry of the response's log."""
        match entry:
            case SearchBegun():
                self.is_searching, self._searches = True, self._searches + 1
            case SearchEnded():
                self._end_search(entry)
            case JobBegun():
                self.job = entry
            case JobEnded():
                self._end_job(entry)
            case Delta() if self.job is None:  # the answer without a model
                self.ended = True
            case Delta():
                self.deltas.append(entry)

    def next_chat(self, model: ModelInfo) -> tuple[ChatCompletionRequest, JobBegun]:
        """Return the chat completion of the job that runs, or of the next one, and the entry about its beginning.

        It has the passages found until now, and the tools that the model may still call. Takes milliseconds.
        """
        chat, plan = self.plan.chat, self.plan
        offers = self.left > 0 and not plan.searches_first
        if self._searches or not offers:
            tools = [each for each in chat.tools or () if offers or each.function.name != FILE_SEARCH]
            choice = _later_choice(chat.tool_choice, tools)
            chat = chat.model_copy(update={"tools": tools or None, "tool_choice": choice})
        if (limit := plan.chat.token_limit) is not None:
            left = max(1, limit - self.usage.completion_tokens)
            chat = chat.model_copy(update={"max_completion_tokens": left})
        if not self._searches:
            return chat, JobBegun([], 0)
        room = None if self.job is None else self.job.room
        prompt = quote(chat, self.found, context=model.max_model_len, bounds=model.prompt_bounds, room=room)
        self.budget = prompt.budget
        return prompt.chat, JobBegun([each.source for each in prompt.passages], prompt.budget.max_tokens)

    def _end_search(self, entry: SearchEnded) -> None:
        self.is_searching = False
        del self._wanted[0]
        known = {each.key for each in self.found}
        self.found += [each for each in (passage.hit for passage in entry.found) if each.key not in known]
        self._parts += entry.parts

    def _end_job(self, entry: JobEnded) -> None:
        self.job, self.deltas, self.jobs = None, [], self.jobs + 1
        self._usage.append(entry.usage)
        self._parts += entry.parts
        self._wanted = [[each] for each in entry.queries]
        self.ended = not entry.queries


def carried_parts(progress: SearchProgress, model: str) -> Sequence[UsagePart]:
    """Return what the ended jobs and searches of a response have used as parts of a later job's bill, by model."""
    used = [UsagePart(model=model, usage=progress.usage)] if progress.jobs else []
    return merged([*used, *progress.parts])


def _later_choice(choice: ToolChoiceOption | None, tools: Sequence[FunctionTool]) -> ToolChoiceOption | None:
    """Return the choice among `tools` after a search, from that of the request: what it forced has been done."""
    if not isinstance(choice, AllowedToolsChoice) or not tools:
        return None
    names = {each.function.name for each in tools}
    allowed = [each for each in choice.allowed_tools.tools if each.function.name in names]
    if not allowed:
        return "none"
    return AllowedToolsChoice(type=choice.type, allowed_tools=AllowedTools(mode="auto", tools=allowed))
