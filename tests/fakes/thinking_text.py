"""A tokenizer of single bytes and of the tokens around reasoning, and chat templates of models that reason."""

from __future__ import annotations

from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.chat_template import ChatTemplate
from inference_worker.worker.text.processor import TextProcessor
from tests.fakes.counting_text import END, FIRST, definition

THINK, END_THINK = FIRST, FIRST + 1
"""Ids of `<think>` and `</think>`, which are no control tokens, as in Qwen 3 and DeepSeek R1."""
HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|return|>", "<|call|>")
"""Further control tokens, whose ids follow; `<|end|>` is one of every model here."""
VOCAB_SIZE = FIRST + 2 + len(HARMONY)

TURNS = (
    "{% for m in messages %}<|begin|>{{ m.role }}\n{{ m.reasoning_content or '' }}{{ m.content }}<|end|>\n{% endfor %}"
)
QWEN = (
    TURNS + "{% if add_generation_prompt %}<|begin|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
"""Leaves it to the model to begin its reasoning, and has a switch."""
R1 = TURNS + "{% if add_generation_prompt %}<|begin|>assistant\n<think>\n{% endif %}"
"""Begins the reasoning in the prompt, and has no switch."""
GPT_OSS = TURNS + "{# <|channel|>final<|message|> #}{% if add_generation_prompt %}<|start|>assistant{% endif %}"


def thinking_tokenizer() -> Tokenizer:
    """Return a tokenizer whose vocabulary has the tokens around reasoning."""
    described = definition()
    described["model"]["vocab"] = {text: id_ for text, id_ in described["model"]["vocab"].items() if id_ <= END}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for number, text in enumerate(("<think>", "</think>", *HARMONY)):
        token = {"id": FIRST + number, "content": text, "special": text in HARMONY, **flags}
        described["added_tokens"].append(token)
        described["model"]["vocab"][text] = FIRST + number
    return Tokenizer(described)


def thinking_text(template: str = QWEN) -> TextProcessor:
    """Return the text processor of a model that reasons, with this chat template."""
    return TextProcessor(thinking_tokenizer(), ChatTemplate(template, {"eos_token": "<|end|>"}))
