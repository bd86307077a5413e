"""The state of a response with file searches follows from the entries of its log."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.answers.responses.run_log import Entry, JobBegun, JobEnded, LoggedPassage, SearchBegun, SearchEnded
from gateway.answers.responses.search_progress import MAX_SEARCHES, SearchPlan, SearchProgress, carried_parts
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.translation import input_items, to_chat
from router.messages import Usage, UsagePart
from tests.gateway.answers.responses.client import delta
from tests.gateway.answers.responses.test_run_log import HIT
from tests.gateway.moderation.test_pieces import model

TOOL = {"type": "file_search", "vector_store_ids": ["vs_1"]}
FUNCTION = {"type": "function", "name": "bark", "parameters": {"type": "object"}}
FORCED = {"type": "file_search"}
JSON = {"format": {"type": "json_object"}}
MODEL = model(4096)


def plan(given: Any = "How is the dog?", **fields: Any) -> SearchPlan:
    tools = fields.pop("tools", [TOOL])
    body = ResponseRequest.parse({"model": "m", "input": given, "tools": tools, "background": True, **fields})
    chat = to_chat(body, input_items(body))
    return SearchPlan.of(body, chat, chat, "192.0.2.1")


def after(of: SearchPlan, *entries: Entry) -> SearchProgress:
    progress = SearchProgress(of)
    for each in entries:
        progress.take(each)
    return progress


def used(prompt: int, completion: int = 0) -> Usage:
    return Usage(prompt_tokens=prompt, completion_tokens=completion)


FOUND = SearchEnded([LoggedPassage.of(HIT)], [UsagePart(model="e", usage=used(3))], shown=False)
NOTHING = SearchEnded([], [], shown=False)


@pytest.mark.parametrize(
    "given",
    [
        plan(tool_choice=FORCED, max_tool_calls=1, include=["file_search_call.results"], max_output_tokens=7),
        plan(tools=[TOOL, FUNCTION], tool_choice={"type": "allowed_tools", "mode": "required", "tools": [FORCED]}),
        plan(
            [{"role": "user", "content": [{"type": "input_text", "text": "dog?"}]}],
            text=JSON,
        ),
        plan(tools=[{**TOOL, "max_num_results": 3, "filters": {"type": "eq", "key": "year", "value": 2024}}]),
    ],
)
def test_a_plan_is_decoded_as_it_was(given: SearchPlan) -> None:
    assert SearchPlan.decoded(given.encoded()) == given


def test_a_stored_plan_has_no_images() -> None:
    image = "data:image/png;base64,AAAA"
    content = [{"type": "input_text", "text": "dog?"}, {"type": "input_image", "image_url": image}]
    of = plan([{"role": "user", "content": content}])
    assert image.encode() not in of.encoded()
    assert [part.type for part in SearchPlan.decoded(of.encoded()).chat.messages[0].content] == ["text", "image_url"]  # type: ignore[union-attr]


def test_the_model_answers_first_and_its_queries_are_searched_for_one_by_one() -> None:
    of = plan()
    assert after(of).next_queries is None
    chat, begun = after(of).next_chat(MODEL)
    assert (begun, [each.function.name for each in chat.tools or ()]) == (JobBegun([], 0), ["file_search"])
    log: list[Entry] = [begun, delta(text="a"), JobEnded(used(5, 1), [], ["pies", "cat"])]
    assert (after(of, *log).next_queries, after(of, *log).is_searching) == (["pies"], False)
    log.append(SearchBegun(["pies"]))
    assert (after(of, *log).next_queries, after(of, *log).is_searching) == (["pies"], True)
    log += [FOUND, SearchBegun(["cat"]), FOUND]
    searched = after(of, *log)
    assert (searched.next_queries, searched.job, searched.left) == (None, None, MAX_SEARCHES - 2)
    assert [each.key for each in searched.found] == [HIT.key]
    assert (searched.usage, searched.parts) == (used(5, 1), (UsagePart(model="e", usage=used(6)),))


def test_a_job_that_runs_is_made_again_with_the_same_passages() -> None:
    log: list[Entry] = [SearchBegun(["How is the dog?"]), FOUND]
    first = after(plan(tool_choice=FORCED), *log)
    chat, begun = first.next_chat(MODEL)
    assert (begun.sources, first.budget and first.budget.max_tokens) == ([HIT.source], begun.room)
    other = model(512)  # as another fleet would report it
    resumed = after(plan(tool_choice=FORCED), *log, begun, delta(text="a"), delta(start=1, text="b"))
    assert resumed.next_chat(other) == (chat, begun)
    assert [each.text for each in resumed.deltas] == ["a", "b"]


def test_the_limit_of_output_tokens_is_of_all_jobs() -> None:
    of = plan(max_output_tokens=10)
    ended = after(of, JobBegun([], 0), JobEnded(used(5, 4), [], ["pies"]), SearchBegun(["pies"]), FOUND)
    assert ended.next_chat(MODEL)[0].token_limit == 6


def test_nothing_that_fits_is_answered_without_a_model() -> None:
    of = plan(tool_choice=FORCED)
    assert after(of).not_found_answer is None
    searched = after(of, SearchBegun(["How is the dog?"]), NOTHING)
    assert searched.not_found_answer == "The answer to this question is not in your documents."
    searched.take(delta(text=searched.not_found_answer, finish_reason="stop"))
    assert searched.ended
    assert after(plan(tool_choice=FORCED), SearchBegun(["How is the dog?"]), FOUND).not_found_answer is None


def test_the_answer_is_whole_after_a_job_without_queries() -> None:
    assert not after(plan(), JobBegun([], 0), delta(text="a")).ended
    assert after(plan(), JobBegun([], 0), JobEnded(used(5, 1), [], [])).ended


def test_a_later_job_is_billed_for_what_earlier_processes_used() -> None:
    assert carried_parts(after(plan()), "m") == ()
    log: list[Entry] = [JobBegun([], 0), JobEnded(used(5, 1), [], ["pies"]), SearchBegun(["pies"]), FOUND]
    parts = {each.model: each.usage for each in carried_parts(after(plan(), *log), "m")}
    assert parts == {"m": used(5, 1), "e": used(3)}
