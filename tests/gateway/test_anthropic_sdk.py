"""What Anthropic's own client makes of our messages, errors and lists, on a port."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from router.messages import FailureCode
from tests.fakes.scripted_worker import count, fail
from tests.gateway.conftest import HI, KEY, MODEL, Serve
from tests.gateway.dialects.test_transcripts import anthropic_client
from tests.gateway.test_openai_sdk import once

ASK: Any = {"model": MODEL, "max_tokens": 50, "messages": HI}


async def test_text_is_streamed(serve: Serve) -> None:
    server = await serve(count)
    async with anthropic_client(server) as client, client.messages.stream(**ASK) as stream:
        assert [text async for text in stream.text_stream] == ["0 ", "1 ", "2 ", "3 ", "4 "]
        message = await stream.get_final_message()
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 5)
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) == 5


async def test_the_key_may_be_sent_in_either_header(serve: Serve) -> None:
    server = await serve(count)
    headers: Any = {"X-Api-Key": KEY, "Authorization": anthropic.Omit()}
    async with anthropic_client(server, "unused", default_headers=headers) as client:
        message = await client.messages.create(**ASK)
    assert message.id.startswith("msg_")
    assert str(message._request_id).startswith("req_")


async def test_errors_become_the_clients_exceptions(serve: Serve) -> None:
    server = await serve()
    async with anthropic_client(server) as client, anthropic_client(server, "hr_live_unknown") as unknown:
        with pytest.raises(anthropic.BadRequestError) as bad:
            await client.messages.create(**ASK | {"max_tokens": 0})
        with pytest.raises(anthropic.NotFoundError) as missing:
            await client.messages.create(**ASK | {"model": "org/none"})
        with pytest.raises(anthropic.AuthenticationError) as refused:
            await unknown.messages.create(**ASK)
    assert [error.value.type for error in (bad, missing, refused)] == [
        "invalid_request_error",
        "not_found_error",
        "authentication_error",
    ]
    assert server.stage.worker.jobs == []


async def test_an_overloaded_service_is_tried_again(serve: Serve) -> None:
    server = await serve(once(fail(FailureCode.UPSTREAM_BUSY)))
    async with anthropic_client(server) as impatient:
        with pytest.raises(anthropic.InternalServerError) as overloaded:
            await impatient.messages.create(**ASK)
    assert (overloaded.value.status_code, overloaded.value.type) == (529, "overloaded_error")
    server = await serve(once(fail(FailureCode.WORKER_LOST)))
    async with anthropic_client(server, max_retries=1) as patient:
        message = await patient.messages.create(**ASK)
    assert message.content[0].type == "text"
    assert len(server.stage.worker.jobs) == 2


async def test_an_error_after_the_first_token_is_raised_in_the_stream(serve: Serve) -> None:
    server = await serve(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    texts: list[str] = []

    async def read() -> None:
        async with anthropic_client(server) as client, client.messages.stream(**ASK) as stream:
            texts.extend([text async for text in stream.text_stream])

    with pytest.raises(anthropic.APIStatusError) as failed:
        await read()
    assert failed.value.type == "api_error"


async def test_models_are_listed_in_anthropics_shape(serve: Serve) -> None:
    server = await serve()
    async with anthropic_client(server) as client:
        listed = [model async for model in client.models.list()]
        one = await client.models.retrieve(MODEL)
    assert [model.id for model in listed] == [one.id] == [MODEL]
    assert one.max_input_tokens == 128
