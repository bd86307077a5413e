"""Checks whether a model can draw for a response, and makes the job of a response that must draw."""

from __future__ import annotations

import msgspec

from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.responses.tools import IMAGE_TOOL
from router.messages import ChatPrompt, Job, OwnToolCall
from router.model_registry import ModelInfo


def check_image_tool(model: ModelInfo, param: str) -> None:
    """Check that `model` is an assistant whose image tool is on: an image model with a price is served.

    Raises:
        UnsupportedParameter: It is not; `param` names the tool.
    """
    if all(tool.name != IMAGE_TOOL for tool in model.tools):
        message = f"Invalid '{param}': the model '{model.name}' can't draw. It needs an assistant with an image model."
        raise UnsupportedParameter(message, param=param, code="unsupported_parameter")


def with_image_tool(job: Job) -> Job:
    """Return an assistant's job that offers its image tool to the model, beside the functions of the request if any."""
    prompt = job.prompt
    if not isinstance(prompt, ChatPrompt) or not prompt.tools:
        return job  # without functions an assistant offers all of its own tools
    return msgspec.structs.replace(job, prompt=msgspec.structs.replace(prompt, own_tools=[IMAGE_TOOL]))


def with_image_call(job: Job) -> Job:
    """Return an assistant's job that draws the last message of its conversation, without a model that decides on it.

    Raises:
        InvalidRequest: The last message is no text of the user.
    """
    prompt = job.prompt
    last = prompt.messages[-1] if isinstance(prompt, ChatPrompt) else {}
    text = last.get("content") if last.get("role") == "user" else None
    if not isinstance(prompt, ChatPrompt) or not isinstance(text, str) or not text.strip():
        message = "Invalid 'tool_choice': the last message must be the user's description of an image."
        raise InvalidRequest(message, param="tool_choice", code="invalid_value")
    call = OwnToolCall(name=IMAGE_TOOL, arguments={"prompt": text})
    return msgspec.structs.replace(job, prompt=msgspec.structs.replace(prompt, own_tool_call=call))
