"""A real tokenizer and chat template whose ids from `FIRST` on are numbers: id FIRST+i is the text f"{i} ".

So lost, repeated and reordered tokens are visible in a client's text. Prompts are encoded as bytes.
"""

from __future__ import annotations

import re
from typing import Any

from inference_worker.engine_protocol import EngineLoad, Ready
from inference_worker.tokenizer.token_bytes import byte_alphabet
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.chat_template import ChatTemplate
from inference_worker.worker.text.processor import TextProcessor

BEGIN, END = 256, 257
FIRST = 258
NUMBERS = 10_000
VOCAB_SIZE = FIRST + NUMBERS

_NUMBERS = re.compile(r"((?:0|[1-9]\d{0,3}) )")
"""The text of one token that the engine generates."""

TEMPLATE = (
    "{% for message in messages %}<|begin|>{{ message.role }}\n{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|begin|>assistant\n{% endif %}"
)


def counting_ready(slots: int, max_model_len: int) -> Ready:
    """Return what an engine that counts reports when it has started."""
    return Ready(
        max_model_len=max_model_len,
        vocab_size=VOCAB_SIZE,
        max_num_seqs=slots,
        kv_blocks=slots,
        block_size=16,
        device="cpu",
        dtype="float32",
        attention="counting",
        eos_token_ids=[END],
    )


def counting_load(choices: int, slots: int, *, prompted: int, generated: int, steps: int) -> EngineLoad:
    """Return the load of an engine that counts, with `choices` of which `slots` at most are running."""
    running = min(choices, slots)
    return EngineLoad(
        running=running,
        waiting=choices - running,
        kv_blocks_used=running,
        kv_blocks_total=slots,
        prompt_tokens=prompted,
        generation_tokens=generated,
        steps=steps,
    )


def counting_text() -> TextProcessor:
    """Return the text processor of the counting engine."""
    tokenizer = CountingTokenizer(definition())
    return TextProcessor(tokenizer, ChatTemplate(TEMPLATE, {"eos_token": "<|end|>"}))


class CountingTokenizer(Tokenizer):
    """Tokenizer that encodes numbers within a text as the engine's tokens, so that it counts on after such a text."""

    def encode_inside(self, text: str) -> list[int]:
        """See `Tokenizer`."""
        ids: list[int] = []
        for piece in _NUMBERS.split(text):
            number = int(piece) if _NUMBERS.fullmatch(piece) else NUMBERS
            ids += [FIRST + number] if number < NUMBERS else super().encode_inside(piece)
        return ids


def definition() -> dict[str, Any]:
    """Return the content of its `tokenizer.json`."""
    vocabulary = dict(byte_alphabet())
    vocabulary |= {"<|begin|>": BEGIN, "<|end|>": END}
    vocabulary |= {f"{number}Ġ": FIRST + number for number in range(NUMBERS)}
    return {
        "version": "1.0",
        "added_tokens": [_control("<|begin|>", BEGIN), _control("<|end|>", END)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }


def _control(text: str, id_: int) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": id_, "content": text, "special": True, **flags}
