"""The bound on a prompt's tokens that a worker announces is never below the prompt's tokens."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.chat_template import ChatTemplate
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.processor import TextProcessor
from inference_worker.worker.text.prompt_bounds import prompt_bounds, text_bounds
from router.messages import ChatPrompt, Job, Prompt, PromptBounds, SamplingParams, TextPrompt
from router.usage_bound import max_usage
from tests.contract.examples import JOB
from tests.fakes.counting_text import TEMPLATE, counting_text, definition

LIMITS = ModelLimits(max_model_len=100_000, vocab_size=1_000_000)
PIECES = (
    "the ",
    "Grüß",
    "dich",
    "\u0958",
    "\ufdfa",
    "İ",
    "日本語",
    "🏳️‍🌈",
    "\n\n",
    "    ",
    "<|im_end|>",
    "</tool_call>",
    "\x00",
    "\t",
    "9",
)
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the wëather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Łódź", "東京"]}}},
    },
}


def job(prompt: Prompt) -> Job:
    return msgspec.structs.replace(JOB, prompt=prompt, sampling=SamplingParams(seed=1, max_tokens=1))


def texts() -> list[str]:
    draw = random.Random(5)
    return ["x", *("".join(draw.choices(PIECES, k=draw.randrange(1, 40))) for _ in range(60))]


def conversations() -> list[ChatPrompt]:
    draw = random.Random(6)
    made = []
    for number, text in enumerate(texts()):
        messages: list[dict[str, Any]] = [{"role": "system", "content": draw.choice(texts())}] if number % 2 else []
        messages.append({"role": "user", "content": text})
        for _ in range(number % 4):
            call = {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city":["Łódź"]}'},
            }
            messages.append({"role": "assistant", "content": draw.choice(texts()), "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": "call_1", "content": draw.choice(texts())})
            messages.append({"role": "user", "content": draw.choice(texts())})
        made.append(ChatPrompt(messages=messages, tools=[TOOL] * (number % 3) or None))
    return made


async def check(text: TextProcessor) -> None:
    assert text.bounds.per_byte == 1
    prompts: list[Prompt] = [*map(TextPrompt, texts()), *conversations()]
    for prompt in prompts:
        request = await text.prepare(job(prompt), "r", LIMITS)
        assert len(request.prompt_ids) <= max_usage(job(prompt), LIMITS.max_model_len, text.bounds).prompt_tokens


async def test_a_prompt_never_has_more_tokens_than_its_bound() -> None:
    await check(counting_text())


@pytest.mark.model
async def test_a_prompt_of_a_real_model_never_has_more_tokens_than_its_bound(model_file: Path) -> None:
    text = TextProcessor.of(read_text_files(model_file))
    await check(text)
    short = job(ChatPrompt(messages=[{"role": "user", "content": "Hello!"}]))
    exact = len((await text.prepare(short, "r", LIMITS)).prompt_ids)
    assert max_usage(short, LIMITS.max_model_len, text.bounds).prompt_tokens < 3 * exact  # and it is not far off


@pytest.mark.parametrize(
    ("normalizer", "form"),
    [
        (None, ""),
        ({"type": "NFC"}, "NFC"),
        ({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}, "NFKC"),
        ({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]}, ""),
        ({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, ""),
        ({"type": "BertNormalizer"}, "NFD"),
    ],
)
def test_supported_normalizers(normalizer: Any, form: str) -> None:
    assert text_bounds(normalizer, len) == PromptBounds(per_byte=1, normal_form=form, per_text=5)


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "Replace", "pattern": {"String": " "}, "content": "long"},
        {"type": "Replace", "pattern": {"Regex": "."}, "content": "ab"},
        {"type": "Nmt"},
        {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "NFC"}]},
    ],
)
def test_unsupported_normalizers_have_no_bound(normalizer: Any) -> None:
    assert text_bounds(normalizer, len) == PromptBounds()
    assert prompt_bounds(Tokenizer({**definition(), "normalizer": None}), None).per_conversation == 0


def test_a_template_that_rejects_some_messages_is_measured_with_the_rest() -> None:
    source = (
        "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('no') }}{% endif %}{% endfor %}" + TEMPLATE
    )
    bounds = prompt_bounds(Tokenizer(definition()), ChatTemplate(source, {}))
    assert bounds.per_conversation > 10
    assert bounds.per_message >= bounds.per_conversation
    rejecting = ChatTemplate("{{ raise_exception('no') }}", {})
    assert prompt_bounds(Tokenizer(definition()), rejecting).per_conversation == 0
