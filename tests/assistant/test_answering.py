"""Answers in steps: what the client sees, what the models read, what is billed, and what a takeover repeats."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any

import pytest
from msgspec.structs import replace

from assistant.abilities import tool_part
from assistant.routing import embedding_router
from assistant.routing.classifier import ToolClassifier
from assistant.routing.embedding_router import EmbeddingRouter
from assistant.routing.function_router import MAX_TOKENS
from assistant.routing.labelled_prompts import LABELS, read_prompts
from assistant.routing.rule_rewriter import stand_alone
from assistant.tools.tool import NotFound
from router.errors import BrokerUnavailable
from router.messages import (
    ChatPrompt,
    Delta,
    Embedded,
    EmbeddingPrompt,
    Failed,
    FailureCode,
    Finished,
    FinishReason,
    Grammar,
    GrammarKind,
    Job,
    Outcome,
    OwnToolCall,
    Started,
    Step,
    StepState,
    TextOptions,
    ToolCallDelta,
    Usage,
    UsagePart,
)
from router.usage_arithmetic import exceeds
from tests.assistant.answers import child_jobs, ended_steps, kinds, last_message
from tests.assistant.conftest import Platform
from tests.fakes.assistant_process import ASSISTANT, GatedTool
from tests.fakes.fleet import Answer, counted, until
from tests.fakes.scripted_worker import ScriptedWorker, fail, never, say, usage

FOLLOW_UP = ("weather in Krakow?", "It is 20 degrees in Krakow.", "and tomorrow?")
WEATHER = {"type": "function", "function": {"name": "mine", "description": "", "parameters": {"type": "object"}}}


async def test_a_question_is_routed_and_a_tool_called_before_the_answer(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1", step_time=None)
    talents = platform.talents(system="Be brief.")
    await platform.assistant(talents)
    answer = await platform.ask("do the math")
    await until(lambda: child_jobs(worker))
    [job] = child_jobs(worker)
    assert isinstance(job.prompt, ChatPrompt)
    assert job.prompt.messages[0] == {"role": "system", "content": "Be brief."}
    assert last_message(job) == "the tool's result\n\ndo the math"
    worker.engine.step(5)
    await answer.read()
    assert kinds(answer) == [("route", "math", "done"), ("tool", "math", "running"), ("tool", "math", "done")]
    route, tool = ended_steps(answer)
    assert route.data == {
        "choice": "math",
        "way": "classifier",
        "arguments": {"text": "do the math"},
        "confidence": 0.9,
    }
    assert (route.parts, tool.parts) == ([], [tool_part("math")])
    assert tool.data["result"]["tool"] == "math"
    assert answer.texts == [counted(5)]
    assert isinstance(answer.terminal, Finished)
    assert answer.terminal.usage.completion_tokens == 5
    [context] = talents.tool("math").contexts
    assert (context.tenant, context.language, context.question) == ("t", "en", "do the math")
    await until(lambda: len(platform.fleet.records) == 2)
    record = next(each for each in platform.fleet.records if each.job == "p")
    assert (record.parts, record.usage, record.outcome) == ([tool_part("math")], answer.terminal.usage, "finished")


async def test_a_question_without_tool_is_answered_directly(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    await platform.assistant(platform.talents())
    answer = await platform.ask("hello", sampling={"temperature": 0.5})
    await answer.read()
    assert kinds(answer) == [("route", "none", "done")]
    assert answer.texts == [counted(5)]


async def test_a_conversation_with_images_is_answered_by_a_model_that_reads_them_and_without_tools(
    platform: Platform,
) -> None:
    await platform.fleet.start("worker-1")
    seeing = await platform.scripted("seeing", say("A", " mill"), reads_images=True)
    await platform.assistant(platform.talents())
    image = {"type": "image"}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "do the math"}, image]},
        {"role": "assistant", "content": "36"},
        {"role": "user", "content": [image, {"type": "text", "text": "do the math"}]},
    ]
    answer = await platform.ask(messages=messages, chat={"images": [b"1", b"2"]})
    await answer.read()
    [job] = seeing.jobs
    assert job.prompt == ChatPrompt(messages=messages, images=[b"1", b"2"])
    assert (kinds(answer), answer.texts) == ([], ["A mill"])


async def test_a_tool_that_finds_nothing_in_the_question_is_not_called(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    await platform.assistant(platform.talents())
    answer = await platform.ask("math about nothing")
    await answer.read()
    assert kinds(answer) == [("route", "none", "done")]


async def test_sampling_text_options_and_grammar_are_the_answers(platform: Platform) -> None:
    worker = await platform.scripted("counting", never)
    await platform.assistant(platform.talents())
    grammar, text = Grammar(kind=GrammarKind.JSON_OBJECT), TextOptions(stop=["9"])
    answer = await platform.ask("hello", sampling={"temperature": 0.25, "top_p": 0.5}, grammar=grammar, text=text)
    await until(lambda: worker.jobs)
    [job] = worker.jobs
    assert (job.grammar, job.text, job.sampling) == (grammar, text, answer.job.sampling)
    assert (job.parent, job.id) == ("p", "p-a")


async def test_a_failed_tool_is_shown_and_the_question_answered(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1", step_time=None)
    talents = platform.talents()
    talents.tool("math").error = NotFound()
    await platform.assistant(talents)
    answer = await platform.ask("do the math")
    await until(lambda: child_jobs(worker))
    assert last_message(child_jobs(worker)[0]).startswith("[The tool math could not help: ")
    worker.engine.step(5)
    await answer.read()
    [_, tool] = ended_steps(answer)
    assert (tool.state, tool.data["error"]["code"], tool.parts) == (StepState.FAILED, "not_found", [])
    assert answer.texts == [counted(5)]


async def test_a_result_that_needs_no_words_ends_the_answer(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1")
    await platform.assistant(platform.talents())
    answer = await platform.ask("open web_page")
    await answer.read()
    assert answer.texts == [""]
    assert answer.ends == ["stop"]
    assert answer.terminal is not None
    assert answer.terminal.usage == Usage(prompt_tokens=0)
    assert not worker.engine.submitted


async def test_a_tool_phrases_the_answer_unless_the_model_shall(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1", step_time=None)
    talents = platform.talents(phrases="tools")
    talents.tool("math").text = "It is 36."
    await platform.assistant(talents)
    answer = await platform.ask("do the math")
    await answer.read()
    assert (answer.texts, answer.ends) == (["It is 36."], ["stop"])
    assert answer.terminal is not None
    assert answer.terminal.usage == Usage(prompt_tokens=0)
    assert not worker.engine.submitted


PHRASED = [
    Step(number=0, kind="route", name="weather", state=StepState.DONE, data={"choice": "weather"}),
    Step(number=1, kind="tool", name="weather", state=StepState.DONE, data={"arguments": {}, "result": {}}),
]


async def test_a_phrased_answer_is_not_repeated_after_a_death(platform: Platform) -> None:
    """The process died after it had delivered the text, before its terminal reply."""
    worker = await platform.fleet.start("worker-1")
    talents = platform.talents(phrases="tools")
    talents.tool("weather").text = "It rains."
    await platform.assistant(talents)
    delivered: dict[str, Any] = {"steps": PHRASED, "texts": ["It rains."], "text_positions": [1], "ended": [0]}
    answer = await platform.ask("weather", copy_number=1, **delivered)
    await answer.read()
    assert isinstance(answer.terminal, Finished)
    assert (answer.texts, answer.terminal.usage) == ([""], Usage(prompt_tokens=0))
    assert not child_jobs(worker)


async def test_an_answer_that_a_model_has_begun_is_not_ended_by_a_phrase(platform: Platform) -> None:
    """As after a change of the catalogue's `phrases`: the earlier process had the model write."""
    await platform.fleet.start("worker-1")
    talents = platform.talents(phrases="tools")
    talents.tool("weather").text = "It rains."
    await platform.assistant(talents)
    answer = await platform.ask("weather", copy_number=1, steps=PHRASED, delivered=[[1, 2]])
    answer.positions = [4]
    await answer.read()
    assert isinstance(answer.terminal, Finished)
    assert "rains" not in answer.texts[0]
    assert answer.terminal.usage.completion_tokens == 5


async def test_a_failed_tool_says_so_in_its_own_words(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1", step_time=None)
    talents = platform.talents(phrases="tools")
    talents.tool("math").error = NotFound()
    await platform.assistant(talents)
    answer = await platform.ask("do the math")
    await answer.read()
    assert answer.texts == [NotFound().message("en")]
    assert not worker.engine.submitted


async def test_the_clients_own_tools_are_passed_through(platform: Platform) -> None:
    worker = await platform.scripted("counting", say("ok"))
    talents = platform.talents()
    await platform.assistant(talents)
    answer = await platform.ask("do the math", chat={"tools": [WEATHER]})
    await answer.read()
    assert kinds(answer) == []
    assert isinstance(worker.jobs[0].prompt, ChatPrompt)
    assert worker.jobs[0].prompt.tools == [WEATHER]
    assert not talents.router.questions


@pytest.mark.parametrize("off", [["math"], ["*"]])
async def test_a_tool_that_the_request_switches_off_is_not_chosen(platform: Platform, off: list[str]) -> None:
    await platform.fleet.start("worker-1")
    talents = platform.talents()
    await platform.assistant(talents)
    answer = await platform.ask("do the math", chat={"tools_off": off})
    await answer.read()
    assert kinds(answer) == ([("route", "none", "done")] if off == ["math"] else [])
    assert not talents.tool("math").contexts
    assert answer.texts == [counted(5)]


# Rewriting


async def test_rules_rewrite_a_follow_up(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    talents = platform.talents()
    await platform.assistant(talents)
    answer = await platform.ask(*FOLLOW_UP)
    await answer.read()
    assert [kind for kind, _, _ in kinds(answer)] == ["rewrite", "route", "tool", "tool"]
    rewrite = ended_steps(answer)[0]
    assert (rewrite.name, rewrite.data["from"], rewrite.parts) == ("rules", "and tomorrow?", [])
    assert talents.router.questions == [rewrite.data["to"]]
    assert "weather" in rewrite.data["to"]


@pytest.mark.parametrize(
    ("output", "by"),
    [
        (["weather in Krakow tomorrow?", "\n", "I", " think"], "model"),
        (["Nonsense"], "rules"),
        (["what about it?"], None),
    ],
)
async def test_a_models_rewrite_is_billed_also_if_it_is_cut_off_or_discarded(
    platform: Platform, output: list[str], by: str | None
) -> None:
    await platform.scripted("counting", say(*output))
    question = FOLLOW_UP if by is not None else ("tell me a joke", "ha", "what about it?")
    process = await platform.assistant(platform.talents(rewrites="model"))
    answer = await platform.ask(*question)
    await answer.read()
    rewrites = [step for step in ended_steps(answer) if step.kind == "rewrite"]
    assert [step.name for step in rewrites] == ([] if by is None else [by])
    first = ended_steps(answer)[0]
    [part] = first.parts
    assert part.model == "counting"
    assert part.usage.prompt_tokens == 5
    assert 1 <= part.usage.completion_tokens <= 4
    [most, *_] = process.abilities.most_parts()
    assert most == UsagePart(model="counting", usage=Usage(prompt_tokens=128, completion_tokens=96))


# Models


async def test_an_unavailable_answering_model_fails_the_request(platform: Platform) -> None:
    talents = platform.talents()
    talents.patience = 0.1
    await platform.assistant(talents)
    answer = await platform.ask("hello")
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.WORKER_LOST
    assert "No worker is serving this model" in answer.terminal.message


async def test_a_job_waits_for_the_first_heartbeat_of_the_answering_model(platform: Platform) -> None:
    await platform.assistant(platform.talents())
    answer = await platform.ask("hello")
    await asyncio.sleep(0.1)
    await platform.fleet.start("worker-1")
    await answer.read()
    assert answer.texts == [counted(5)]


@pytest.mark.parametrize("way", ["grammar", "function"])
@pytest.mark.parametrize("known", [True, False])
async def test_a_failing_routing_model_leaves_a_direct_answer(platform: Platform, way: str, known: bool) -> None:
    await platform.fleet.start("worker-1")
    if known:
        await platform.scripted("router", fail(FailureCode.ENGINE_ERROR))
    await platform.assistant(platform.talents(routing={"way": way, "model": "router"}))
    answer = await platform.ask("do the math")
    await answer.read()
    assert kinds(answer) == [("route", "none", "done")]
    assert answer.texts == [counted(5)]


async def test_a_routing_model_writes_the_arguments_in_a_grammar(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    router = await platform.scripted("router", say('{"tool": "math", ', '"arguments": {"text": "2 + 2"}}'))
    routing = {"way": "grammar", "model": "router", "arguments": True}
    await platform.assistant(platform.talents(routing=routing))
    answer = await platform.ask("how much is two and two?")
    await answer.read()
    [route, tool] = ended_steps(answer)
    assert route.data["arguments"] == tool.data["arguments"] == {"text": "2 + 2"}
    assert router.jobs[0].grammar is not None
    assert router.jobs[0].grammar.kind is GrammarKind.JSON_SCHEMA


async def test_a_routing_model_chooses_and_is_billed(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1")
    router = await platform.scripted("router", say("ma", "th"))
    process = await platform.assistant(platform.talents(routing={"way": "grammar", "model": "router"}))
    answer = await platform.ask("please")
    await answer.read()
    [route, tool] = ended_steps(answer)
    assert (route.name, route.data["way"], tool.name) == ("math", "grammar", "math")
    used = UsagePart(model="router", usage=Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=2))
    assert route.parts == [used]
    assert router.jobs[0].grammar is not None
    assert router.jobs[0].id == "p-s0-1"
    assert process.abilities.most_parts()[0].model == "router"
    assert worker.engine.submitted


async def embed_labels(worker: ScriptedWorker, job: Job) -> None:
    """A vector for each input, three tokens to a text: the label of a training prompt, else that of a direct answer."""
    assert isinstance(job.prompt, EmbeddingPrompt)
    labels = {stand_alone(each.text, each.turns): each.tool for each in read_prompts()}
    found = [labels.get(each, "none") if isinstance(each, str) else "none" for each in job.prompt.inputs]
    vectors = [struct.pack("<6f", *(float(label == each) for each in LABELS)) for label in found]
    tokens = 3 * len(vectors)
    worker.send(job, Started(job_id=job.id, attempt_id="e", worker_id=worker.worker, prompt_tokens=tokens))
    worker.send(job, Embedded(job_id=job.id, attempt_id="e", start=0, vectors=vectors, tokens=tokens))
    worker.send(job, Finished(job_id=job.id, attempt_id="e", usage=Usage(prompt_tokens=tokens)))


async def test_embeddings_of_the_classifier_are_billed(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, with the embedding model that is served."""
    monkeypatch.setattr(embedding_router, "PATIENCE", 20)
    await platform.fleet.start("worker-1")
    await platform.scripted("minilm", embed_labels, dimensions=6)
    prompts = read_prompts()
    router = EmbeddingRouter(ToolClassifier(prompts, stand_alone), "minilm", prompts, stand_alone)
    talents = platform.talents()
    talents.embedding_router = lambda _: router
    process = await platform.assistant(talents)
    await until(lambda: process.abilities.embeds_with)
    first = await platform.ask("hello")
    await first.read()
    assert (ended_steps(first)[0].parts, ended_steps(first)[0].data["embedding"]) == ([], "training")
    await until(lambda: router.languages)
    second = await platform.fleet.ask("q", model=ASSISTANT, prompt=first.job.prompt, sampling=first.job.sampling)
    await second.read()
    route = ended_steps(second)[0]
    assert route.parts == [UsagePart(model="minilm", usage=Usage(prompt_tokens=3))]
    assert route.data["embedding"] == "used"
    assert UsagePart(model="minilm", usage=Usage(prompt_tokens=128)) in process.abilities.most_parts()


async def test_a_routing_call_that_is_cut_off_is_billed(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    await platform.scripted("router", say("Well", ", I think", " that"))
    await platform.assistant(platform.talents(routing={"way": "function", "model": "router"}))
    answer = await platform.ask("please")
    await answer.read()
    [route] = ended_steps(answer)
    [part] = route.parts
    assert (part.model, part.usage.prompt_tokens) == ("router", 5)
    assert part.usage.completion_tokens >= 1
    assert answer.texts == [counted(5)]


async def test_where_the_router_answers_its_stream_goes_on(platform: Platform) -> None:
    worker = await platform.scripted("counting", say("0 ", "1 ", "2 "))
    await platform.assistant(platform.talents(routing={"way": "function"}, system="Be brief."))
    sampling, text = {"temperature": 0.25}, TextOptions(stop=["9"])
    answer = await platform.ask("hello", tokens=MAX_TOKENS, sampling=sampling, text=text)
    await answer.read()
    [job] = worker.jobs
    assert isinstance(job.prompt, ChatPrompt)
    assert [each["role"] for each in job.prompt.messages] == ["system", "user"]
    assert [each["function"]["name"] for each in job.prompt.tools or []][-1] == "answer_directly"
    assert (job.sampling, job.text) == (answer.job.sampling, answer.job.text)
    [route] = ended_steps(answer)
    assert (route.data["choice"], route.data["answers"], route.parts) == ("none", True, [])
    assert answer.texts == ["0 1 2 "]
    assert answer.terminal is not None
    assert answer.terminal.usage == Usage(prompt_tokens=5, completion_tokens=3, cached_tokens=2)


async def test_a_requested_grammar_is_not_given_to_the_routing_call(platform: Platform) -> None:
    worker = await platform.scripted("counting", say("0 "))
    await platform.assistant(platform.talents(routing={"way": "function"}))
    grammar = Grammar(kind=GrammarKind.JSON_OBJECT)
    await (await platform.ask("hello", tokens=MAX_TOKENS, grammar=grammar)).read()
    assert [job.grammar for job in worker.jobs] == [None, grammar]


async def call_math(worker: ScriptedWorker, job: Job) -> None:
    """Call `math` in three tokens, as far as the job allows, if it offers functions; else say two words."""
    if not (isinstance(job.prompt, ChatPrompt) and job.prompt.tools):
        await say("4", " indeed")(worker, job)
        return
    worker.begin(job, "r")
    calls = [ToolCallDelta(index=0, name="math"), *(ToolCallDelta(index=0, arguments=each) for each in CALL_PARTS)]
    calls = calls[: job.sampling.max_tokens]
    for position, each in enumerate(calls):
        last: FinishReason | None = "tool_calls" if position == len(calls) - 1 else None
        delta = Delta(job_id=job.id, attempt_id="r", start=position, token_ids=[position], tool_calls=[each])
        worker.send(job, replace(delta, finish_reason=last))
    worker.send(job, Finished(job_id=job.id, attempt_id="r", usage=usage(job, len(calls))))


CALL_PARTS = ['{"text": ', '"2+2"}']


async def test_the_clients_token_limit_does_not_cut_the_routing_call(platform: Platform) -> None:
    worker = await platform.scripted("counting", call_math)
    process = await platform.assistant(platform.talents(routing={"way": "function"}))
    answer = await platform.ask("please", tokens=2)
    await answer.read()
    route, tool = ended_steps(answer)
    assert (tool.name, tool.data["arguments"]) == ("math", {"text": "2+2"})
    assert answer.texts == ["4 indeed"]
    assert [job.sampling.max_tokens for job in worker.jobs] == [MAX_TOKENS, 2]
    used = Usage(prompt_tokens=5, completion_tokens=3, cached_tokens=2)
    assert route.parts == [UsagePart(model="counting", usage=used)]
    held = next(each for each in process.abilities.most_parts() if each.model == "counting")
    assert not exceeds(used, held.usage)


async def test_a_failure_within_the_routers_answer_is_the_jobs(platform: Platform) -> None:
    await platform.scripted("counting", fail(FailureCode.ENGINE_ERROR, "Broken.", after_tokens=True))
    await platform.assistant(platform.talents(routing={"way": "function"}))
    answer = await platform.ask("hello", tokens=MAX_TOKENS)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert (answer.terminal.code, answer.terminal.message) == (FailureCode.ENGINE_ERROR, "Broken.")


# Long conversations


async def test_what_has_no_room_is_left_out_and_a_step_says_so(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1", step_time=None)
    await platform.assistant(platform.talents())
    answer = await platform.ask("x" * 4000, "y" * 4000, "hello", "hi", "how are you?")
    await until(lambda: child_jobs(worker))
    [job] = child_jobs(worker)
    assert isinstance(job.prompt, ChatPrompt)
    assert [each["content"] for each in job.prompt.messages] == ["hello", "hi", "how are you?"]
    worker.engine.step(5)
    await answer.read()
    summary = ended_steps(answer)[-1]
    assert (summary.kind, summary.data) == ("summary", {"dropped": 2, "kept": 3})


async def test_a_prompt_that_the_worker_refuses_loses_more_turns(platform: Platform) -> None:
    refuse = fail(FailureCode.CONTEXT_LENGTH_EXCEEDED)

    async def script(worker: Any, job: Any) -> None:
        await (refuse if len(job.prompt.messages) > 1 else say("ok"))(worker, job)

    worker = await platform.scripted("counting", script)
    await platform.assistant(platform.talents())
    answer = await platform.ask("a", "b", "c", "d", "e")
    await answer.read()
    assert [len(job.prompt.messages) for job in worker.jobs if isinstance(job.prompt, ChatPrompt)] == [5, 3, 1]
    dropped = [step.data["dropped"] for step in ended_steps(answer) if step.kind == "summary"]
    assert dropped == [2, 4]
    assert answer.texts == ["ok"]


async def test_a_question_that_alone_is_too_long_is_refused(platform: Platform) -> None:
    await platform.scripted("counting", fail(FailureCode.CONTEXT_LENGTH_EXCEEDED, "Too long."))
    await platform.assistant(platform.talents())
    answer = await platform.ask("a" * 3000)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.CONTEXT_LENGTH_EXCEEDED


# The end before the end


@pytest.mark.parametrize("phase", ["rewrite", "route", "tool", "answer"])
async def test_a_cancel_ends_each_phase_and_its_child_job(platform: Platform, phase: str) -> None:
    talents = platform.talents(
        rewrites="model" if phase == "rewrite" else "rules",
        routing={"way": "grammar", "model": "router"} if phase == "route" else {},
    )
    tool: GatedTool = talents.tool("weather")
    tool.gate.shut()
    worker = await platform.scripted("counting", never)
    router = await platform.scripted("router", never)
    await platform.assistant(talents)
    answer = await platform.ask(*(FOLLOW_UP if phase == "rewrite" else ["hello"] if phase == "answer" else ["weather"]))
    busy = {"rewrite": worker.jobs, "route": router.jobs, "tool": tool.contexts, "answer": worker.jobs}[phase]
    await until(lambda: busy)
    platform.fleet.inbox.close([answer.open], cancel=True)
    await until(lambda: any(each.job == "p" for each in platform.fleet.records))
    if phase == "tool":
        assert tool.stopped == 1
    else:
        await until(lambda: any(each.is_set() for each in {**worker.cancelled, **router.cancelled}.values()))
    assert platform.fleet.records[-1].outcome is Outcome.CANCELLED


async def test_a_client_that_leaves_in_the_middle_of_a_step_pays_for_the_ended_steps_alone(platform: Platform) -> None:
    """The model's rewrite, which changed nothing, ended before; it belongs to the step of the route."""
    worker = await platform.scripted("counting", say("what about it?"))
    talents = platform.talents(rewrites="model")
    talents.router.gate.shut()
    await platform.assistant(talents)
    answer = await platform.ask("tell me a joke", "ha", "what about it?")
    await until(lambda: talents.router.questions)
    assert len(worker.jobs) == 1
    platform.fleet.inbox.close([answer.open], cancel=True)
    await until(lambda: any(each.job == "p" for each in platform.fleet.records))
    [record] = [each for each in platform.fleet.records if each.job == "p"]
    assert (record.outcome, record.parts, record.usage) == (Outcome.CANCELLED, [], Usage(prompt_tokens=0))


async def test_the_deadline_ends_the_answer_and_its_child_job(platform: Platform) -> None:
    worker = await platform.scripted("counting", never)
    await platform.assistant(platform.talents())
    answer = await platform.ask("hello", deadline=time.time() + 1)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.DEADLINE_EXCEEDED
    await until(lambda: worker.cancelled and all(each.is_set() for each in worker.cancelled.values()))


async def test_the_deadline_ends_a_tool(platform: Platform) -> None:
    talents = platform.talents()
    tool: GatedTool = talents.tool("weather")
    tool.gate.shut()
    await platform.fleet.start("worker-1")
    process = await platform.assistant(talents)
    answer = await platform.ask("weather", deadline=time.time() + 600)
    await until(lambda: tool.gate.arrived)
    process.skip(600)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.DEADLINE_EXCEEDED
    await until(lambda: tool.stopped)
    await until(lambda: platform.fleet.records)
    assert platform.fleet.records[0].parts == [], "a call that has no result is not billed"


async def test_a_process_without_the_server_of_a_tool_goes_on_with_its_result(platform: Platform) -> None:
    first = await platform.assistant(platform.talents())
    worker = await platform.fleet.start("worker-1", step_time=None)
    answer = await platform.ask("weather")
    await until(lambda: child_jobs(worker))
    worker.engine.step(2)
    await answer.read(2 + 2)
    await first.kill()
    without = platform.talents()
    without.tools.remove(without.tool("weather"))
    await platform.assistant(without, "assistant-2")
    await until(lambda: [each for each in child_jobs(worker) if each.reply_to == "assistant-2"])
    [job] = [each for each in child_jobs(worker) if each.reply_to == "assistant-2"]
    assert isinstance(job.prompt, ChatPrompt)
    assert "result of the tool mcp.s.weather" in str(job.prompt.messages)
    stepping = asyncio.create_task(_step(worker))
    await answer.read()
    stepping.cancel()
    assert answer.texts == [counted(5)]
    assert isinstance(answer.terminal, Finished)


async def test_a_job_that_two_assistants_get_is_answered_once(platform: Platform) -> None:
    talents = platform.talents()
    tool: GatedTool = talents.tool("weather")
    tool.gate.shut()
    await platform.fleet.start("worker-1")
    await platform.assistant(talents)
    answer = await platform.ask("weather", tokens=20)
    await until(lambda: tool.contexts)
    await platform.assistant(talents, "assistant-2")
    for _ in range(2):  # one for each of the assistants
        await platform.fleet.bus.publish_job(answer.job, {})
    await asyncio.sleep(0.2)  # the gateway stops the second attempt, whether or not it has called the tool
    tool.gate.open()
    await answer.read()
    assert kinds(answer).count(("tool", "weather", "done")) == 1
    assert [kind for kind, _, state in kinds(answer) if state != "running"] == ["route", "tool"]
    assert (answer.texts, answer.ends) == ([counted(20)], ["length"])
    assert isinstance(answer.terminal, Finished)
    assert [part.model for step in ended_steps(answer) for part in step.parts] == ["tool.weather"]


async def test_an_answering_model_that_disappears_for_good_is_an_error(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1", step_time=None)
    await platform.assistant(platform.talents())
    answer = await platform.ask("hello", tokens=20)
    await until(lambda: child_jobs(worker))
    worker.engine.step(2)
    await answer.read(1 + 2)
    await worker.kill()
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.WORKER_LOST
    assert answer.texts == [counted(2)]


async def test_an_answer_waits_for_a_broker_that_is_away_when_its_tool_ends(platform: Platform) -> None:
    talents = platform.talents()
    tool: GatedTool = talents.tool("weather")
    tool.gate.shut()
    await platform.fleet.start("worker-1")
    process = await platform.assistant(talents)
    answer = await platform.ask("weather")
    await until(lambda: tool.contexts)
    refused, publish = asyncio.Event(), process.children._bus.publish_job

    async def refuse(*_: object) -> None:
        refused.set()
        raise BrokerUnavailable

    process.children._bus.publish_job = refuse  # type: ignore[method-assign,assignment]
    tool.gate.open()
    await refused.wait()
    process.children._bus.publish_job = publish  # type: ignore[method-assign]
    await answer.read()
    assert isinstance(answer.terminal, Finished)
    assert answer.texts == [counted(5)]
    assert len(tool.contexts) == 1


@pytest.mark.parametrize("phase", ["rewrite", "route", "tool", "tool done", "summary", "answer"])
@pytest.mark.parametrize("killed", [True, False])
async def test_another_process_goes_on_after_the_last_step(platform: Platform, phase: str, killed: bool) -> None:
    talents = platform.talents()
    first = await platform.assistant(talents)
    worker = await platform.fleet.start("worker-1", step_time=None)
    router_gate, tool = talents.router.gate, talents.tool("weather")
    if phase == "rewrite":
        router_gate.shut()
    if phase in ("route", "tool"):
        tool.gate.shut()
    old = ("x" * 6000, "y") if phase == "summary" else ()
    answer = await platform.ask(*old, *FOLLOW_UP)
    steps = {"rewrite": 1, "route": 2, "tool": 2, "tool done": 3, "summary": 4, "answer": 3}[phase]
    await answer.read(steps)
    if phase == "tool":
        await until(lambda: tool.contexts)
    if phase == "answer":
        await until(lambda: child_jobs(worker))
        worker.engine.step(2)
        await answer.read(steps + 2)
    await (first.kill() if killed else first.end())
    router_gate.open()
    tool.gate.open()
    await platform.assistant(talents, "assistant-2")
    stepping = asyncio.create_task(_step(worker))
    await answer.read()
    stepping.cancel()
    assert [kind for kind, _, state in kinds(answer) if state != "running"] == (
        ["rewrite", "route", "tool"] + (["summary"] if old else [])
    )
    assert answer.texts == [counted(5)]
    assert answer.ends == ["length"]
    assert isinstance(answer.terminal, Finished)
    assert answer.terminal.usage.completion_tokens == 5
    assert len(tool.contexts) == (2 if phase in ("route", "tool") else 1)
    await until(lambda: any(each.job == "p" for each in platform.fleet.records))
    [record] = [each for each in platform.fleet.records if each.job == "p"]
    assert record.parts == [tool_part("weather")]


async def _step(worker: Any) -> None:
    while True:
        await asyncio.sleep(0.005)
        worker.engine.step(1)


async def called(platform: Platform, name: str, **arguments: Any) -> Answer:
    """Call a tool that the client chose; return the answer, read to its end."""
    call = OwnToolCall(name=name, arguments=arguments)
    answer = await platform.ask("w Łodzi", chat={"own_tool_call": call, "tools_off": []})
    await answer.read()
    return answer


async def test_a_tool_that_the_client_chose_is_called_without_any_model(platform: Platform) -> None:
    worker = await platform.fleet.start("worker-1", step_time=None)
    talents = platform.talents()
    await platform.assistant(talents)
    answer = await called(platform, "math", text="1+1")
    assert kinds(answer) == [("tool", "math", "running"), ("tool", "math", "done")]
    assert ended_steps(answer)[0].parts == [tool_part("math")]
    assert isinstance(answer.terminal, Finished)
    assert (answer.texts, answer.terminal.usage) == (["the tool's result"], Usage(prompt_tokens=0))
    assert (child_jobs(worker), talents.router.questions) == ([], [])
    assert [context.language for context in talents.tool("math").contexts] == ["pl"]


async def test_a_chosen_tool_that_fails_ends_the_answer_with_its_sentence_in_the_step(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    talents = platform.talents()
    talents.tool("math").error = NotFound()
    await platform.assistant(talents)
    answer = await called(platform, "math", text="1+1")
    assert isinstance(answer.terminal, Finished)
    [step] = ended_steps(answer)
    assert (step.state, step.data["error"]["code"], step.parts) == (StepState.FAILED, "not_found", [])
    assert answer.texts == [""]


@pytest.mark.parametrize(
    ("name", "arguments", "param"), [("math", {}, "text"), ("math", {"text": 1}, "text"), ("rm", {}, "name")]
)
async def test_a_wrong_call_is_refused_before_it_is_a_step(
    platform: Platform, name: str, arguments: dict[str, Any], param: str
) -> None:
    await platform.fleet.start("worker-1")
    talents = platform.talents()
    await platform.assistant(talents)
    answer = await called(platform, name, **arguments)
    assert isinstance(answer.terminal, Failed)
    assert (answer.terminal.code, answer.terminal.param) == (FailureCode.INVALID_PARAMETER, param)
    assert (kinds(answer), talents.tool("math").contexts) == ([], [])


async def test_a_chosen_call_goes_on_in_another_process_and_is_billed_once(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    talents = platform.talents()
    tool = talents.tool("math")
    tool.gate.shut()
    first = await platform.assistant(talents)
    call = OwnToolCall(name="math", arguments={"text": "1+1"})
    answer = await platform.ask("1+1", chat={"own_tool_call": call})
    await until(lambda: tool.contexts)
    await first.kill()
    tool.gate.open()
    await platform.assistant(talents, "assistant-2")
    await answer.read()
    assert isinstance(answer.terminal, Finished)
    assert (answer.texts, len(tool.contexts)) == (["the tool's result"], 2)
    assert [step.parts for step in ended_steps(answer)] == [[tool_part("math")]]
