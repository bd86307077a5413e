"""What a prompt, its options and the model's vocabulary say of the reasoning in its answers."""

from __future__ import annotations

from typing import Any

import pytest

from inference_worker.engine_protocol import GenerationRequest
from inference_worker.errors import PromptRejected
from inference_worker.reasoning import ReasoningTokens
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.chat_template import ChatTemplate
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.processor import TextProcessor
from inference_worker.worker.text.reasoning.markup import reasoning_markup
from router.messages import ChatPrompt, Grammar, GrammarKind, Job, TextPrompt
from tests.fakes.counting_text import TEMPLATE, counting_text, definition
from tests.fakes.jobs import make_job
from tests.fakes.thinking_text import END_THINK, GPT_OSS, QWEN, R1, THINK, VOCAB_SIZE, thinking_text

LIMITS = ModelLimits(4096, VOCAB_SIZE)
USER = {"role": "user", "content": "hi"}
DIGIT = Grammar(kind=GrammarKind.REGEX, source="[0-9]")


def job(*messages: dict[str, Any], grammar: Grammar | None = None, **fields: Any) -> Job:
    return make_job(prompt=ChatPrompt(messages=[*messages] or [USER], **fields), grammar=grammar)


async def prepared(text: TextProcessor, wanted: Job) -> GenerationRequest:
    try:
        return await text.prepare(wanted, "r", LIMITS)
    finally:
        text.close()


async def tokens(template: str, **fields: Any) -> ReasoningTokens | None:
    return (await prepared(thinking_text(template), job(**fields))).reasoning


async def begins_with(template: str, *messages: dict[str, Any], **fields: Any) -> tuple[str, str]:
    """Return the end of the prompt, and how "x</think>y" as the answer's text is split."""
    text = thinking_text(template)
    wanted = job(*messages, **fields)
    request = await prepared(text, wanted)
    splitter = text.reasoning_splitter(wanted, request.prompt_ids)
    assert splitter is not None
    answer = splitter.push("x</think>y")
    return text.tokenizer.decode(request.prompt_ids, skip_controls=False)[-20:], answer


@pytest.mark.parametrize(
    ("template", "start"),
    [
        (QWEN, "<think>"),
        ("{{ '</think>' }}", "<think>"),
        ("[THINK]", "[THINK]"),
        ("<seed:think>", "<seed:think>"),
        (GPT_OSS, "<|start|>assistant"),
        (TEMPLATE, None),
    ],
)
def test_the_markup_is_that_of_the_chat_template(template: str, start: str | None) -> None:
    markup = reasoning_markup(template)
    assert (markup and markup.start) == start


async def test_a_prompt_may_begin_the_reasoning_or_leave_that_to_the_model_or_end_it() -> None:
    assert await begins_with(R1) == ("|>assistant\n<think>\n", "y")
    assert (await begins_with(QWEN))[1] == "x</think>y"
    assert (await begins_with(QWEN, template_kwargs={"enable_thinking": False}))[1] == "x</think>y"


@pytest.mark.parametrize("off", [{"reasoning_effort": "none"}, {"thinking_token_budget": 0}])
@pytest.mark.parametrize("template", [QWEN, R1])
async def test_without_reasoning_the_prompt_ends_it(template: str, off: dict[str, Any]) -> None:
    end, answer = await begins_with(template, **off)
    assert end.endswith("<think>\n\n</think>\n\n")
    assert answer == "x</think>y"
    assert await tokens(template, grammar=DIGIT, **off) is None


async def test_an_explicit_switch_has_precedence() -> None:
    both = {"reasoning_effort": "none", "template_kwargs": {"enable_thinking": True}}
    assert not (await begins_with(QWEN, **both))[0].endswith("</think>\n\n")


async def test_a_model_that_begins_by_itself_is_stopped_at_once_without_reasoning() -> None:
    reasoning = await tokens(QWEN.replace("enable_thinking", "unset"), reasoning_effort="none")
    assert reasoning == ReasoningTokens(start=THINK, end=[END_THINK], budget=0, forced=[END_THINK])


async def test_a_final_message_is_continued_in_the_section_that_it_has_begun() -> None:
    thought, answered = ({"role": "assistant", "content": each} for each in ("<think>hm", "<think>hm</think>so"))
    assert (await begins_with(R1, USER, thought, continue_final_message=True))[1] == "y"
    assert (await begins_with(R1, USER, answered, continue_final_message=True))[1] == "x</think>y"


async def test_the_engine_needs_to_know_of_reasoning_for_a_budget_or_a_grammar_only() -> None:
    assert await tokens(R1) is None
    assert await tokens(R1, grammar=DIGIT) == ReasoningTokens(end=[END_THINK])
    assert await tokens(QWEN, grammar=DIGIT) == ReasoningTokens(start=THINK, end=[END_THINK])
    assert await tokens(R1, thinking_token_budget=5) == ReasoningTokens(end=[END_THINK], budget=5, forced=[END_THINK])
    final = [{"role": "assistant", "content": "so"}]
    wanted = job(USER, *final, continue_final_message=True, thinking_token_budget=5, grammar=DIGIT)
    assert (await prepared(thinking_text(R1), wanted)).reasoning is None


async def test_the_end_of_messages_of_channels_is_several_tokens() -> None:
    reasoning = await tokens(GPT_OSS, thinking_token_budget=5)
    assert reasoning is not None
    decode = thinking_text(GPT_OSS).tokenizer.decode
    assert decode(reasoning.end, skip_controls=False) == "<|channel|>final<|message|>"
    assert decode(reasoning.forced, skip_controls=False) == "<|end|><|start|>assistant<|channel|>final<|message|>"
    assert (await begins_with(GPT_OSS, reasoning_effort="none"))[0].endswith("final<|message|>")


async def test_models_without_reasoning_ignore_its_options() -> None:
    plain = counting_text()
    request = await plain.prepare(job(thinking_token_budget=5), "r", ModelLimits(4096, 20_000))
    assert (request.reasoning, plain.reasoning_splitter(job(), request.prompt_ids)) == (None, None)


def without_tokens() -> TextProcessor:
    """Return the text processor of a model that writes the markup as ordinary text, as OLMo 3 does."""
    return TextProcessor(Tokenizer(definition()), ChatTemplate(R1, {}))


async def test_a_budget_needs_a_token_that_ends_the_reasoning() -> None:
    with pytest.raises(PromptRejected) as caught:
        await prepared(without_tokens(), job(thinking_token_budget=5))
    assert caught.value.param == "thinking_token_budget"
    assert (await prepared(without_tokens(), job(thinking_token_budget=0))).reasoning is None


async def test_without_such_a_token_the_answers_of_a_grammar_have_no_reasoning() -> None:
    text = without_tokens()
    request = await prepared(text, job(grammar=DIGIT))
    assert request.reasoning is None
    assert text.tokenizer.decode(request.prompt_ids, skip_controls=False).endswith("<think>\n\n</think>\n\n")


async def test_texts_without_a_chat_template_have_no_reasoning() -> None:
    text = thinking_text(R1)
    wanted = make_job(prompt=TextPrompt("<think>"))
    request = await prepared(text, wanted)
    splitter = text.reasoning_splitter(wanted, request.prompt_ids)
    assert splitter is not None
    assert splitter.answers


async def test_a_providers_text_is_continued_without_reasoning() -> None:
    text = thinking_text(R1)
    wanted = make_job(prompt=ChatPrompt(messages=[USER]), texts=["so"], text_positions=[1])
    continued = await text.tokenise_delivered(wanted)
    request = await prepared(text, continued)
    assert text.tokenizer.decode(request.prompt_ids, skip_controls=False).endswith("</think>\n\n")


async def test_earlier_reasoning_is_passed_under_the_name_that_the_template_reads() -> None:
    message = {"role": "assistant", "content": "4", "reasoning_content": "2+2"}
    prompt = ChatPrompt(messages=[USER, message, USER], add_generation_prompt=False)
    for name in ("reasoning_content", "reasoning", "thinking"):
        template = ChatTemplate("{% for m in messages %}[{{ m." + name + " }}{{ m.content }}]{% endfor %}", {})
        assert template.render(prompt) == "[hi][2+24][hi]"


async def test_a_template_gets_the_budget_that_it_reads() -> None:
    template = ChatTemplate("{{ thinking_budget }}", {})
    assert template.render(ChatPrompt(messages=[USER], thinking_token_budget=9)) == "9"
