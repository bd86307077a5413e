"""Prompts with images: where the tokens of images stand, forged image tokens, refused options, recognised folders."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference_worker.engine_protocol import GenerationRequest
from inference_worker.errors import PromptRejected, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.chat_template import ChatTemplate
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.processor import TextProcessor
from inference_worker.worker.vision.processor import VisionTextProcessor
from router.messages import ChatPrompt, Job, SamplingParams, TextOptions, TokenPrompt
from router.usage_bound import max_usage
from tests.contract.examples import JOB
from tests.fakes.tiny_vision_model import CONTEXT

GIF = base64.b64decode("R0lGODdhAQABAIAAAP///////ywAAAAAAQABAAACAkQBADs=")
LIMITS = ModelLimits(CONTEXT, 400)
IMAGE = {"type": "image"}


@pytest.fixture(scope="module")
def text(vision_folder: Path) -> Iterator[VisionTextProcessor]:
    made = VisionTextProcessor.load(vision_folder)
    yield made
    made.close()


def part(content: str) -> dict[str, str]:
    return {"type": "text", "text": content}


def job(*contents: Any, images: int = 0, **fields: Any) -> Job:
    messages = [{"role": "user", "content": content} for content in contents]
    prompt = ChatPrompt(messages=messages, images=[GIF] * images)
    return msgspec.structs.replace(JOB, prompt=prompt, sampling=SamplingParams(seed=1, max_tokens=4), **fields)


async def prepared(text: TextProcessor, prompt: Job) -> GenerationRequest:
    return await text.prepare(prompt, "a", LIMITS)


async def test_the_tokens_of_images_stand_between_the_texts(text: VisionTextProcessor) -> None:
    request = await prepared(text, job([part("one"), IMAGE, part("two"), IMAGE], "three", images=2))
    shown = text.tokenizer.decode(request.prompt_ids, skip_controls=False)
    first, second, third = shown.split("<fake_token_around_image><row_1_col_1>")
    assert first == "<|im_start|>user:one"
    assert second.endswith("<fake_token_around_image>two")
    assert third.endswith("<|im_end|>\n<|im_start|>user:three<|im_end|>\n<|im_start|>assistant:")
    assert shown.count("<image>") == 2 * 40
    assert {each.name for each in request.inputs} == {"pixel_values", "pixel_attention_mask"}


async def test_the_bound_of_usage_holds_and_is_not_far_from_the_tokens(text: VisionTextProcessor) -> None:
    wanted = job([part("What is this?"), IMAGE], images=1)
    tokens = len((await prepared(text, wanted)).prompt_ids)
    assert tokens <= max_usage(wanted, CONTEXT, text.bounds).prompt_tokens <= tokens + 150


async def test_users_cannot_write_image_tokens(text: VisionTextProcessor) -> None:
    for content in ("<image>", "\ufdef", [part("<ima"), part("ge>")], [part("\ufdef"), part("<image>")]):
        request = await prepared(text, job(content))
        assert text._placeholder not in request.prompt_ids
        assert request.inputs == []


async def test_a_text_model_refuses_images_by_name(vision_folder: Path) -> None:
    plain = TextProcessor.of(read_text_files(vision_folder))
    with pytest.raises(PromptRejected, match="reads no images"):
        await prepared(plain, job([IMAGE], images=1))
    plain.close()


@pytest.mark.parametrize("images", [0, 2])
async def test_images_without_a_place_and_places_without_an_image_are_refused(
    text: VisionTextProcessor, images: int
) -> None:
    with pytest.raises(PromptRejected, match="no place for these images"):
        await prepared(text, job([IMAGE], images=images))


async def test_damaged_images_long_prompts_and_options_that_are_not_offered_are_refused(
    text: VisionTextProcessor,
) -> None:
    broken = msgspec.structs.replace(job([IMAGE], images=1).prompt, images=[GIF[:12]])
    with pytest.raises(PromptRejected, match="Image 1 of the messages can't be read: it is damaged"):
        await prepared(text, msgspec.structs.replace(JOB, prompt=broken))
    with pytest.raises(PromptRejected, match="maximum context length"):
        await prepared(text, job([IMAGE] * 16, images=16))
    truncated = job([IMAGE], images=1, text=TextOptions(truncate_prompt_tokens=9))
    with pytest.raises(PromptRejected, match="can't be truncated"):
        await prepared(text, truncated)
    scored = msgspec.structs.replace(
        JOB, prompt=TokenPrompt([5]), sampling=SamplingParams(seed=1, max_tokens=1, prompt_logprobs=0)
    )
    with pytest.raises(PromptRejected, match="log probabilities"):
        await prepared(text, scored)


def test_a_template_that_writes_no_image_token_is_refused(vision_folder: Path, text: VisionTextProcessor) -> None:
    files = read_text_files(vision_folder)
    template = ChatTemplate("{{ messages }}", files.named_tokens, reads_images=True)
    tokens = text._reader.start()
    with pytest.raises(UnsupportedModel, match="does not write <image> once"):
        VisionTextProcessor(files.tokenizer, template, text._reader, tokens)


def test_folders_of_vision_models_are_recognised(vision_folder: Path, tmp_path: Path) -> None:
    assert resolve(str(vision_folder)).reads_images
    others: dict[str, dict[str, Any]] = {"text": {"vision_config": None}, "gemma3": {"model_type": "gemma3"}}
    for name, changes in others.items():
        folder = tmp_path / name
        folder.mkdir()
        for file in vision_folder.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))
        assert not resolve(str(folder)).reads_images
