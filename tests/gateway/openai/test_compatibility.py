"""`docs/openai-compatibility.md` matches the request models, which cover every field of the specification."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.openai.base import RequestBody
from gateway.openai.compatibility import ENDPOINTS, page, rows

PAGE = Path(__file__).resolve().parents[3] / "docs" / "openai-compatibility.md"

SPECIFIED = {
    "/v1/chat/completions": """
        audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages
        metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key
        prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier
        stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity
        web_search_options
    """,
    "/v1/responses": """
        background context_management conversation include input instructions max_output_tokens max_tool_calls metadata
        model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options
        prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text
        tool_choice tools top_logprobs top_p truncation user
    """,
    "/v1/completions": """
        best_of echo frequency_penalty logit_bias logprobs max_tokens model n presence_penalty prompt seed stop stream
        stream_options suffix temperature top_p user
    """,
    "/v1/embeddings": "dimensions encoding_format input model user",
}
"""Fields of the endpoints' requests in version 2.3.0 of OpenAI's specification."""

EXTRAS_OF_BOTH = """
    add_special_tokens allowed_token_ids bad_words best_of cache_salt echo ignore_eos include_stop_str_in_output
    kv_transfer_params length_penalty logits_processors min_p min_tokens priority prompt_logprobs repetition_penalty
    request_id response_format return_token_ids return_tokens_as_token_ids skip_special_tokens
    spaces_between_special_tokens stop_token_ids structured_outputs top_k truncate_prompt_tokens truncation_side
    use_beam_search vllm_xargs
"""
EXTRAS = {
    "/v1/chat/completions": EXTRAS_OF_BOTH
    + """
        add_generation_prompt chat_template chat_template_kwargs continue_final_message documents include_reasoning
        mm_processor_kwargs thinking_token_budget
    """,
    "/v1/completions": EXTRAS_OF_BOTH + "prompt_embeds",
    "/v1/embeddings": "embed_dtype endianness normalize truncate_prompt_tokens",
}
"""Extensions that vLLM's clients send in `extra_body`."""


def test_the_page_matches_the_code() -> None:
    assert PAGE.read_text() == page(), "run: python -m gateway.openai.compatibility > docs/openai-compatibility.md"


@pytest.mark.parametrize("path", SPECIFIED)
def test_every_field_of_the_specification_has_a_behaviour(path: str) -> None:
    known = {row.field for row in rows(ENDPOINTS[path])}
    assert not set(SPECIFIED[path].split()) - known
    assert not set(EXTRAS.get(path, "").split()) - known


@pytest.mark.parametrize("request_model", ENDPOINTS.values())
def test_every_field_has_one_behaviour_and_a_description(request_model: type[RequestBody]) -> None:
    assert not request_model.not_offered.keys() & request_model.model_fields.keys()
    assert [row.field for row in rows(request_model) if not row.meaning] == []
