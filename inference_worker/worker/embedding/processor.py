"""Text side of an embedding model in the worker: tokenises and validates the inputs of embedding jobs.

User text never becomes a control token (see `tokenizer/tokenizer.py`). Must not import torch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from pathlib import Path

import tokenizers

from inference_worker.engine_protocol import EmbeddingRequest, Ready
from inference_worker.errors import PromptRejected, UnsupportedModel
from inference_worker.model_files.embedding_folder import EmbeddingConfig, read_config
from inference_worker.tokenizer.tokenizer import Definition, full_tokenizer, plain_encoder
from inference_worker.tokenizer.tokenizer_files import read_definition
from inference_worker.worker.text.prompt_bounds import text_bounds
from inference_worker.worker.text.tokenisation import TokenList
from router.messages import (
    ChatPrompt,
    EmbeddingPrompt,
    FailureCode,
    Job,
    ServiceClass,
    TokenisationPrompt,
    TokenPrompt,
)

MAX_TOKEN_BYTES = 400
"""Assumed bytes of the longest token. There is no real limit: WordPiece encodes an unknown word of up to 100 characters
(or any length) as one token, and drops spaces. Text with more bytes per token is rejected before it is tokenised."""
MAX_REQUEST_TOKENS = 300_000
"""Maximum tokens of all inputs of a request, as in OpenAI's API."""
THREADS = 2


class EmbeddingProcessor:
    """Text side of one embedding model: tokenises and validates the inputs of jobs."""

    def __init__(self, definition: Definition, config: EmbeddingConfig) -> None:
        """Build the tokenizer from `definition`, the content of `tokenizer.json`.

        Raises:
            UnsupportedModel: the library does not support this kind of tokenizer.
        """
        self._encoder = plain_encoder(definition)
        self._definition = definition
        self._lowercase = config.lowercase
        self.bounds = text_bounds(definition.get("normalizer"), lambda text: len(self._encoder.encode(text).ids))
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="text")

    @classmethod
    def of(cls, folder: Path) -> EmbeddingProcessor:
        """Create the text side of the embedding model in `folder` from its tokenizer files; start tokeniser threads.

        Raises:
            ModelNotFound: there is no tokenizer.
            BadWeights: a file is damaged.
            UnsupportedModel: the kind of tokenizer is not served.
        """
        definition = read_definition(folder)
        try:
            return cls(definition, read_config(folder))
        except (KeyError, TypeError, AttributeError) as error:
            raise UnsupportedModel(f"{folder / 'tokenizer.json'} is not a tokenizer: {error!r}") from error

    def close(self) -> None:
        """Stop the threads that tokenise the inputs of embedding jobs."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, job: Job, request_id: str, ready: Ready) -> EmbeddingRequest:
        """Tokenise and validate an embedding job's inputs in a thread; return its engine request with `request_id`.

        `ready` has the engine's limits.

        Raises:
            PromptRejected: the model can't process the inputs or an option.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._prepare, job, request_id, ready)

    async def tokenise(self, prompt: TokenisationPrompt, ready: Ready) -> TokenList:
        """Return what the prompt of a tokenisation job requests, from a tokeniser thread.

        `ready` has the engine's limits.

        Raises:
            PromptRejected: the model can't process the prompt.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._tokens, prompt, ready)

    def _tokens(self, prompt: TokenisationPrompt, ready: Ready) -> TokenList:
        source = prompt.source
        if isinstance(source, ChatPrompt):
            message = "This model has no chat template: use 'prompt'."
            raise PromptRejected(message, "messages", FailureCode.INVALID_PROMPT)
        if isinstance(source, TokenPrompt):
            _check_ids(source.token_ids, ready, "tokens")
            text = self._with_controls.decode(source.token_ids, skip_special_tokens=False)
            return TokenList(len(source.token_ids), text=text)
        text = self._readable(source.text, ready, "prompt")
        encoded = self._encoder.encode_batch_fast([text], add_special_tokens=prompt.add_special_tokens)[0]
        return TokenList.of(encoded.ids, prompt, lambda id_: self._with_controls.id_to_token(id_) or "")

    @cached_property
    def _with_controls(self) -> tokenizers.Tokenizer:
        """The tokenizer with its control tokens, which is built at the first use: few clients read names or texts."""
        return full_tokenizer(self._definition)

    def _prepare(self, job: Job, request_id: str, ready: Ready) -> EmbeddingRequest:
        prompt = job.prompt
        if not isinstance(prompt, EmbeddingPrompt):
            raise PromptRejected("This model makes embeddings only.", "model")
        if prompt.dimensions is not None and prompt.dimensions > ready.dimensions:
            message = f"Invalid 'dimensions': this model's embeddings have {ready.dimensions} dimensions at most."
            raise PromptRejected(message, "dimensions")
        inputs = self._ids(prompt.inputs, ready)
        _check(inputs, ready)
        return EmbeddingRequest(
            id=request_id,
            inputs=inputs,
            flex=job.service_class is ServiceClass.FLEX,
            dimensions=prompt.dimensions,
            done=job.embedded,
        )

    def _ids(self, inputs: list[str | list[int]], ready: Ready) -> list[list[int]]:
        """Return the ids of each input: texts with the model's begin and end tokens, token ids unchanged."""
        texts = [self._readable(each, ready) for each in inputs if isinstance(each, str)]
        encoded = iter(self._encoder.encode_batch_fast(texts, add_special_tokens=True))
        return [list(next(encoded).ids) if isinstance(each, str) else each for each in inputs]

    def _readable(self, text: str, ready: Ready, param: str = "input") -> str:
        at_least = len(text) // MAX_TOKEN_BYTES
        if at_least > ready.max_model_len:
            raise _too_long(at_least, ready, param)
        return text.lower() if self._lowercase else text


def _check(inputs: list[list[int]], ready: Ready) -> None:
    if not all(inputs):
        raise PromptRejected("Invalid 'input': it must not be empty.", "input")
    longest = max(map(len, inputs))
    if longest > ready.max_model_len:
        raise _too_long(longest, ready)
    total = sum(map(len, inputs))
    if total > MAX_REQUEST_TOKENS:
        message = f"Invalid 'input': at most {MAX_REQUEST_TOKENS} tokens are allowed in a request, these are {total}."
        raise PromptRejected(message, "input")
    _check_ids(chain.from_iterable(inputs), ready, "input")


def _check_ids(ids: Iterable[int], ready: Ready, param: str) -> None:
    outside = next((id_ for id_ in ids if not 0 <= id_ < ready.vocab_size), None)
    if outside is not None:
        message = f"Invalid '{param}': token id {outside} is outside the model's vocabulary of {ready.vocab_size}."
        raise PromptRejected(message, param)


def _too_long(tokens: int, ready: Ready, param: str = "input") -> PromptRejected:
    """Return the rejection in OpenAI's wording, which clients search for."""
    message = (
        f"This model's maximum context length is {ready.max_model_len} tokens. "
        f"However, an input has {tokens} tokens. Please reduce its length."
    )
    return PromptRejected(message, param, FailureCode.CONTEXT_LENGTH_EXCEEDED)
