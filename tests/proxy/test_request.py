"""Conversion of jobs to upstream requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.catalogue import UpstreamSpec
from proxy.errors import RequestRefused
from proxy.request import body_of, path_of
from router.messages import (
    LARK_KEYWORD,
    ChatPrompt,
    EmbeddingPrompt,
    Grammar,
    GrammarKind,
    Job,
    OwnToolCall,
    Prompt,
    SamplingParams,
    ScorePrompt,
    TextOptions,
    TextPrompt,
    TokenPrompt,
    ToolChoice,
    ToolMode,
)
from tests.fakes.jobs import make_job

SPEC = UpstreamSpec(base_url="http://a/v1")
HI = ChatPrompt(messages=[{"role": "user", "content": "hi"}])
ALWAYS = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "seed": 1}


def job(prompt: Prompt = HI, sampling: SamplingParams | None = None, **fields: Any) -> Job:
    return make_job(model="here", deadline=0, prompt=prompt, sampling=sampling or SamplingParams(seed=1), **fields)


def sent_fields(prompt: Prompt = HI, sampling: SamplingParams | None = None, **fields: Any) -> dict[str, Any]:
    """Return the request's fields beyond the prompt and those always sent."""
    body = body_of(job(prompt, sampling, **fields), SPEC, "m")
    return {name: value for name, value in body.items() if name not in (*ALWAYS, "messages", "prompt")}


def test_a_chat_without_options_sends_none() -> None:
    assert body_of(job(), SPEC, "m") == ALWAYS | {"messages": HI.messages}
    assert path_of(job()) == "/chat/completions"


@pytest.mark.parametrize(("prompt", "sent"), [(TextPrompt("once"), "once"), (TokenPrompt([1, 2]), [1, 2])])
def test_a_completion(prompt: Prompt, sent: Any) -> None:
    assert body_of(job(prompt), SPEC, "m") == ALWAYS | {"prompt": sent}
    assert path_of(job(prompt)) == "/completions"
    assert sent_fields(prompt, SamplingParams(seed=1, max_tokens=5, logprobs=3)) == {"max_tokens": 5, "logprobs": 3}


def test_only_the_sampling_options_that_a_client_set_are_sent() -> None:
    sampling = SamplingParams(
        seed=1,
        max_tokens=9,
        temperature=0.0,
        top_p=0.5,
        presence_penalty=1.0,
        frequency_penalty=-1.0,
        logit_bias={5: -100.0},
        logprobs=2,
        top_k=4,
        min_p=0.1,
        repetition_penalty=1.1,
        min_tokens=2,
        allowed_token_ids=[7, 8],
        stop_token_ids=[7],
        ignore_eos=True,
    )
    text = TextOptions(
        stop=["a", "b"],
        include_stop_str_in_output=True,
        skip_special_tokens=False,
        bad_words=["c"],
        truncate_prompt_tokens=50,
    )
    assert sent_fields(HI, sampling, text=text, n=3) == {
        "max_completion_tokens": 9,
        "temperature": 0.0,
        "top_p": 0.5,
        "presence_penalty": 1.0,
        "frequency_penalty": -1.0,
        "logit_bias": {"5": -100.0},
        "logprobs": True,
        "top_logprobs": 2,
        "top_k": 4,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "min_tokens": 2,
        "allowed_token_ids": [7, 8],
        "stop_token_ids": [7],
        "ignore_eos": True,
        "bad_words": ["c"],
        "truncate_prompt_tokens": 50,
        "stop": ["a", "b"],
        "include_stop_str_in_output": True,
        "skip_special_tokens": False,
        "n": 3,
    }


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(), {"tools": ["a", "b"], "tool_choice": "auto"}),
        (ToolChoice(mode=ToolMode.NONE), {"tools": ["a", "b"], "tool_choice": "none"}),
        (ToolChoice(mode=ToolMode.REQUIRED), {"tools": ["a", "b"], "tool_choice": "required"}),
        (
            ToolChoice(mode=ToolMode.REQUIRED, names=["b"]),
            {"tools": ["b"], "tool_choice": {"type": "function", "function": {"name": "b"}}},
        ),
        (ToolChoice(names=["a"]), {"tools": ["a"], "tool_choice": "auto"}),
        (ToolChoice(parallel=False), {"tools": ["a", "b"], "tool_choice": "auto", "parallel_tool_calls": False}),
    ],
)
def test_tools(choice: ToolChoice, sent: dict[str, Any]) -> None:
    body = sent_fields(ChatPrompt(messages=[], tools=[tool("a"), tool("b")], tool_choice=choice))
    assert body | {"tools": [each["function"]["name"] for each in body["tools"]]} == sent


def test_a_tool_with_a_grammar_in_lark_s_notation_is_refused() -> None:
    schema = {"type": "object", "properties": {"input": {"type": "string", LARK_KEYWORD: 'start: "a"'}}}
    limited = {"type": "function", "function": {"name": "g", "parameters": schema}}
    with pytest.raises(RequestRefused) as refused:
        sent_fields(ChatPrompt(messages=[], tools=[limited]))
    assert refused.value.param == "tools"


def test_template_options_of_vllm() -> None:
    prompt = ChatPrompt(
        messages=[],
        add_generation_prompt=False,
        continue_final_message=True,
        template_kwargs={"enable_thinking": False},
    )
    assert sent_fields(prompt) == {
        "add_generation_prompt": False,
        "continue_final_message": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": []}, False),
        ({"type": "object"}, False),
        ({"type": "array", "items": CLOSED}, True),
        ({"type": "array", "items": {"properties": {}}}, False),
        (True, True),
    ],
)
def test_a_schema_is_strict_if_openai_would_take_it_so(schema: Any, strict: bool) -> None:
    body = sent_fields(grammar=Grammar(kind=GrammarKind.JSON_SCHEMA, source=json.dumps(schema)))
    assert body["response_format"]["json_schema"] == {"name": "answer", "schema": schema, "strict": strict}


@pytest.mark.parametrize(
    ("grammar", "sent"),
    [
        (Grammar(kind=GrammarKind.JSON_OBJECT), {"response_format": {"type": "json_object"}}),
        (Grammar(kind=GrammarKind.REGEX, source="a+"), {"structured_outputs": {"regex": "a+"}}),
        (Grammar(kind=GrammarKind.CHOICE, source='["a"]'), {"structured_outputs": {"choice": ["a"]}}),
        (Grammar(kind=GrammarKind.LARK, source="start: A"), {"structured_outputs": {"grammar": "start: A"}}),
    ],
)
def test_other_grammars(grammar: Grammar, sent: dict[str, Any]) -> None:
    assert sent_fields(grammar=grammar) == sent


def test_an_upstream_s_token_limit_field_and_omitted_fields() -> None:
    spec = UpstreamSpec(base_url="http://a/v1", token_limit_field="max_tokens", omit=frozenset({"seed", "top_p"}))
    body = body_of(job(sampling=SamplingParams(seed=1, max_tokens=3, top_p=0.5)), spec, "m")
    assert body["max_tokens"] == 3
    assert not {"seed", "top_p", "max_completion_tokens"} & body.keys()


def test_embeddings() -> None:
    prompt = EmbeddingPrompt(inputs=["a", "b"], dimensions=3)
    sent = {"model": "m", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 3}
    assert body_of(job(prompt), SPEC, "m") == sent
    assert path_of(job(prompt)) == "/embeddings"


def test_a_suffix_and_an_effort() -> None:
    assert sent_fields(TextPrompt("a", suffix="z")) == {"suffix": "z"}
    assert sent_fields(ChatPrompt(messages=[], reasoning_effort="low")) == {"reasoning_effort": "low"}


def test_a_budget_of_reasoning_tokens_is_sent_and_the_reasoning_of_earlier_answers_is_not() -> None:
    answer = {"role": "assistant", "content": "4"}
    prompt = ChatPrompt(messages=[{**answer, "reasoning_content": "2 + 2"}], thinking_token_budget=64)
    assert body_of(job(prompt), SPEC, "m")["messages"] == [answer]
    assert sent_fields(prompt) == {"thinking_token_budget": 64}
    assert sent_fields(ChatPrompt(messages=[], thinking_token_budget=0)) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"sampling": SamplingParams(seed=1, prompt_logprobs=1)},
        {"text": TextOptions(echo=True)},
        {"prompt": ChatPrompt(messages=[], images=[b"png"])},
        {"prompt": ChatPrompt(messages=[], own_tools=["image"])},
        {"prompt": ChatPrompt(messages=[], own_tool_call=OwnToolCall(name="weather", arguments={}))},
        {"prompt": ScorePrompt(contexts=["q"], candidates=["a"])},
    ],
)
def test_options_without_an_upstream_field_are_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused):
        body_of(job(**fields), SPEC, "m")


def test_every_field_of_a_job_is_translated_or_rejected() -> None:
    """A new message field must be translated or rejected, then added here."""
    known = {
        SamplingParams: "seed max_tokens default_max_tokens min_tokens temperature top_p top_k min_p presence_penalty "
        "frequency_penalty repetition_penalty logit_bias logprobs prompt_logprobs allowed_token_ids stop_token_ids "
        "ignore_eos",
        TextOptions: "stop include_stop_str_in_output skip_special_tokens bad_words truncate_prompt_tokens "
        "drop_turns echo",
        ChatPrompt: "messages images own_tools own_tool_call tools tool_choice add_generation_prompt "
        "continue_final_message template_kwargs reasoning_effort thinking_token_budget tools_off tools_allowed",
        TextPrompt: "text suffix",
        ToolChoice: "mode names parallel",
        Grammar: "kind source param",
    }
    for struct, names in known.items():
        assert set(struct.__struct_fields__) == set(names.split()), struct.__name__
