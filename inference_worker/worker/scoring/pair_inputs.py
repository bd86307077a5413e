"""Tokenises pairs of texts for cross-encoders, with the segments of the tokenizer's template. Must not import torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tokenizers

from inference_worker.engine_protocol import ScoreInput
from inference_worker.errors import PromptRejected, UnsupportedModel
from inference_worker.tokenizer.tokenizer import Definition, plain_encoder
from router.messages import ScorePrompt

BATCH = 64
"""Documents that are tokenised at once, before the next ones are asked for."""
_ANY_TEXT = "a"
_SECOND_SEGMENT = 1


@dataclass(frozen=True)
class _Template:
    """What the tokenizer's template adds to a pair, as token ids, and the first token of the second segment."""

    before: list[int]
    between: list[int]
    after: list[int]
    between_in_first: int
    """How many tokens of `between` are in the first segment."""
    has_segments: bool

    @classmethod
    def of(cls, encoder: tokenizers.Tokenizer) -> _Template:
        """Find the tokens that a tokenizer's template adds to a pair of texts, by encoding a pair.

        Raises:
            UnsupportedModel: the template has another order than that of the texts.
        """
        pair = encoder.encode(_ANY_TEXT, _ANY_TEXT, add_special_tokens=True)
        sources = pair.sequence_ids
        texts = [source for source in sources if source is not None]
        if 0 not in texts or 1 not in texts or texts != sorted(texts):
            raise UnsupportedModel("the tokenizer does not put a query before a document")
        first, second = sources.index(0), sources.index(1)
        end_of_first, end_of_second = (len(sources) - sources[::-1].index(source) for source in (0, 1))
        ids, segments = pair.ids, pair.type_ids
        has_segments = _SECOND_SEGMENT in segments
        return cls(
            before=ids[:first],
            between=ids[end_of_first:second],
            after=ids[end_of_second:],
            between_in_first=segments.index(_SECOND_SEGMENT) - end_of_first if has_segments else 0,
            has_segments=has_segments,
        )

    @property
    def added(self) -> int:
        """Number of tokens that the template adds to a pair."""
        return len(self.before) + len(self.between) + len(self.after)

    def fill(self, query: list[int], document: list[int]) -> tuple[list[int], int]:
        """Return the token ids of a pair in the template, and the index of the first token of the second segment.

        `query` and `document` are the ids of both texts. The index is the number of ids if the template has one segment
        only.
        """
        ids = [*self.before, *query, *self.between, *document, *self.after]
        return ids, len(self.before) + len(query) + self.between_in_first if self.has_segments else len(ids)


class PairInputs:
    """Tokenises a query (the context) and a document (the candidate) as one input. Safe to share between threads."""

    def __init__(self, definition: Definition, *, at_last_token: bool) -> None:
        """Build the tokenizer from `definition`, the content of `tokenizer.json`.

        `at_last_token`: whether a decoder reads its score at the last token.

        Raises:
            UnsupportedModel: the library does not support this kind of tokenizer.
        """
        self._encoder = plain_encoder(definition)
        self._template = _Template.of(self._encoder)
        self._at_last_token = at_last_token

    def tokens(self, text: str) -> int:
        """Return the number of tokens of one text, those that a pair's template adds included."""
        return len(self._encoder.encode(text, add_special_tokens=False).ids) + self._template.added

    def inputs(self, prompt: ScorePrompt, limit: int | None) -> Iterator[ScoreInput]:
        """Yield the engine input of each pair of a score job: the query (context) with one document (candidate).

        A pair with more than `limit` tokens loses the end of the longer text, or of both; `None`: no pair is cut.

        Raises:
            PromptRejected: the context is a conversation, or `limit` has no room for a pair.
        """
        contexts = [context for context in prompt.contexts if isinstance(context, str)]
        if len(contexts) < len(prompt.contexts):
            raise PromptRejected("This model scores pairs of texts: use 'text_1' and 'text_2'.", "messages")
        room = None if limit is None else limit - self._template.added
        if room is not None and room < 2:
            message = f"Invalid 'truncate_prompt_tokens': a pair has at least {self._template.added + 2} tokens."
            raise PromptRejected(message, "truncate_prompt_tokens")
        shared = self._encoded(contexts, room)[0] if len(contexts) == 1 else None
        for start in range(0, len(prompt.candidates), BATCH):
            numbers = range(start, min(start + BATCH, len(prompt.candidates)))
            documents = self._encoded([prompt.text(number) for number in numbers], room)
            queries = (
                self._encoded(contexts[start : start + BATCH], room) if shared is None else [shared] * len(numbers)
            )
            for query, document in zip(queries, documents, strict=True):
                yield self._input(query, document, room)

    def _encoded(self, texts: list[str], room: int | None) -> list[list[int]]:
        """Return the first `room` token ids of each text."""
        return [each.ids[:room] for each in self._encoder.encode_batch_fast(texts, add_special_tokens=False)]

    def _input(self, query: list[int], document: list[int], room: int | None) -> ScoreInput:
        if room is not None:
            query, document = _fitted(query, document, room)
        ids, second = self._template.fill(query, document)
        return ScoreInput(ids, second, [len(ids) - 1] if self._at_last_token else [])


def _fitted(query: list[int], document: list[int], room: int) -> tuple[list[int], list[int]]:
    """Cut the ends of the longer text, or of both, so that both have `room` tokens (`longest_first`)."""
    first, second = len(query), len(document)
    if first + second <= room:
        return query, document
    half = room // 2
    first = min(first, max(room - second, room - half))
    return query[:first], document[: room - first]
