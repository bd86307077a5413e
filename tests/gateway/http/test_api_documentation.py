"""`/openapi.json` describes the actual requests and responses."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

from tests.gateway.conftest import MODEL, SetStage

HI = [{"role": "user", "content": "hi"}]


def schema(document: dict[str, Any], name: str) -> Draft202012Validator:
    """A validator of one of its schemas."""
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": document["components"]})


async def test_the_document_needs_no_key_and_has_every_route(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.client.get("/openapi.json", headers={"authorization": ""})
    assert response.status_code == 200
    document = response.json()
    assert {"/v1/chat/completions", "/v1/completions", "/v1/models", "/v1/models/{name}"} <= document["paths"].keys()
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            by_key = path.startswith(("/v1/", "/api/")) and path not in ("/v1/blobs/{blob_id}", "/api/version")
            assert bool(operation.get("security")) == by_key


async def test_responses_match_the_document(set_stage: SetStage) -> None:
    stage = await set_stage()
    document = (await stage.client.get("/openapi.json")).json()
    answers = {
        "ChatCompletion": await stage.chat(logprobs=True, top_logprobs=1),
        "Completion": await stage.complete(logprobs=1),
        "ModelList": await stage.client.get("/v1/models"),
        "ErrorBody": await stage.chat(n=0),
    }
    for name, response in answers.items():
        schema(document, name).validate(response.json())


async def test_request_bodies_are_documented(set_stage: SetStage) -> None:
    stage = await set_stage()
    document = (await stage.client.get("/openapi.json")).json()
    chat, text = schema(document, "ChatCompletionRequest"), schema(document, "CompletionRequest")
    for prompt in ("x", ["x", "y"], [1, 2], [[1], [2]]):
        assert text.is_valid({"model": MODEL, "prompt": prompt})
    refused: list[Any] = ["", [], [[]], ["x", 1], [-1], ["x"] * 65]
    for prompt in refused:
        assert not text.is_valid({"model": MODEL, "prompt": prompt})
    assert chat.is_valid({"model": MODEL, "messages": HI, "n": 2, "user": None})
    wrongs: list[dict[str, Any]] = [{"n": 0}, {"messages": []}, {"logit_bias": {"x": 1}}, {"temperature": "1"}]
    for wrong in wrongs:
        assert not chat.is_valid({"model": MODEL, "messages": HI, **wrong})
