"""Makes the response object of the Responses API, which the body of an answer and several events of its stream are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.response import ResponseStatus
from gateway.openai.responses.tools import OfferedTool, ResponseFunction
from gateway.openai.usage import CompletionUsage
from router.messages import ServiceClass, Usage, UsagePart

_ADDED_AT_END = ("usage", "steps", "passages")
"""Fields that a response does not have before its end."""


@dataclass(frozen=True)
class ResponseObject:
    """The fields of a response that are known before it has any output, and its forms while it gets more."""

    fields: Mapping[str, Any]

    @classmethod
    def of(
        cls, response_id: str, request: ResponseRequest, *, model: str, service_class: ServiceClass
    ) -> ResponseObject:
        """Return the response to `request` as it is accepted now, for the model with the name `model`."""
        text: dict[str, Any] = {"format": {"type": "text"}}
        if request.format is not None:
            text["format"] = request.format.model_dump(by_alias=True, exclude_none=True)
        reasoning = request.reasoning
        summary = None if reasoning is None else reasoning.summary or reasoning.generate_summary
        choice = request.tool_choice
        return cls(
            {
                "id": response_id,
                "object": "response",
                "created_at": int(time.time()),
                "completed_at": None,
                "status": "in_progress",
                "background": bool(request.background),
                "error": None,
                "incomplete_details": None,
                "instructions": request.instructions,
                "max_output_tokens": request.max_output_tokens,
                "max_tool_calls": request.max_tool_calls,
                "metadata": request.metadata or {},
                "model": model,
                "output": [],
                "parallel_tool_calls": request.parallel_tool_calls is not False,
                "previous_response_id": request.previous_response_id,
                "prompt_cache_key": request.prompt_cache_key,
                "reasoning": {"effort": None if reasoning is None else reasoning.effort, "summary": summary},
                "safety_identifier": request.safety_identifier,
                "service_tier": service_class.value,
                "store": request.stores,
                "temperature": 1.0 if request.temperature is None else request.temperature,
                "text": text,
                "tool_choice": "auto" if choice is None else choice if isinstance(choice, str) else choice.model_dump(),
                "tools": [_tool(tool) for tool in request.offered_tools],
                "top_logprobs": request.top_logprobs or 0,
                "top_p": 1.0 if request.top_p is None else request.top_p,
                "truncation": request.truncation or "disabled",
                **({} if request.user is None else {"user": request.user}),
                **({} if request.conversation_id is None else {"conversation": {"id": request.conversation_id}}),
            }
        )

    @classmethod
    def begun(cls, response: Mapping[str, Any]) -> ResponseObject:
        """Return a stored response as it was before it had any output."""
        fresh: dict[str, Any] = {
            "status": "queued",
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "output": [],
        }
        return cls({name: each for name, each in response.items() if name not in _ADDED_AT_END} | fresh)

    @property
    def id(self) -> str:
        """Id of the response."""
        return str(self.fields["id"])

    def in_state(
        self, status: ResponseStatus, output: Sequence[dict[str, Any]] = (), steps: Sequence[dict[str, Any]] = ()
    ) -> dict[str, Any]:
        """Return the response in a state before its end, with its output and the ended steps until now."""
        extra = {"steps": list(steps)} if steps else {}
        return {**self.fields, "status": status, "output": list(output), **extra}

    def ended(
        self,
        status: ResponseStatus,
        output: Sequence[dict[str, Any]],
        steps: Sequence[dict[str, Any]],
        *,
        usage: Mapping[str, Any] | None = None,
        incomplete: str | None = None,
        error: Mapping[str, Any] | None = None,
        completed_at: int | None = None,
    ) -> dict[str, Any]:
        """Return the ended response: with its usage, and why it is incomplete or failed."""
        return {
            **self.in_state(status, output, steps),
            "completed_at": completed_at,
            **({} if usage is None else {"usage": usage}),
            "error": error,
            "incomplete_details": None if incomplete is None else {"reason": incomplete},
        }


def response_usage(usage: Usage, parts: Sequence[UsagePart] = ()) -> dict[str, Any]:
    """Return a request's token counts, and the usage `parts` of its steps, as the `usage` of a response."""
    counted = CompletionUsage.of(usage, parts)
    fields: dict[str, Any] = {
        "input_tokens": counted.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": counted.prompt_tokens_details.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": counted.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": counted.completion_tokens_details.reasoning_tokens},
        "total_tokens": counted.total_tokens,
    }
    if counted.parts:
        fields["parts"] = [part.model_dump() for part in counted.parts]
    return fields


def _tool(tool: OfferedTool) -> dict[str, Any]:
    """Return a tool as the response repeats it; of a function also the fields that are null."""
    return tool.model_dump(exclude_none=not isinstance(tool, ResponseFunction))
