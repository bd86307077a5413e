"""Text side of a generating model in the worker: turns jobs into engine requests, and output tokens into text.

Validates what a gateway can't, because it needs the vocabulary or the context length.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import msgspec
import structlog

from inference_worker.engine_protocol import GenerationRequest, ModelInput
from inference_worker.errors import GrammarRejected, PromptRejected
from inference_worker.structured.sandbox import GrammarSandbox
from inference_worker.structured.vocabulary import Vocabulary
from inference_worker.tokenizer.control_tokens import strings, unused_marker
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.tokenizer.tokenizer_files import TextFiles
from inference_worker.worker.text.chat_template import ChatTemplate, flatten
from inference_worker.worker.text.conversation_truncation import shortened_ids
from inference_worker.worker.text.fill_in_middle import fill_in_ids
from inference_worker.worker.text.model_limits import (
    ModelLimits,
    check_ids,
    check_prompt,
    check_token_options,
    tokens_wanted,
    too_long,
)
from inference_worker.worker.text.output_text import OutputText
from inference_worker.worker.text.prompt_bounds import prompt_bounds
from inference_worker.worker.text.reasoning.splitter import ReasoningSplitter
from inference_worker.worker.text.reasoning.style import ReasoningStyle, without_reasoning
from inference_worker.worker.text.tokenisation import TokenList
from inference_worker.worker.text.tool_calls.call_splitter import ToolCallSplitter
from inference_worker.worker.text.tool_calls.template_messages import with_parsed_arguments
from inference_worker.worker.text.tool_calls.tool_choice import call_parser, output_grammar
from router.messages import (
    ChatPrompt,
    EmbeddingPrompt,
    FailureCode,
    Grammar,
    ImagePrompt,
    Job,
    SamplingParams,
    ServiceClass,
    TextPrompt,
    TokenisationPrompt,
    TokenPrompt,
)

THREADS = 2
"""Tokenising threads. Two are enough that a huge prompt does not block others; the library itself uses all cores."""
MAX_INLINE_PROMPT = 1000
"""Characters or ids up to which a prompt is prepared on the event loop, which takes less time than a thread switch."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ImageInputs:
    """The images of a prompt as a model reads them: each one's token ids, and the arrays of all of them."""

    token_ids: list[list[int]]
    inputs: list[ModelInput]


NO_IMAGES = ImageInputs([], [])


class TextProcessor:
    """Text side of one generating model: tokenizer, chat template and grammar checks."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> None:
        self.tokenizer = tokenizer
        self._template = template
        markup = None if template is None else template.reasoning
        self._reasoning = None if markup is None else ReasoningStyle(markup, tokenizer)
        self.reads_images = False
        self.bounds = prompt_bounds(tokenizer, template)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="text")
        self._tokenisation = ThreadPoolExecutor(1, thread_name_prefix="tokenisation")  # free, so prompts do not wait
        self._sandbox = GrammarSandbox(Vocabulary(tokenizer.bytes_of, frozenset(tokenizer.controls.ids)))

    @classmethod
    def of(cls, files: TextFiles) -> TextProcessor:
        """Create the text side of a model from its tokenizer and chat template, which `files` holds.

        Raises:
            UnsupportedModel: the chat template can't be compiled.
        """
        if not files.chat_template:
            return cls(files.tokenizer, None)
        template = ChatTemplate(files.chat_template, files.named_tokens)
        style = template.tool_style
        _log.info(
            "tool call markup",
            markup=style.family.value,
            tools_in="template" if style.in_template else "system message",
        )
        return cls(files.tokenizer, template)

    def warm_up(self) -> None:
        """Start the grammar sandbox process, so that the first job with a grammar does not wait for it."""
        self._sandbox.start()

    def close(self) -> None:
        """Stop the tokeniser threads and the grammar sandbox process."""
        self._sandbox.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._tokenisation.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, job: Job, request_id: str, limits: ModelLimits) -> GenerationRequest:
        """Turn a generation job into its engine request: render and tokenise the prompt, validate options and grammar.

        A long prompt is tokenised in a thread.

        Args:
            request_id: id of the engine request.
            limits: context length and vocabulary size of the model.

        Raises:
            PromptRejected: the model can't process the prompt or an option.
        """
        images = await self._read_images(job)
        if _is_short(job):
            request = self._prepare(job, request_id, limits, images)
        else:
            loop = asyncio.get_running_loop()
            request = await loop.run_in_executor(self._threads, self._prepare, job, request_id, limits, images)
        if request.grammar is not None:
            await self._check_grammar(request.grammar, job)
        return request

    async def tokenise(self, job: Job, prompt: TokenisationPrompt, limits: ModelLimits) -> TokenList:
        """Return what the prompt of a tokenisation job requests; a long one is tokenised in a thread for such jobs.

        Raises:
            PromptRejected: the model can't process the prompt.
        """
        source = msgspec.structs.replace(job, prompt=prompt.source)
        images = await self._read_images(source)
        if _is_short(source):
            return self._tokens(source, prompt, limits, images)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tokenisation, self._tokens, source, prompt, limits, images)

    def _tokens(self, source: Job, prompt: TokenisationPrompt, limits: ModelLimits, images: ImageInputs) -> TokenList:
        if isinstance(prompt.source, TokenPrompt):
            ids = prompt.source.token_ids
            check_ids("tokens", ids, limits)
            return TokenList(len(ids), text=self.tokenizer.decode(ids, skip_controls=False))
        if isinstance(prompt.source, TextPrompt) and not prompt.add_special_tokens:
            self._check_size(prompt.source.text, source, limits)
            ids = self.tokenizer.encode(prompt.source.text, special_tokens=False)
        else:
            ids = self._prompt_ids(source, limits, images)
        return TokenList.of(ids, prompt, self.tokenizer.name_of)

    async def _read_images(self, job: Job) -> ImageInputs:
        """Return the job's images as the model reads them; the default rejects prompts with images."""
        if isinstance(job.prompt, ChatPrompt) and job.prompt.images:
            raise PromptRejected("This model reads no images.", "messages", FailureCode.INVALID_PROMPT)
        return NO_IMAGES

    def _content(self, content: Any) -> str:
        """Return a message's content as one string, as the chat template gets it."""
        return flatten(content)

    def _with_images(self, ids: list[int], images: ImageInputs) -> list[int]:
        """Return the token ids of a conversation with each image token replaced by the tokens of its image."""
        del images
        return ids

    async def _check_grammar(self, grammar: Grammar, job: Job) -> None:
        try:
            await self._sandbox.check(grammar, job.tenant, job.requester)
        except GrammarRejected as error:
            message = f"Invalid '{grammar.param}': {error}."
            raise PromptRejected(message, grammar.param) from error

    async def tokenise_delivered(self, job: Job) -> Job:
        """Return a copy of `job` whose texts delivered by a provider without token ids are token ids.

        They are the beginning of the assistant's turn, which this worker continues, so that no reasoning may come.
        """
        if not any(job.texts):
            return job
        loop = asyncio.get_running_loop()
        texts = [await loop.run_in_executor(self._threads, self.tokenizer.encode_inside, each) for each in job.texts]
        delivered = [[*ids, *job.delivered_ids(choice)] for choice, ids in enumerate(texts)]
        job = msgspec.structs.replace(job, delivered=delivered, texts=[], text_positions=[])
        return without_reasoning(job)

    def open_output(self, job: Job, choice: int, prompt_ids: list[int], start: int | None = None) -> OutputText:
        """Create the converter of tokens to text for one choice of a job, resumed after the choice's delivered ids.

        `prompt_ids` are those of the job's engine request. `start` is the position of the next token, if that is not
        the number of delivered ids.
        """
        return OutputText(
            self.tokenizer,
            job.sampling,
            job.text,
            job.delivered_ids(choice),
            self._calls(job, choice),
            start=start,
            reasoning=self.reasoning_splitter(job, prompt_ids),
        )

    def reasoning_splitter(self, job: Job, prompt_ids: list[int]) -> ReasoningSplitter | None:
        """Create the splitter of reasoning and answer for one choice; `None` if the model has no markup of reasoning.

        `prompt_ids` are those of the job's engine request.
        """
        return None if self._reasoning is None else self._reasoning.splitter(job, prompt_ids)

    def _calls(self, job: Job, choice: int) -> ToolCallSplitter | None:
        """Return the tool call parser of a choice, or `None` if it can have no calls."""
        if self._template is None:
            return None
        parser = call_parser(job.prompt, self._template.tool_style, job.grammar)
        if parser is None:
            return None
        return ToolCallSplitter(parser, f"{job.id}/{choice}", self.tokenizer.controls.ids_of(parser.markup.tokens))

    def _prepare(self, job: Job, request_id: str, limits: ModelLimits, images: ImageInputs) -> GenerationRequest:
        style = None if self._template is None else self._template.tool_style
        grammar = output_grammar(job.prompt, job.grammar, style, self.tokenizer.controls.ids_by_text)
        reasoning = self._reasoning
        if grammar is not None and reasoning is not None and not reasoning.has_tokens:
            job = without_reasoning(job)
        prompt_ids = _truncated(self._prompt_ids(job, limits, images), job, limits)
        check_prompt(prompt_ids, job, limits)
        check_token_options(job.sampling, limits)
        return GenerationRequest(
            id=request_id,
            prompt_ids=prompt_ids,
            sampling=_sampling(job, limits.max_model_len - len(prompt_ids)),
            n=job.n,
            salt=job.cache_salt,
            tenant=job.tenant,
            requester=job.requester,
            flex=job.service_class is ServiceClass.FLEX,
            delivered=job.delivered,
            ended=job.ended,
            bad_words=self._bad_words(job.text.bad_words),
            inputs=images.inputs,
            grammar=grammar,
            reasoning=None if reasoning is None else reasoning.tokens(job, prompt_ids, grammar),
        )

    def _bad_words(self, words: list[str]) -> list[list[int]]:
        """Return the token sequences of each word within a text, without and with a space before it."""
        spelled = [spelling for word in words for spelling in (word, f" {word.lstrip()}")]
        return [ids for ids in map(self.tokenizer.encode_inside, dict.fromkeys(spelled)) if ids]

    def _prompt_ids(self, job: Job, limits: ModelLimits, images: ImageInputs) -> list[int]:
        prompt = job.prompt
        if isinstance(prompt, TokenPrompt):
            return prompt.token_ids
        if isinstance(prompt, TextPrompt):
            self._check_size(prompt.text + prompt.suffix, job, limits)
            return self._text_ids(prompt)
        if isinstance(prompt, EmbeddingPrompt):
            raise PromptRejected("This model makes no embeddings.", "model")
        if isinstance(prompt, ImagePrompt):
            raise PromptRejected("This model draws no images.", "model")
        if not isinstance(prompt, ChatPrompt):
            raise PromptRejected("This model does not score.", "model")
        if job.text.drop_turns:
            space = limits.max_model_len - tokens_wanted(job)
            return shortened_ids(prompt, partial(self._conversation_ids, job=job, limits=limits), space)
        return self._with_images(self._conversation_ids(prompt, job, limits), images)

    def _text_ids(self, prompt: TextPrompt) -> list[int]:
        if not prompt.suffix:
            return self.tokenizer.encode(prompt.text)
        ids = fill_in_ids(self.tokenizer, prompt.text, prompt.suffix)
        if ids is None:
            raise PromptRejected("This model can't fill in text before a suffix.", "suffix")
        return ids

    def _conversation_ids(self, prompt: ChatPrompt, job: Job, limits: ModelLimits) -> list[int]:
        if self._template is None:
            raise PromptRejected(
                "This model has no chat template: use /v1/completions.", "messages", FailureCode.INVALID_PROMPT
            )
        # Do this before control tokens are escaped: two parts, or JSON's escapes, could form a control token.
        messages = [
            with_parsed_arguments({**message, "content": self._content(message.get("content"))})
            for message in prompt.messages
        ]
        written = [messages, prompt.tools, prompt.template_kwargs]
        marker = unused_marker(strings(written))
        if not marker:
            raise PromptRejected("The messages are full of noncharacters.", "messages", FailureCode.INVALID_PROMPT)
        protect = partial(self.tokenizer.controls.protect, marker=marker)
        protected = msgspec.structs.replace(
            prompt,
            messages=protect(messages),
            tools=protect(prompt.tools),
            template_kwargs=protect(prompt.template_kwargs),
        )
        rendered = self._template.render(protected)
        self._check_size(rendered, job, limits)
        return self.tokenizer.encode_rendered(rendered, marker)

    def _check_size(self, text: str, job: Job, limits: ModelLimits) -> None:
        """Reject a text that can't fit into the context, without spending time on tokenising it."""
        if job.text.truncate_prompt_tokens is not None:
            return
        # The factor 4 allows for normalisers that shorten a text.
        min_tokens = len(text) // (4 * max(1, self.tokenizer.max_token_bytes))
        if min_tokens >= limits.max_model_len:
            raise too_long(min_tokens, job, limits)


def _is_short(job: Job) -> bool:
    """Return whether a job certainly takes little time to prepare: no tools or options, which templates may repeat."""
    prompt = job.prompt
    if job.text.bad_words:
        return False
    if isinstance(prompt, ChatPrompt):
        sizes = accumulate(len(text) + 1 for text in strings(prompt.messages))  # reads no more texts than needed
        return not prompt.tools and not prompt.template_kwargs and all(size <= MAX_INLINE_PROMPT for size in sizes)
    if isinstance(prompt, TextPrompt):
        return len(prompt.text) + len(prompt.suffix) <= MAX_INLINE_PROMPT
    return isinstance(prompt, TokenPrompt) and len(prompt.token_ids) <= MAX_INLINE_PROMPT


def _truncated(prompt_ids: list[int], job: Job, limits: ModelLimits) -> list[int]:
    """Keep the last `truncate_prompt_tokens` ids; -1 keeps as many as leave space for the output."""
    kept = job.text.truncate_prompt_tokens
    if kept == -1:
        kept = limits.max_model_len - tokens_wanted(job)
    return prompt_ids[-kept:] if kept is not None and kept > 0 else prompt_ids


def _sampling(job: Job, rest: int) -> SamplingParams:
    """Apply the operator's default `max_tokens`, at most `rest` (the context left beside the prompt)."""
    sampling = job.sampling
    if job.begun and sampling.prompt_logprobs is not None:  # they were delivered before the first token
        sampling = msgspec.structs.replace(sampling, prompt_logprobs=None)
    if sampling.max_tokens is not None or sampling.default_max_tokens is None:
        return sampling
    return msgspec.structs.replace(sampling, max_tokens=min(sampling.default_max_tokens, rest))
