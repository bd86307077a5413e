"""Text side of a vision-language model in the worker: turns prompts with images into engine requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from inference_worker.errors import ImageRejected, PromptRejected, UnsupportedModel
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.chat_template import IMAGE_MARK, ChatTemplate, mark_images
from inference_worker.worker.text.processor import NO_IMAGES, ImageInputs, TextProcessor
from inference_worker.worker.vision.image_reader import ImageReader, ImageTokens
from router.messages import ChatPrompt, FailureCode, Job


class VisionTextProcessor(TextProcessor):
    """Text side of one vision-language model, whose conversations can have images."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, reader: ImageReader, tokens: ImageTokens) -> None:
        """Create the processor; `tokens` is what the started `reader` says of the model's images.

        Raises:
            UnsupportedModel: the chat template does not write an image as the image processor expects it.
        """
        super().__init__(tokenizer, template)
        self.reads_images = True
        self._reader = reader
        self._placeholder = tokenizer.controls.ids_by_text.get(tokens.placeholder)
        self._max_image_tokens = tokens.bound(len(self._ids_of(tokens.longest_text)))
        self.bounds = msgspec.structs.replace(self.bounds, per_image=self._max_image_tokens)
        if self._placeholder is None:
            raise UnsupportedModel(f"{tokens.placeholder} is no control token of the tokenizer")
        _check_template(template, tokens.placeholder)

    @classmethod
    def load(cls, folder: Path) -> VisionTextProcessor:
        """Create the text side of the vision-language model in `folder`, and start the process that reads its images.

        Raises:
            ModelError: a file is missing or damaged, or the model's images can't be read.
        """
        files = read_text_files(folder)
        if not files.chat_template:
            raise UnsupportedModel(f"{folder} has no chat template, which says where images are in a prompt")
        template = ChatTemplate(files.chat_template, files.named_tokens, reads_images=True)
        reader = ImageReader(folder)
        try:
            return cls(files.tokenizer, template, reader, reader.start())
        except UnsupportedModel:
            reader.close()
            raise

    def close(self) -> None:
        """Stop the tokeniser threads, the grammar sandbox, and the process that reads images."""
        self._reader.close()
        super().close()

    async def _read_images(self, job: Job) -> ImageInputs:
        _refuse_options(job)
        if not isinstance(job.prompt, ChatPrompt) or not job.prompt.images:
            return NO_IMAGES
        try:
            read = await self._reader.read(job.prompt.images)
        except ImageRejected as error:
            message = f"Image {error.index + 1} of the messages can't be read: {error.reason}."
            raise PromptRejected(message, "messages", FailureCode.INVALID_PROMPT) from error
        images = ImageInputs([self._ids_of(text) for text in read.texts], read.inputs)
        if max(map(len, images.token_ids)) > self._max_image_tokens:  # holds of credit count on it
            raise PromptRejected("An image has too many tokens.", "messages", FailureCode.INVALID_PROMPT)
        return images

    def _content(self, content: Any) -> str:
        return mark_images(content)

    def _with_images(self, ids: list[int], images: ImageInputs) -> list[int]:
        if sum(each == self._placeholder for each in ids) != len(images.token_ids):
            raise PromptRejected(
                "The model's chat template has no place for these images.", "messages", FailureCode.INVALID_PROMPT
            )
        following = iter(images.token_ids)
        return [id_ for each in ids for id_ in (next(following) if each == self._placeholder else [each])]

    def _ids_of(self, text: str) -> list[int]:
        return self.tokenizer.encode_rendered(text, IMAGE_MARK)


def _refuse_options(job: Job) -> None:
    """Raise for an option that the vision engine does not have.

    Raises:
        PromptRejected: the option and why.
    """
    if job.sampling.prompt_logprobs is not None:
        raise PromptRejected("This model gives no log probabilities of a prompt.", "prompt_logprobs")
    if job.text.truncate_prompt_tokens is not None and isinstance(job.prompt, ChatPrompt) and job.prompt.images:
        raise PromptRejected("A prompt with images can't be truncated.", "truncate_prompt_tokens")


def _check_template(template: ChatTemplate, placeholder: str) -> None:
    prompt = ChatPrompt(messages=[{"role": "user", "content": f"{IMAGE_MARK}x"}])
    try:
        rendered = template.render(prompt)
    except PromptRejected as error:
        raise UnsupportedModel(f"the chat template does not accept images: {error.message}") from error
    if rendered.count(placeholder) != 1:
        raise UnsupportedModel(f"the chat template does not write {placeholder} once for an image")
