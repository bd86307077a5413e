"""A worker around a counting engine whose choices reason before they count on."""

from __future__ import annotations

from functools import cache, partial

from inference_worker.engine_protocol import GenerationRequest
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.generation_handler import GenerationHandler
from inference_worker.worker.job_handler import HandlerFactory
from inference_worker.worker.text.chat_template import ChatTemplate
from inference_worker.worker.text.processor import TextProcessor
from router.timings import Timings
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.counting_text import VOCAB_SIZE, definition
from tests.fakes.fleet import FleetWorker
from tests.fakes.thinking_text import R1

END_THINK = VOCAB_SIZE
"""Id of the token that ends the reasoning."""
THOUGHTS = 3
"""Tokens of choice 0 before the end of its reasoning; each further choice has one more."""


class ThinkingEngine(CountingEngine):
    """A counting engine whose choices reason at first."""

    def _token(self, request: GenerationRequest, choice: int, position: int) -> int:
        return END_THINK if position == THOUGHTS + choice else super()._token(request, choice, position)


def thinking_counting_text() -> TextProcessor:
    """Return the text processor of the thinking engine, whose prompts begin the reasoning."""
    described = definition()
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    described["added_tokens"].append({"id": END_THINK, "content": "</think>", "special": False, **flags})
    described["model"]["vocab"]["</think>"] = END_THINK
    return TextProcessor(Tokenizer(described), ChatTemplate(R1, {}))


_shared = cache(thinking_counting_text)


class ThinkingWorker(FleetWorker):
    """A worker of a fleet whose model reasons."""

    engine_type = ThinkingEngine

    def _make_handler(self, timings: Timings) -> HandlerFactory:
        del timings
        return partial(GenerationHandler, _shared())
