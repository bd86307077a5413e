"""The tool `file_search` of responses: searches run in the gateway, answers cite, all of it is one bill."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from gateway.answers.responses.search_progress import MAX_SEARCHES
from gateway.http import sse
from router.messages import ChatPrompt, FailureCode, Job, ServiceClass, ToolCallDelta, ToolMode
from router.producer.errors import SlowClient
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import StoreScope, person_grantee
from tests.fakes.scripted_worker import Script, ScriptedWorker, fail
from tests.gateway.conftest import KEY, MODEL, OTHER_KEY, eventually
from tests.gateway.http.routes.test_files import error_of
from tests.gateway.http.routes.test_responses import EVENT, answer, events
from tests.gateway.vector_stores.library import CATS, DOGS, EMBEDDER, RENT, Library, library

CITED = "Each dog barks [1]. Nothing else [7]."
FORCED = {"type": "file_search"}


def calling(query: str) -> dict[str, Any]:
    call = ToolCallDelta(index=0, id="call_a", name="file_search", arguments=f'{{"query": "{query}"}}')
    return {"tool_calls": [call]}


def in_turn(*scripts: Script) -> Script:
    """A script for each job, the last one for all that follow."""
    left = list(scripts)

    async def script(worker: ScriptedWorker, job: Job) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(worker, job)

    return script


SEARCH = answer(calling("pies"), finish="tool_calls")
ANSWER = answer({"text": "Each dog "}, {"text": "barks [1]. "}, {"text": "Nothing else [7]."})


async def respond(shelf: Library, store: str, given: Any = "How is the dog?", **fields: Any) -> Any:
    tool = {"type": "file_search", "vector_store_ids": [store], **fields.pop("tool", {})}
    body = {"model": MODEL, "input": given, "tools": [tool], "max_output_tokens": 5, **fields}
    return await shelf.client.post("/v1/responses", json=body)


def prompt_of(job: Job) -> str:
    assert isinstance(job.prompt, ChatPrompt)
    return str(job.prompt.messages[-1]["content"])


def functions_of(job: Job) -> list[str]:
    assert isinstance(job.prompt, ChatPrompt)
    return [each["function"]["name"] for each in job.prompt.tools or ()]


async def test_a_forced_search_is_of_the_question_and_the_answer_cites() -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create(DOGS, CATS, RENT)
        response = await respond(
            shelf, store["id"], tool_choice=FORCED, include=["file_search_call.results"], tool={"max_num_results": 2}
        )
        assert response.status_code == 200, response.text
        body = response.json()
        search, message = body["output"]
        assert (search["type"], search["status"], search["queries"]) == (
            "file_search_call",
            "completed",
            ["How is the dog?"],
        )
        assert search["id"].startswith("fs_")
        assert search["results"][0]["filename"] == "0.md"
        best = search["results"][0]
        place = {"vector_store_id": store["id"], "passage": 0, "page": None, "heading_path": ["Dogs"]}
        assert {name: best[name] for name in place} == place
        assert best["attributes"] == {}
        assert "kennel" in best["text"]
        assert 0 <= best["start"] < best["end"]
        (part,) = message["content"]
        assert part["text"] == CITED
        source = {name: best[name] for name in best if name not in ("score", "attributes", "text")}
        assert part["annotations"] == [{"type": "file_citation", "index": CITED.index("[1]"), **source}]
        (job,) = shelf.stage.worker.jobs
        assert functions_of(job) == []
        assert "kennel" in prompt_of(job)
        assert prompt_of(job).endswith("How is the dog?")
        assert body["usage"]["parts"] == [{"model": EMBEDDER, "prompt_tokens": 3, "completion_tokens": 0}]
        budget = body["passages"]
        assert (budget["found"], budget["quoted"]) == (len(search["results"]), len(search["results"]))
        assert 0 < budget["tokens"] <= budget["max_tokens"]


async def test_the_model_decides_to_search_and_all_is_one_bill() -> None:
    async with library(in_turn(SEARCH, ANSWER)) as shelf:
        store = await shelf.create(DOGS)
        await eventually(lambda: len(shelf.stage.receipts) == 1)
        body = (await respond(shelf, store["id"])).json()
        assert [each["type"] for each in body["output"]] == ["file_search_call", "message"]
        assert body["output"][0]["queries"] == ["pies"]
        assert body["output"][0]["results"] is None
        first, second = shelf.stage.worker.jobs
        assert functions_of(first) == functions_of(second) == ["file_search"]
        assert prompt_of(first) == "How is the dog?"
        assert "kennel" in prompt_of(second)
        assert (first.id, second.id) == (body["id"], f"{body['id']}-s1")
        await eventually(lambda: len(shelf.stage.receipts) == 4)
        used = [each.usage.completion_tokens for each in shelf.stage.receipts]
        assert body["usage"]["output_tokens"] == sum(used) == 4
        assert shelf.worker.jobs[-1].service_class is ServiceClass.DEFAULT


async def test_the_stream_has_the_events_of_searches_and_annotations() -> None:
    async with library(in_turn(SEARCH, ANSWER)) as shelf:
        store = await shelf.create(DOGS)
        response = await respond(shelf, store["id"], stream=True)
        found = events(response.text)
        for each in found:
            EVENT.validate_python(each)
        assert [each["sequence_number"] for each in found] == list(range(len(found)))
        kinds = [each["type"].removeprefix("response.") for each in found]
        assert kinds[:7] == [
            "created",
            "in_progress",
            "output_item.added",
            "file_search_call.in_progress",
            "file_search_call.searching",
            "file_search_call.completed",
            "output_item.done",
        ]
        assert kinds[-5:] == [
            "output_text.annotation.added",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
        assert found[-1]["response"]["output"][1]["content"][0]["annotations"]
        assert response.text.endswith("data: [DONE]\n\n")


async def test_searches_are_bounded() -> None:
    async with library(SEARCH) as shelf:
        store = await shelf.create(DOGS)
        body = (await respond(shelf, store["id"])).json()
        assert [each["type"] for each in body["output"]] == ["file_search_call"] * MAX_SEARCHES
        assert functions_of(shelf.stage.worker.jobs[-1]) == []
        limited = (await respond(shelf, store["id"], max_tool_calls=1)).json()
        assert len(limited["output"]) == 1
        assert (await respond(shelf, store["id"], max_tool_calls=0)).json()["output"] == []
        assert functions_of(shelf.stage.worker.jobs[-1]) == []


async def test_where_nothing_fits_the_answer_says_so_and_no_model_writes_it() -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create(RENT)
        await eventually(lambda: len(shelf.stage.receipts) == 1)
        body = (await respond(shelf, store["id"], "Gdzie jest kot?", tool_choice=FORCED)).json()
        assert body["status"] == "completed"
        (part,) = body["output"][1]["content"]
        assert part["text"] == "Odpowiedzi na to pytanie nie ma w Twoich dokumentach."
        response = await respond(shelf, store["id"], "Where is the cat?", tool_choice=FORCED, stream=True)
        streamed = events(response.text)
        assert streamed[-1]["type"] == "response.completed"
        assert streamed[-1]["response"]["output"][1]["content"][0]["text"].endswith("is not in your documents.")
        assert shelf.stage.worker.jobs == []
        assert (body["usage"]["output_tokens"], body["usage"]["parts"][0]["prompt_tokens"]) == (0, 3)
        await eventually(lambda: len(shelf.stage.receipts) == 3)
        assert [each.usage.prompt_tokens for each in shelf.stage.receipts[1:]] == [3, 3]


@pytest.mark.parametrize(
    ("question", "fields"),
    [("kot?", {}), ("Where is the cat?", {"text": {"format": {"type": "json_object"}}})],
    ids=["unknown language", "JSON"],
)
async def test_a_model_is_told_that_nothing_fits_where_no_sentence_will_do(
    question: str, fields: dict[str, Any]
) -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create(RENT)
        body = (await respond(shelf, store["id"], question, tool_choice=FORCED, **fields)).json()
        (job,) = shelf.stage.worker.jobs
        assert "no passage fits" in prompt_of(job)
        assert "700" not in prompt_of(job)
        assert body["output"][1]["content"][0]["annotations"] == []


@pytest.mark.parametrize("options", [{"score_threshold": 0}, {"only_if_relevant": False}])
async def test_ranking_options_decide_in_place_of_relevance(options: dict[str, Any]) -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create(RENT)
        tool = {"ranking_options": options}
        await respond(shelf, store["id"], "Where is the cat?", tool_choice=FORCED, tool=tool)
        assert "700" in prompt_of(shelf.stage.worker.jobs[0])


async def test_a_question_is_searched_for_with_the_one_before() -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create(DOGS)
        turns = [("user", "How is the dog?"), ("assistant", "Well."), ("user", "And why?")]
        given = [{"role": role, "content": content} for role, content in turns]
        body = (await respond(shelf, store["id"], given, tool_choice=FORCED)).json()
        assert body["output"][0]["queries"] == ["And why?", "And why?\nHow is the dog?"]
        assert "kennel" in prompt_of(shelf.stage.worker.jobs[0])


async def test_the_limit_of_output_tokens_is_of_all_jobs_together() -> None:
    async with library(in_turn(SEARCH, ANSWER)) as shelf:
        store = await shelf.create(DOGS)
        await respond(shelf, store["id"], max_output_tokens=40)
        first, second = shelf.stage.worker.jobs
        assert (first.sampling.max_tokens, second.sampling.max_tokens) == (40, 39)


async def test_an_allowed_tool_stays_the_only_one_after_a_search() -> None:
    async with library(in_turn(SEARCH, ANSWER)) as shelf:
        store = await shelf.create(DOGS)
        tools = [{"type": "file_search", "vector_store_ids": [store["id"]]}, {"type": "function", "name": "bark"}]
        choice = {"type": "allowed_tools", "mode": "required", "tools": [FORCED]}
        body = {"model": MODEL, "input": "dog?", "tools": tools, "tool_choice": choice, "max_tool_calls": 1}
        response = await shelf.client.post("/v1/responses", json=body)
        assert response.status_code == 200, response.text
        modes = []
        for job in shelf.stage.worker.jobs:
            assert isinstance(job.prompt, ChatPrompt)
            modes.append((job.prompt.tool_choice.mode, job.prompt.tool_choice.names))
        assert modes == [(ToolMode.REQUIRED, ["file_search"]), (ToolMode.NONE, [])]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_repeated_request_is_searched_and_billed_once(*, streamed: bool) -> None:
    async with library(in_turn(SEARCH, ANSWER), ping_interval=60.0) as shelf:
        store = await shelf.create(DOGS)
        await eventually(lambda: len(shelf.stage.receipts) == 1)
        shelf.client.headers["idempotency-key"] = "once"
        first = await respond(shelf, store["id"], stream=streamed)
        again = await respond(shelf, store["id"], stream=streamed)
        assert (first.status_code, again.text) == (200, first.text)
        await eventually(lambda: len(shelf.stage.receipts) == 4)
        assert all(each.usage.prompt_tokens for each in shelf.stage.receipts)


async def test_all_jobs_count_at_the_rate_limits_as_one_request() -> None:
    """The import is the embedding model's first request, and both searches are the second one."""
    async with library(in_turn(SEARCH, SEARCH, ANSWER), limits_per_model="2 requests/minute") as shelf:
        store = await shelf.create(DOGS)
        body = (await respond(shelf, store["id"])).json()
        assert [each["type"] for each in body["output"]] == ["file_search_call", "file_search_call", "message"]
        assert (await respond(shelf, store["id"], tool_choice=FORCED)).status_code == 429


async def test_calls_of_the_clients_tools_end_the_response() -> None:
    both = answer(
        calling("pies"),
        {"tool_calls": [ToolCallDelta(index=1, id="call_b", name="bark", arguments="{}")]},
        finish="tool_calls",
    )
    async with library(both) as shelf:
        store = await shelf.create(DOGS)
        tools = [{"type": "file_search", "vector_store_ids": [store["id"]]}, {"type": "function", "name": "bark"}]
        response = await shelf.client.post("/v1/responses", json={"model": MODEL, "input": "hi", "tools": tools})
        assert [each["type"] for each in response.json()["output"]] == ["function_call"]


async def test_stored_searches_are_part_of_the_next_conversation() -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create(DOGS)
        first = (await respond(shelf, store["id"], tool_choice=FORCED)).json()
        again = await respond(shelf, store["id"], "And now?", previous_response_id=first["id"], tool_choice=FORCED)
        assert again.status_code == 200, again.text
        sent_back = [
            {"role": "user", "content": "How is the dog?"},
            *first["output"],
            {"role": "user", "content": "Now?"},
        ]
        assert (await respond(shelf, store["id"], sent_back, tool_choice=FORCED)).status_code == 200
        messages = shelf.stage.worker.jobs[-1].prompt
        assert isinstance(messages, ChatPrompt)
        assert [each["role"] for each in messages.messages] == ["user", "assistant", "user"]


async def test_a_failed_response_costs_nothing() -> None:
    async with library(in_turn(SEARCH, fail(FailureCode.FAILED_REPEATEDLY))) as shelf:
        store = await shelf.create(DOGS)
        await eventually(lambda: len(shelf.stage.receipts) == 1)
        response = await respond(shelf, store["id"])
        assert response.status_code >= 500
        await eventually(lambda: len(shelf.stage.receipts) == 4)
        assert [each.usage.completion_tokens + each.usage.prompt_tokens for each in shelf.stage.receipts[1:]] == [0] * 3


async def test_a_failure_in_a_stream_is_its_last_event() -> None:
    async with library(in_turn(SEARCH, fail(FailureCode.FAILED_REPEATEDLY))) as shelf:
        store = await shelf.create(DOGS)
        found = events((await respond(shelf, store["id"], stream=True)).text)
        assert found[-1]["type"] == "response.failed"
        assert found[-1]["response"]["output"][0]["type"] == "file_search_call"


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"tool": {"max_num_results": 51}}, 400, "tools[0].max_num_results"),
        ({"tool": {"vector_store_ids": []}}, 400, "tools[0].vector_store_ids"),
        ({"tool": {"vector_store_ids": ["vs_none"]}}, 404, None),
        ({"tool_choice": {"type": "web_search"}}, 400, "tool_choice"),
    ],
)
async def test_refused_requests(fields: dict[str, Any], status: int, param: str | None) -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create()
        response = await respond(shelf, store["id"], **fields)
        assert response.status_code == status, response.text
        assert error_of(response)[2] == param


@pytest.mark.parametrize("scope", [Scope.FILES, Scope.EMBEDDINGS])
async def test_a_key_needs_the_scopes_of_a_search(scope: Scope) -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create(DOGS)
        scopes = frozenset(Scope) - {scope}
        caller = Principal("key-5", "tenant-1", "salt-1", project="project-1", scopes=scopes)
        shelf.stage.accounts.added["hr_live_less"] = caller
        shelf.client.headers["authorization"] = "Bearer hr_live_less"
        response = await respond(shelf, store["id"], tool_choice=FORCED)
        assert (response.status_code, error_of(response)[1]) == (403, "missing_scope")


async def test_another_projects_vector_store_is_not_searched() -> None:
    async with library(ANSWER) as shelf:
        store = await shelf.create(DOGS)
        tools = [{"type": "file_search", "vector_store_ids": [store["id"]]}]
        body = {"model": MODEL, "input": "dog", "tools": tools, "tool_choice": FORCED}
        headers = {"authorization": f"Bearer {OTHER_KEY}"}
        response = await shelf.client.post("/v1/responses", json=body, headers=headers)
        assert response.status_code == 404
        assert shelf.stage.worker.jobs == []


async def test_an_answer_is_not_repeated_to_a_person_who_may_not_read_its_vector_store() -> None:
    async with library() as shelf:
        ada, bob = [
            replace(await shelf.stage.accounts.authenticate(KEY), key_id=f"key-{name}", user=name)
            for name in ("ada", "bob")
        ]
        shelf.stage.accounts.added |= {"hr_live_ada": ada, "hr_live_bob": bob}
        stores = shelf.stage.gateway.vector_stores
        store = await stores.create(ProjectOwner.of(ada), embedder=EMBEDDER, scope=StoreScope.PERSON, person=ada.user)
        tool = {"type": "file_search", "vector_store_ids": [store.id]}
        body = {"model": MODEL, "input": "How is the dog?", "tools": [tool], "tool_choice": FORCED}

        async def ask(name: str) -> int:
            headers = {"authorization": f"Bearer hr_live_{name}", "idempotency-key": "k"}
            return (await shelf.client.post("/v1/responses", json=body, headers=headers)).status_code

        await stores.share(store, person_grantee(bob.user))
        assert [await ask("ada"), await ask("bob")] == [200, 200]
        await stores.unshare(store, person_grantee(bob.user))
        assert [await ask("ada"), await ask("bob")] == [200, 404]


async def test_a_stream_that_the_client_does_not_even_begin_to_read_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def blocked(*_: Any) -> None:
        raise SlowClient

    async with library(ANSWER) as shelf:
        store = await shelf.create(DOGS)
        await eventually(lambda: len(shelf.stage.receipts) == 1)
        monkeypatch.setattr(sse._KeepAliveSender, "send", blocked)
        with suppress(AssertionError):  # the client gets no response
            await respond(shelf, store["id"], tool_choice=FORCED, stream=True)
        await eventually(lambda: len(shelf.stage.receipts) == 3)
        assert shelf.stage.receipts[1].usage.prompt_tokens == 3
