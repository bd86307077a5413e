"""Tokenises single texts for classifiers, with the tokenizer's own template. Must not import torch."""

from __future__ import annotations

from collections.abc import Iterator

from inference_worker.engine_protocol import ScoreInput
from inference_worker.errors import PromptRejected
from inference_worker.tokenizer.tokenizer import Definition, plain_encoder
from inference_worker.worker.scoring.pair_inputs import BATCH
from router.messages import ScorePrompt


class TextInputs:
    """Tokenises each text (the candidate) alone, without a context. Safe to share between threads."""

    def __init__(self, definition: Definition) -> None:
        """Build the tokenizer from `definition`, the content of `tokenizer.json`.

        Raises:
            UnsupportedModel: the library does not support this kind of tokenizer.
        """
        self._encoder = plain_encoder(definition)

    def tokens(self, text: str) -> int:
        """Return the number of tokens of one text, those that the tokenizer's template adds included."""
        return len(self._encoder.encode(text, add_special_tokens=True).ids)

    def inputs(self, prompt: ScorePrompt, limit: int | None) -> Iterator[ScoreInput]:
        """Yield the engine input of each text of a score job; texts are never cut.

        Raises:
            PromptRejected: there is a context, or the texts are to be cut.
        """
        if any(prompt.contexts):
            raise PromptRejected("This model classifies single texts: use /v1/moderations.", "model")
        if limit is not None:
            raise PromptRejected("This model cuts no texts.", "truncate_prompt_tokens")
        for start in range(0, len(prompt.candidates), BATCH):
            texts = [prompt.text(number) for number in range(start, min(start + BATCH, len(prompt.candidates)))]
            for each in self._encoder.encode_batch_fast(texts, add_special_tokens=True):
                yield ScoreInput(each.ids, len(each.ids), [])
