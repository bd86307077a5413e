"""Tokenises pairs of texts for cross-encoders, with the segments of the tokenizer's template. Must not import torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import tokenizers

from inference_worker.engine_protocol import ScoreInput
from inference_worker.errors import PromptRejected
from inference_worker.tokenizer.tokenizer import Definition, plain_encoder
from router.messages import ScorePrompt


class PairInputs:
    """Tokenises a query (the context) and a document (the candidate) as one input. Safe to share between threads."""

    def __init__(self, definition: Definition, *, at_last_token: bool) -> None:
        """Build the tokenizer from `definition`, the content of `tokenizer.json`.

        `at_last_token`: whether a decoder reads its score at the last token.

        Raises:
            UnsupportedModel: the library does not support this kind of tokenizer.
        """
        self._encoder = plain_encoder(definition)
        self._added = self._encoder.num_special_tokens_to_add(is_pair=True)
        self._at_last_token = at_last_token

    def tokens(self, text: str) -> int:
        """Return the number of tokens of a text, those of a pair's template included."""
        return len(self._encoder.encode(text, add_special_tokens=False).ids) + self._added

    def inputs(self, prompt: ScorePrompt, limit: int | None) -> Iterator[ScoreInput]:
        """Yield the input of each pair; one with more than `limit` tokens loses the ends of the longer text, or both.

        Raises:
            PromptRejected: the context is a conversation, or `limit` has no room for a pair.
        """
        queries = [context for context in prompt.contexts if isinstance(context, str)]
        if len(queries) < len(prompt.contexts):
            raise PromptRejected("This model scores pairs of texts: use 'text_1' and 'text_2'.", "messages")
        if limit is not None and limit < self._added + 2:
            message = f"Invalid 'truncate_prompt_tokens': a pair has at least {self._added + 2} tokens."
            raise PromptRejected(message, "truncate_prompt_tokens")
        encoded = self._encoded(queries)
        documents = self._encoded([prompt.text(index) for index in range(len(prompt.candidates))])
        shared = len(encoded) == 1
        for index, document in enumerate(documents):
            yield self._input(encoded[0 if shared else index], document, limit)

    def _encoded(self, texts: list[str]) -> list[tokenizers.Encoding]:
        return self._encoder.encode_batch(texts, add_special_tokens=False)

    def _input(self, query: tokenizers.Encoding, document: tokenizers.Encoding, limit: int | None) -> ScoreInput:
        if limit is not None:
            query, document = _fitted(query, document, limit - self._added)
        whole = self._encoder.post_process(query, document, add_special_tokens=True)
        ids, segments = list(whole.ids), list(whole.type_ids)
        second = segments.index(1) if 1 in segments else len(ids)
        return ScoreInput(ids, second, [len(ids) - 1] if self._at_last_token else [])


def _fitted(
    query: tokenizers.Encoding, document: tokenizers.Encoding, room: int
) -> tuple[tokenizers.Encoding, tokenizers.Encoding]:
    """Cut the ends of the longer text, or of both, so that both have `room` tokens (`longest_first`)."""
    first, second = len(query.ids), len(document.ids)
    if first + second <= room:
        return query, document
    half = room // 2
    first = min(first, max(room - second, room - half))
    second = min(second, room - first)
    return _cut(query, first), _cut(document, second)


def _cut(encoding: tokenizers.Encoding, length: int) -> tokenizers.Encoding:
    if len(encoding.ids) <= length:
        return encoding
    shortened = copy.deepcopy(encoding)
    shortened.truncate(length)
    return shortened
