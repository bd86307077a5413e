"""Converts a job to the HTTP request for an OpenAI-compatible upstream provider: endpoint path and JSON body.

vLLM's extra fields are sent only if the client set them, because an upstream may reject unknown fields. The client's
identity (tenant, user, cache salt) and service class are never sent. Text is always streamed, with usage; the gateway
assembles the body for clients that do not stream.
"""

from __future__ import annotations

import json
from typing import Any

from proxy.catalogue import UpstreamSpec
from proxy.errors import RequestRefused
from router.messages import (
    LARK_KEYWORD,
    ChatPrompt,
    EmbeddingPrompt,
    Grammar,
    GrammarKind,
    ImagePrompt,
    Job,
    SamplingParams,
    ScorePrompt,
    TextOptions,
    TextPrompt,
    TokenisationPrompt,
    TokenPrompt,
    ToolMode,
)

CHAT, COMPLETIONS, EMBEDDINGS, IMAGES = "/chat/completions", "/completions", "/embeddings", "/images/generations"


def path_of(job: Job) -> str:
    """Return the path of the upstream endpoint that answers a job, such as `/chat/completions`, below the base URL."""
    match job.prompt:
        case ChatPrompt():
            return CHAT
        case EmbeddingPrompt():
            return EMBEDDINGS
        case ImagePrompt():
            return IMAGES
        case _:
            return COMPLETIONS


def body_of(job: Job, upstream: UpstreamSpec, model: str) -> dict[str, Any]:
    """Return the JSON body of the request that sends a job to an upstream, which calls the model `model`.

    Raises:
        RequestRefused: the API has no field for an option of the job.
    """
    body: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    limit_field = "max_tokens"
    match job.prompt:
        case ChatPrompt():
            limit_field = upstream.token_limit_field
            body |= _chat(job.prompt)
        case TextPrompt():
            body["prompt"] = job.prompt.text
            if job.prompt.suffix:
                body["suffix"] = job.prompt.suffix
        case TokenPrompt():
            body["prompt"] = job.prompt.token_ids
        case EmbeddingPrompt():
            return _embedding(job.prompt, upstream, model)
        case ImagePrompt():
            return _image(job, job.prompt, upstream, model)
        case ScorePrompt():
            raise RequestRefused("This model's provider does not score.", param="model")
        case TokenisationPrompt():
            raise RequestRefused("This model's provider does not tokenise.", param="model")
    body |= _sampling(job.sampling, limit_field, chat=isinstance(job.prompt, ChatPrompt)) | _text(job.text)
    if job.n > 1:
        body["n"] = job.n
    if job.grammar is not None:
        body |= _grammar(job.grammar)
    return {name: value for name, value in body.items() if name not in upstream.omit}


def _image(job: Job, prompt: ImagePrompt, upstream: UpstreamSpec, model: str) -> dict[str, Any]:
    """Return the request for the images that are not delivered yet. OpenAI's API has no seed for images."""
    body: dict[str, Any] = {"model": model, "prompt": prompt.prompt, "size": prompt.size, "response_format": "b64_json"}
    if (missing := job.n - len(job.ended)) > 1:
        body["n"] = missing
    return {name: value for name, value in body.items() if name not in upstream.omit}


def _embedding(prompt: EmbeddingPrompt, upstream: UpstreamSpec, model: str) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "input": prompt.inputs, "encoding_format": "base64"}
    if prompt.dimensions is not None:
        body["dimensions"] = prompt.dimensions
    return {name: value for name, value in body.items() if name not in upstream.omit}


def _chat(prompt: ChatPrompt) -> dict[str, Any]:
    if prompt.images:
        raise RequestRefused("Images in prompts are not available for this model.", param="messages")
    if prompt.own_tools or prompt.own_tool_call is not None:
        raise RequestRefused("This model has no tools of its own.", param="model")
    # Providers refuse the reasoning of earlier answers, or have their own form of it.
    messages = [{name: each[name] for name in each if name != "reasoning_content"} for each in prompt.messages]
    body: dict[str, Any] = {"messages": messages}
    if prompt.reasoning_effort:
        body["reasoning_effort"] = prompt.reasoning_effort
    if prompt.thinking_token_budget:  # 0 asks for as little as the provider's default allows, which has no field
        body["thinking_token_budget"] = prompt.thinking_token_budget
    if prompt.tools and prompt.tool_choice.mode is not ToolMode.NONE:
        body |= _tools(prompt)
    elif prompt.tools:
        body |= {"tools": prompt.tools, "tool_choice": "none"}
    if not prompt.add_generation_prompt:
        body["add_generation_prompt"] = False
    if prompt.continue_final_message:
        body["continue_final_message"] = True
    if prompt.template_kwargs:
        body["chat_template_kwargs"] = prompt.template_kwargs
    return body


def _tools(prompt: ChatPrompt) -> dict[str, Any]:
    """Return the fields about tools. Of `allowed_tools`, only the allowed ones are sent, which all servers support."""
    choice = prompt.tool_choice
    tools = [tool for tool in prompt.tools or [] if not choice.names or tool["function"]["name"] in choice.names]
    if any(map(_has_lark_text, tools)):
        raise RequestRefused("Grammars of custom tools are not available for this model.", param="tools")
    body: dict[str, Any] = {"tools": tools, "tool_choice": choice.mode.value}
    if choice.mode is ToolMode.REQUIRED and len(choice.names) == 1:
        body["tool_choice"] = {"type": "function", "function": {"name": choice.names[0]}}
    if not choice.parallel:
        body["parallel_tool_calls"] = False
    return body


def _has_lark_text(tool: dict[str, Any]) -> bool:
    properties = tool["function"]["parameters"].get("properties")
    schemas = properties.values() if isinstance(properties, dict) else ()
    return any(isinstance(schema, dict) and LARK_KEYWORD in schema for schema in schemas)


def _sampling(sampling: SamplingParams, limit_field: str, *, chat: bool) -> dict[str, Any]:
    if sampling.prompt_logprobs is not None:
        raise RequestRefused("Log probabilities of prompts are not available for this model.", param="prompt_logprobs")
    default = SamplingParams(seed=sampling.seed)
    body: dict[str, Any] = {"seed": sampling.seed}
    for name in (
        "min_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "allowed_token_ids",
        "stop_token_ids",
        "ignore_eos",
    ):
        if (value := getattr(sampling, name)) != getattr(default, name):
            body[name] = value
    if sampling.max_tokens is not None:
        body[limit_field] = sampling.max_tokens
    if sampling.logit_bias:
        body["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
    if sampling.logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": sampling.logprobs} if chat else {"logprobs": sampling.logprobs}
    return body


def _text(text: TextOptions) -> dict[str, Any]:
    if text.echo:
        raise RequestRefused("The prompt's tokens are not available for this model.", param="echo")
    body: dict[str, Any] = {}
    if text.bad_words:
        body["bad_words"] = text.bad_words
    if text.truncate_prompt_tokens is not None:
        body["truncate_prompt_tokens"] = text.truncate_prompt_tokens
    if text.stop:
        body["stop"] = text.stop
    if text.include_stop_str_in_output:
        body["include_stop_str_in_output"] = True
    if not text.skip_special_tokens:
        body["skip_special_tokens"] = False
    return body


def _grammar(grammar: Grammar) -> dict[str, Any]:
    match grammar.kind:
        case GrammarKind.JSON_OBJECT:
            return {"response_format": {"type": "json_object"}}
        case GrammarKind.JSON_SCHEMA:
            schema = json.loads(grammar.source)
            named = {"name": "answer", "schema": schema, "strict": _is_closed(schema)}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case GrammarKind.CHOICE:
            return {"structured_outputs": {"choice": json.loads(grammar.source)}}
        case GrammarKind.REGEX:
            return {"structured_outputs": {"regex": grammar.source}}
        case GrammarKind.LARK:
            return {"structured_outputs": {"grammar": grammar.source}}


def _is_closed(schema: Any) -> bool:
    """Return whether OpenAI accepts a schema as `strict`: all objects closed, and all their properties required."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if isinstance(properties, dict) or schema.get("type") == "object":
        required = schema.get("required")
        named = set(properties) if isinstance(properties, dict) else set()
        if schema.get("additionalProperties") is not False or set(required or ()) != named:
            return False
    return all(map(_is_closed, schema.values()))
