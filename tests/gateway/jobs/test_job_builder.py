"""Jobs are built from validated requests: ids, defaults, seeds, deadlines and salts."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import msgspec
import pytest

from auth_billing.access.principal import Principal
from gateway.admission.controller import AdmittedRequest
from gateway.jobs.job_builder import (
    Origin,
    build_chat_job,
    build_completion_jobs,
    build_embedding_job,
    build_image_job,
    build_tool_call_job,
)
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.images import ImageRequest
from gateway.openai.test_time_compute import SearchOptions
from gateway.settings import GatewaySettings
from router.messages import (
    ChatPrompt,
    EmbeddingPrompt,
    ImagePrompt,
    Job,
    OwnToolCall,
    Search,
    SearchMethod,
    ServiceClass,
    Task,
    TextPrompt,
    TokenPrompt,
)
from router.model_registry import ModelInfo, ModelRegistry
from tests.fakes.scripted_worker import status

ORIGIN = Origin("gateway-7", 5_000.0, 4096, 100_000)


def served(name: str, task: Task = Task.GENERATE) -> ModelInfo:
    registry = ModelRegistry(lambda: 0.0)
    registry.observe(status(name, "w-1", task=task))
    model = registry.find(name)
    assert model is not None
    return model


def admitted() -> AdmittedRequest:
    principal = Principal("key", "tenant", "salt")
    return AdmittedRequest(principal, served("org/model"), ServiceClass.FLEX, 1_000.0)


def chat(**fields: Any) -> Job:
    body = {"model": "alias", "messages": [{"role": "user", "content": "hi"}], **fields}
    return build_chat_job(ChatCompletionRequest.parse(body), admitted(), ORIGIN)


def test_a_job_names_its_model_tenant_requester_and_gateway() -> None:
    job = chat()
    assert (job.model, job.tenant, job.requester, job.reply_to, job.service_class) == (
        "org/model",
        "tenant",
        "key",
        "gateway-7",
        ServiceClass.FLEX,
    )
    assert (job.begin_by, job.deadline) == (1_000.0, 5_000.0)
    assert job.id.startswith("chatcmpl-")


def test_the_operators_limit_applies_without_one_of_the_request() -> None:
    assert (chat().sampling.max_tokens, chat().sampling.default_max_tokens) == (None, 4096)
    assert (chat(max_tokens=5).sampling.max_tokens, chat(max_tokens=5).sampling.default_max_tokens) == (5, None)


def test_seeds_are_non_negative_and_given_ones_are_kept() -> None:
    assert chat(seed=7).sampling.seed == 7
    assert chat(seed=-1).sampling.seed == 2**63 - 1
    assert len({chat().sampling.seed for _ in range(5)}) == 5


def test_tiny_temperatures_are_greedy() -> None:
    assert chat(temperature=1e-6).sampling.temperature == 0.0
    assert chat().sampling.temperature == 1.0


def test_candidates_need_their_log_probabilities() -> None:
    assert chat(n=2, best_of=3).sampling.logprobs == 0
    assert chat(n=2).sampling.logprobs is None
    assert chat(n=2, best_of=3).n == 3


def test_a_clients_salt_narrows_the_tenants() -> None:
    salts = {chat().cache_salt, chat(cache_salt="a").cache_salt, chat(cache_salt="b").cache_salt}
    assert len(salts) == 3
    assert chat().cache_salt == "salt"
    assert chat(cache_salt="a").cache_salt == chat(cache_salt="a").cache_salt


@pytest.mark.parametrize(("budget", "sent"), [(None, None), (-1, None), (0, 0), (64, 64)])
def test_a_budget_of_reasoning_tokens(budget: int | None, sent: int | None) -> None:
    prompt = chat(thinking_token_budget=budget).prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.thinking_token_budget == sent


def test_each_prompt_of_a_completion_is_a_job() -> None:
    body = CompletionRequest.parse({"model": "m", "prompt": ["a", "b"], "suffix": "c"})
    first, second = build_completion_jobs(body, admitted(), ORIGIN)
    assert second.id == f"{first.id}-1"
    assert [first.prompt, second.prompt] == [TextPrompt("a", "c"), TextPrompt("b", "c")]
    (tokens,) = build_completion_jobs(CompletionRequest.parse({"model": "m", "prompt": [1, 2]}), admitted(), ORIGIN)
    assert tokens.prompt == TokenPrompt([1, 2])


def test_all_inputs_of_an_embedding_request_are_one_job() -> None:
    body = EmbeddingRequest.parse({"model": "m", "input": ["a", "b"], "dimensions": 8})
    job = build_embedding_job(body, admitted(), ORIGIN)
    assert job.prompt == EmbeddingPrompt(inputs=["a", "b"], dimensions=8)


def test_a_search_has_the_verifiers_own_name_and_a_budget_for_the_longest_paths() -> None:
    search = {"method": "best_of_n", "n": 2, "verifier": "alias"}
    body = ChatCompletionRequest.parse({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8})
    assert build_chat_job(body, admitted(), ORIGIN).search is None
    body = body.model_copy(update={"test_time_compute": SearchOptions.model_validate(search)})
    checked = dataclasses.replace(admitted(), verifier=served("org/verifier", Task.SCORE))
    found = build_chat_job(body, checked, ORIGIN).search
    assert found == Search(method=SearchMethod.BEST_OF_N, n=2, verifier="org/verifier", budget_tokens=2 * 192)
    capped = build_chat_job(body, checked, dataclasses.replace(ORIGIN, max_search_tokens=200)).search
    assert capped == msgspec.structs.replace(found, budget_tokens=200)


def test_a_chat_model_as_verifier_is_a_judge_whose_question_counts() -> None:
    search = {"method": "best_of_n", "n": 2, "verifier": "alias"}
    body = ChatCompletionRequest.parse({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8})
    body = body.model_copy(update={"test_time_compute": SearchOptions.model_validate(search)})
    found = build_chat_job(body, dataclasses.replace(admitted(), verifier=served("org/judge")), ORIGIN).search
    assert found == Search(
        method=SearchMethod.BEST_OF_N, n=2, verifier="org/judge", judge=True, budget_tokens=2 * (192 + 120)
    )


def test_the_deadline_is_the_operators() -> None:
    origin = Origin.of(GatewaySettings(gateway_id="gateway-7", max_request_seconds=100, default_max_tokens=77))
    assert (origin.gateway_id, origin.default_max_tokens, origin.max_search_tokens) == ("gateway-7", 77, 131_072)
    assert origin.deadline - time.time() == pytest.approx(100, abs=1)


def test_images_without_a_size_have_the_models_default_size() -> None:
    registry = ModelRegistry(lambda: 0.0)
    registry.observe(status("painter", "w-1", image_sizes=["512x512", "512x256"]))
    model = registry.find("painter")
    assert model is not None
    painter = AdmittedRequest(Principal("key", "tenant", "salt"), model, ServiceClass.DEFAULT, 1_000.0)
    for size, expected in ((None, "512x512"), ("auto", "512x512"), ("512x256", "512x256")):
        body = ImageRequest.parse({"model": "alias", "prompt": "a", "n": 3, "size": size, "seed": -2})
        job = build_image_job(body, painter, ORIGIN)
        assert job.prompt == ImagePrompt(prompt="a", size=expected)
        assert (job.model, job.n, job.sampling.seed, job.begin_by) == ("painter", 3, 2**63 - 2, 1_000.0)


def test_a_call_of_a_tool_has_its_texts_as_the_question() -> None:
    job = build_tool_call_job("weather", {"place": "w Łodzi", "days": 3, "note": "jutro"}, admitted(), ORIGIN)
    assert isinstance(job.prompt, ChatPrompt)
    assert job.prompt.messages == [{"role": "user", "content": "w Łodzi jutro"}]
    assert job.prompt.own_tool_call == OwnToolCall(
        name="weather", arguments={"place": "w Łodzi", "days": 3, "note": "jutro"}
    )
    assert (job.id[:5], job.tenant, job.requester, job.deadline) == ("call-", "tenant", "key", 5_000.0)
