"""One complete example of every message: golden files pin their encoding."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from router.messages import (
    UNKNOWN_TOKEN_ID,
    ActiveRequester,
    Aggregate,
    AnswerPart,
    AnswerState,
    AttemptReport,
    AttemptState,
    Cancel,
    Cancelled,
    ChatPrompt,
    Delta,
    Drain,
    Drawn,
    EarlyStopping,
    Embedded,
    EmbeddingPrompt,
    Extraction,
    ExtractionKind,
    Failed,
    FailureCode,
    Finished,
    FollowAnswer,
    GatewayLoad,
    Grammar,
    GrammarKind,
    ImagePrompt,
    Job,
    KeysChanged,
    KeySet,
    Outcome,
    OwnTool,
    OwnToolCall,
    Ping,
    PromptBounds,
    PromptEcho,
    PromptLogprobs,
    QueuedWork,
    Receipt,
    ReportedUsage,
    RequesterWork,
    Resume,
    ResumeDecision,
    ResumeRequest,
    SamplingParams,
    Scored,
    ScorePrompt,
    Search,
    SearchMethod,
    ServiceClass,
    Started,
    Step,
    StepState,
    Task,
    TextOptions,
    TextPrompt,
    TokenAlternative,
    TokenisationPrompt,
    Tokenised,
    TokenLogprob,
    TokenPrompt,
    ToolCallDelta,
    ToolChoice,
    ToolMode,
    Usage,
    UsagePart,
    UsageRecord,
    Window,
    WorkerState,
    WorkerStatus,
)

S = TypeVar("S", bound=msgspec.Struct)


def msgspec_replace(message: S, **changes: object) -> S:
    return msgspec.structs.replace(message, **changes)


JOB = Job(
    id="chatcmpl-1",
    model="smollm2-135m-instruct",
    tenant="account-1",
    reply_to="gateway-1",
    created=1700000000.25,
    deadline=1700000600.25,
    prompt=ChatPrompt(messages=[{"role": "user", "content": "Grüß dich \u2028 🙂"}]),
    sampling=SamplingParams(seed=7),
)

FULL_JOB = msgspec_replace(
    JOB,
    id="chatcmpl-2",
    prompt=ChatPrompt(
        messages=[{"role": "assistant", "content": "So"}],
        tools=[{"type": "function", "function": {"name": "weather"}}],
        tool_choice=ToolChoice(mode=ToolMode.REQUIRED, names=["weather"], parallel=False),
        add_generation_prompt=False,
        continue_final_message=True,
        template_kwargs={"enable_thinking": False, "effort": "low", "level": 2, "x": 0.5, "none": None},
        tools_off=["weather"],
        tools_allowed=["mcp.shop.search"],
        own_tools=["image"],
    ),
    sampling=SamplingParams(
        seed=2**63 - 1,
        max_tokens=16,
        min_tokens=2,
        temperature=0.5,
        top_p=0.25,
        top_k=40,
        min_p=0.125,
        presence_penalty=-1.5,
        frequency_penalty=0.75,
        repetition_penalty=1.25,
        logit_bias={5: -100.0, 7: 3.5},
        logprobs=0,
        stop_token_ids=[2],
        ignore_eos=True,
    ),
    text=TextOptions(stop=["\n\n"], include_stop_str_in_output=True, skip_special_tokens=False),
    grammar=Grammar(kind=GrammarKind.JSON_SCHEMA, source='{"type":"object"}'),
    n=2,
    service_class=ServiceClass.FLEX,
    cache_salt="s",
    copy_number=1,
    delivered=[[1, 2], []],
)

USAGE = Usage(prompt_tokens=5, completion_tokens=3, cached_tokens=4)
ROUTING = UsagePart(model="smollm2-360m-instruct", usage=Usage(prompt_tokens=80, completion_tokens=9, cached_tokens=64))
CALL = UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 1}))
WEATHER_TOOL = OwnTool(
    name="weather",
    description="Current weather and forecast of a place.",
    parameters={"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    parts=[CALL],
)
STEPS = [
    Step(
        number=0,
        kind="route",
        name="smollm2-360m-instruct",
        state=StepState.DONE,
        data={"choice": "weather", "way": "grammar", "arguments": {"place": "Kraków"}},
        parts=[ROUTING],
    ),
    Step(
        number=1,
        kind="tool",
        name="weather",
        state=StepState.FAILED,
        data={"arguments": {"place": "Kraków"}, "error": {"code": "unavailable", "message": "No answer."}},
        parts=[CALL],
    ),
]
USAGE_RECORD = UsageRecord(
    job="chatcmpl-1",
    attempt="a1",
    tenant="account-1",
    model="smollm2-135m-instruct",
    worker="worker-1",
    outcome=Outcome.FAILED,
    usage=USAGE,
    at=1700000001.5,
    digest="00ff",
    error=FailureCode.ENGINE_ERROR,
)
RECEIPT = Receipt(
    job="chatcmpl-1",
    tenant="account-1",
    gateway="gateway-1",
    outcome=Outcome.CANCELLED,
    usage=USAGE,
    at=1700000001.5,
)
STATUS = WorkerStatus(
    worker="worker-1",
    model="smollm2-135m-instruct",
    state=WorkerState.READY,
    device="cpu",
    max_model_len=8192,
    max_num_seqs=64,
    running=3,
    waiting=1,
    kv_cache_usage=0.25,
    tokens_per_second=41.5,
    max_token_bytes=32,
    started=1700000000.0,
    at=1700000001.0,
)

GATEWAY_LOAD = GatewayLoad(
    gateway="gateway-1",
    queues=[
        QueuedWork(model=JOB.model, service_class=ServiceClass.DEFAULT, waiting=7, tokens=900, running=64),
        QueuedWork(model=JOB.model, service_class=ServiceClass.FLEX, running=1),
    ],
)

EXAMPLES: dict[str, msgspec.Struct] = {
    "control_gateway_load": GATEWAY_LOAD,
    "control_gateway_load_requesters": GatewayLoad(
        gateway="gateway-1",
        queues=[
            QueuedWork(
                model=JOB.model,
                service_class=ServiceClass.DEFAULT,
                waiting=8,
                tokens=920,
                requesters=[
                    RequesterWork(tenant="account-1", requester="user-1", waiting=7, tokens=900),
                    RequesterWork(tenant="account-1", waiting=1, tokens=20),
                ],
            )
        ],
        active=[
            ActiveRequester(model=JOB.model, tenant="account-1", requester="user-1"),
            ActiveRequester(model=JOB.model, tenant="account-1"),
        ],
    ),
    "receipt": RECEIPT,
    "receipt_parts": msgspec_replace(RECEIPT, parts=[ROUTING, CALL]),
    "receipt_reported": msgspec_replace(
        RECEIPT,
        outcome=Outcome.FINISHED,
        parts=[ROUTING],
        reported=ReportedUsage(attempt="a1", usage=USAGE, parts=(ROUTING, CALL)),
    ),
    "receipt_checks": msgspec_replace(
        RECEIPT,
        outcome=Outcome.FINISHED,
        parts=[ROUTING],
        reported=ReportedUsage(attempt="a1", usage=USAGE, checks=(ROUTING,)),
    ),
    "usage_record_parts": msgspec_replace(USAGE_RECORD, parts=[ROUTING, CALL]),
    "job_minimal": JOB,
    "job_resumed_steps": msgspec_replace(JOB, copy_number=1, steps=STEPS, delivered=[[1, 2]]),
    "job_child": msgspec_replace(
        JOB, id="chatcmpl-1-s2", parent="chatcmpl-1", depth=1, reply_to="assistant-1", cache_salt="s"
    ),
    "job_requester": msgspec_replace(JOB, requester="user-1"),
    "job_full": FULL_JOB,
    "job_reasoning": msgspec_replace(
        JOB,
        prompt=ChatPrompt(
            messages=[
                {"role": "user", "content": "2 + 2?"},
                {"role": "assistant", "content": "4", "reasoning_content": "Add."},
                {"role": "user", "content": "And 1?"},
            ],
            thinking_token_budget=64,
        ),
    ),
    "job_tool_call": msgspec_replace(
        JOB,
        prompt=ChatPrompt(
            messages=[{"role": "user", "content": "Łódź"}],
            own_tool_call=OwnToolCall(name="weather", arguments={"place": "Łódź"}),
        ),
    ),
    "job_text_prompt": msgspec_replace(JOB, prompt=TextPrompt("Once <|im_start|>")),
    "job_completion_options": msgspec_replace(
        JOB,
        prompt=TextPrompt("def f(", "return x"),
        sampling=SamplingParams(seed=7, allowed_token_ids=[1, 2], prompt_logprobs=0),
        text=TextOptions(bad_words=["no"], truncate_prompt_tokens=-1, echo=True),
    ),
    "job_default_limit": msgspec_replace(JOB, sampling=SamplingParams(seed=7, default_max_tokens=4096)),
    "job_token_prompt": msgspec_replace(JOB, prompt=TokenPrompt([1, 2, 3])),
    "job_embedding": msgspec_replace(
        JOB, prompt=EmbeddingPrompt(inputs=["one", "two"], dimensions=64), sampling=SamplingParams(seed=0)
    ),
    "job_reads_images": msgspec_replace(
        JOB,
        prompt=ChatPrompt(
            messages=[{"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image"}]}],
            images=[b"\x89PNG"],
        ),
    ),
    "job_score": msgspec_replace(
        JOB,
        prompt=ScorePrompt(contexts=["Where is Łódź?"], candidates=["In Poland.", "In Peru."], raw=True),
        embedded=[1],
    ),
    "job_score_steps": msgspec_replace(
        JOB,
        prompt=ScorePrompt(
            contexts=[[{"role": "user", "content": "2 + 2?"}]],
            candidates=[["Add.", "4"], "Five."],
            separator="\n",
            max_tokens=4096,
        ),
    ),
    "job_tokenisation": msgspec_replace(
        JOB,
        prompt=TokenisationPrompt(source=TextPrompt("Łódź"), add_special_tokens=False, names=True),
    ),
    "job_token_count": msgspec_replace(
        JOB,
        prompt=TokenisationPrompt(source=ChatPrompt(messages=[{"role": "user", "content": "2 + 2?"}]), count_only=True),
    ),
    "job_image": msgspec_replace(JOB, prompt=ImagePrompt(prompt="A lighthouse", size="1024x768"), n=2, ended=[1]),
    "job_search": msgspec_replace(
        JOB,
        n=1,
        search=Search(
            method=SearchMethod.BEAM_SEARCH,
            n=4,
            budget_tokens=8192,
            expansions=4,
            max_steps=16,
            step_tokens=128,
            separator="\n",
            verifier="prm",
            aggregate=Aggregate.MIN,
            extract=Extraction(kind=ExtractionKind.REGEX, pattern="answer: (.+)"),
            return_candidates=True,
        ),
    ),
    "job_vote": msgspec_replace(
        JOB, n=1, search=Search(method=SearchMethod.SELF_CONSISTENCY, n=16, budget_tokens=8192, confidence=0.9)
    ),
    "job_beam_search": msgspec_replace(
        JOB,
        n=2,
        search=Search(
            method=SearchMethod.LIKELIHOOD_BEAM_SEARCH,
            n=4,
            budget_tokens=8192,
            step_tokens=32,
            length_penalty=0.6,
            early_stopping=EarlyStopping.NEVER,
        ),
    ),
    "window_started": Window(
        worker_id="worker-1",
        replies=[Started(job_id="j", attempt_id="a", worker_id="worker-1", prompt_tokens=5, delivery_count=1)],
    ),
    "window_delta": Window(
        worker_id="worker-1",
        replies=[
            Delta(job_id="j", attempt_id="a", start=0, token_ids=[1, 2], text="Hi"),
            Delta(job_id="k", attempt_id="b", start=9, token_ids=[]),
        ],
    ),
    "window_delta_last": Window(
        worker_id="worker-1",
        replies=[
            Delta(
                job_id="j",
                attempt_id="a",
                choice=1,
                start=412,
                token_ids=[3],
                text="!",
                logprobs=[TokenLogprob(TokenAlternative(3, "!", -0.5), [TokenAlternative(3, "!", -0.5)])],
                finish_reason="stop",
                stop_reason="\n\n",
            ),
            Delta(job_id="k", attempt_id="b", start=1, token_ids=[2], finish_reason="stop", stop_reason=2),
            Finished(job_id="j", attempt_id="a", usage=USAGE),
        ],
    ),
    "window_reasoning": Window(
        worker_id="worker-1",
        replies=[
            Delta(job_id="j", attempt_id="a", start=0, token_ids=[1, 2, 3], text="Hi!", reasoning="Greet."),
            Finished(job_id="j", attempt_id="a", usage=Usage(prompt_tokens=9, completion_tokens=3, reasoning_tokens=2)),
        ],
    ),
    "window_text_without_ids": Window(
        worker_id="proxy-1",
        replies=[
            Delta(
                job_id="j",
                attempt_id="a",
                start=0,
                token_ids=[],
                untokenised_positions=2,
                text="Hi!",
                reasoning="Greet.",
                logprobs=[TokenLogprob(TokenAlternative(UNKNOWN_TOKEN_ID, "Hi", -0.5), [])] * 2,
            ),
            Failed(job_id="k", attempt_id="b", code=FailureCode.UPSTREAM_BUSY, message="Busy.", retry_after=7),
        ],
    ),
    "window_steps": Window(
        worker_id="assistant-1",
        replies=[
            Delta(job_id="j", attempt_id="a", start=0, token_ids=[], untokenised_positions=1, step=STEPS[0]),
            Delta(
                job_id="j",
                attempt_id="a",
                start=1,
                token_ids=[],
                step=Step(number=1, kind="tool", name="weather", state=StepState.RUNNING),
            ),
            Delta(job_id="j", attempt_id="a", start=1, token_ids=[], untokenised_positions=1, step=STEPS[1]),
        ],
    ),
    "window_search_step": Window(
        worker_id="worker-1",
        replies=[
            Delta(
                job_id="j",
                attempt_id="a",
                start=0,
                token_ids=[],
                untokenised_positions=1,
                step=Step(number=0, kind="search", name="dvts", state=StepState.DONE, shown_tokens=12),
            ),
        ],
    ),
    "window_tool_calls": Window(
        worker_id="worker-1",
        replies=[
            Delta(
                job_id="j",
                attempt_id="a",
                start=0,
                token_ids=[1],
                tool_calls=[ToolCallDelta(index=0, id="call_1", name="weather")],
            ),
            Delta(
                job_id="j",
                attempt_id="a",
                start=1,
                token_ids=[2],
                tool_calls=[ToolCallDelta(index=0, arguments='{"city"')],
            ),
            Delta(job_id="j", attempt_id="a", start=2, token_ids=[3], finish_reason="tool_calls"),
        ],
    ),
    "window_prompt": Window(
        worker_id="worker-1",
        replies=[
            PromptEcho(job_id="j", attempt_id="a", token_ids=[1, 3], text="Hi!", first_text="Hi"),
            PromptLogprobs(
                job_id="j",
                attempt_id="a",
                start=1,
                logprobs=[TokenLogprob(TokenAlternative(3, "!", -0.5), [])],
                ranks=[1],
            ),
        ],
    ),
    "window_embedded": Window(
        worker_id="worker-1", replies=[Embedded(job_id="j", attempt_id="a", start=0, vectors=[b"\x00\x00\x80?"])]
    ),
    "window_scored": Window(
        worker_id="worker-1",
        replies=[
            Scored(job_id="j", attempt_id="a", start=1, scores=[0.75], tokens=12),
            Scored(job_id="k", attempt_id="b", start=0, scores=[0.5], step_scores=[[0.25, 0.5]], tokens=20),
        ],
    ),
    "window_tokenised": Window(
        worker_id="worker-1",
        replies=[
            Tokenised(job_id="j", attempt_id="a", count=2, token_ids=[9906, 13], names=["Hello", "."]),
            Tokenised(job_id="k", attempt_id="b", count=2, text="Hello."),
        ],
    ),
    "window_drawn": Window(
        worker_id="worker-1",
        replies=[
            Drawn(job_id="j", attempt_id="a", start=1, images=[b"\x89PNG\r\n\x1a\n"]),
            Drawn(
                job_id="k", attempt_id="b", start=0, images=[b"\x89PNG\r\n\x1a\n"], revised_prompt="A tall lighthouse"
            ),
        ],
    ),
    "window_counted": Window(
        worker_id="worker-1",
        replies=[
            Embedded(job_id="j", attempt_id="a", start=0, vectors=[b"\x00\x00\x80?"], tokens=7),
            Delta(job_id="k", attempt_id="b", start=0, token_ids=[2], text="Hi", cached_tokens=4),
        ],
    ),
    "window_failed": Window(
        worker_id="worker-1",
        replies=[
            Failed(
                job_id="j",
                attempt_id="a",
                code=FailureCode.CONTEXT_LENGTH_EXCEEDED,
                message="long",
                param="messages",
                usage=USAGE,
            )
        ],
    ),
    "window_cancelled": Window(
        worker_id="worker-1", replies=[Cancelled(job_id="j", attempt_id="a", usage=Usage(prompt_tokens=5))]
    ),
    "usage_record": USAGE_RECORD,
    "window_resume": Window(
        worker_id="worker-2",
        replies=[
            ResumeRequest(job_id="j", attempt_id="b", delivery_count=2),
            AttemptReport(job_id="k", attempt_id="c", state=AttemptState.ALIVE),
            AttemptReport(job_id="l", attempt_id="d", state=AttemptState.HANDED_OVER),
            AttemptReport(job_id="l", attempt_id="d", state=AttemptState.LOST),
            Delta(job_id="m", attempt_id="e", start=0, token_ids=[1], text="Hi", cached_tokens=16),
        ],
    ),
    "window_crashed": Window(
        worker_id="worker-2",
        replies=[ResumeRequest(job_id="j", attempt_id="b", crashes=2)],
    ),
    "window_handed_over": Window(
        worker_id="worker-2",
        replies=[AttemptReport(job_id="l", attempt_id="d", state=AttemptState.HANDED_OVER, crashes=2)],
    ),
    "window_copies": Window(
        worker_id="reaper",
        replies=[
            ResumeRequest(job_id="j", attempt_id="b", delivery_count=2, copy_number=1),
            Failed(job_id="k", attempt_id="c", code=FailureCode.FAILED_REPEATEDLY, message="given up", copy_number=2),
        ],
    ),
    "job_resumed": msgspec_replace(
        JOB, n=2, copy_number=1, delivered=[[1, 2], [3]], ended=[1], embedded=[0], cached_tokens=16
    ),
    "control_resume": Resume(
        job="chatcmpl-1",
        attempt="b",
        decision=ResumeDecision.START,
        solo=True,
        delivered=[[1, 2], [3]],
        ended=[1],
        embedded=[0],
        cached_tokens=16,
    ),
    "control_resume_steps": Resume(
        job="chatcmpl-1", attempt="b", decision=ResumeDecision.START, delivered=[[]], steps=STEPS[:1]
    ),
    "control_resume_fail": Resume(job="chatcmpl-1", attempt="b", decision=ResumeDecision.FAIL, solo=True, crashes=3),
    "control_resume_wait": Resume(job="chatcmpl-1", attempt="b", decision=ResumeDecision.WAIT),
    "control_cancel": Cancel(job="chatcmpl-1"),
    "control_cancel_child": Cancel(job="chatcmpl-1-s2", reply_to="assistant-1"),
    "control_cancel_attempt": Cancel(job="chatcmpl-1", attempt="a"),
    "control_ping": Ping(job="chatcmpl-1", attempt="a", reply_to="gateway-1", received=[3, 0]),
    "control_drain": Drain(),
    "control_follow_answer": FollowAnswer(run="run-1", reply_to="process-2", received=120, started=True),
    "control_answer_part": AnswerPart(
        run="run-1",
        state=AnswerState.RUNNING,
        start=120,
        body=b"data: {}\n\n",
        status=200,
        headers={"content-type": "text/event-stream"},
    ),
    "control_keys_changed": KeysChanged(keys=KeySet(organisation="org-1", user="user-1", admin_only=True)),
    "control_key_changed": KeysChanged(keys=KeySet(key="a1B2c3D4e5")),
    "worker_status": STATUS,
    "worker_status_bounds": msgspec_replace(
        STATUS,
        prompt_bounds=PromptBounds(
            per_byte=1, normal_form="NFC", per_text=5, per_conversation=40, per_message=9, tools=200
        ),
    ),
    "worker_status_searches": msgspec_replace(STATUS, searches=True),
    "worker_status_reads_images": msgspec_replace(
        STATUS, reads_images=True, prompt_bounds=PromptBounds(per_byte=1, per_text=5, per_image=1088)
    ),
    "worker_status_parts": msgspec_replace(STATUS, parts=[ROUTING, CALL]),
    "worker_status_unnamed_models": msgspec_replace(STATUS, unnamed_models=["smollm2-135m-instruct"]),
    "worker_status_answering_models": msgspec_replace(STATUS, answers_with="smollm2-135m-instruct", sees_with="vlm"),
    "worker_status_tools": msgspec_replace(STATUS, tools=[WEATHER_TOOL]),
    "worker_status_embeds": msgspec_replace(STATUS, task=Task.EMBED, dimensions=384),
    "worker_status_scores": msgspec_replace(STATUS, task=Task.SCORE, scores_pairs=True),
    "worker_status_labels": msgspec_replace(STATUS, task=Task.SCORE, scores_pairs=True, labels=["toxic", "threat"]),
    "worker_status_draws": msgspec_replace(STATUS, task=Task.IMAGE, image_sizes=["1024x1024", "1024x768"]),
}
