r"""Known instructions for answers that are written step by step, for the `template` of `test_time_compute`.

Sources: `llama3_math` is Meta's prompt of the Llama 3.1 evaluations of MATH, which search-and-learn has as its default;
`qwen2.5_math` is the system message on the model card of Qwen2.5-Math and its process reward models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from router.messages import Extraction, ExtractionKind

TemplateName = Literal["steps", "llama3_math", "qwen2.5_math"]


@dataclass(frozen=True)
class SolutionTemplate:
    """An instruction for the model, and how results are found in the answers that follow it.

    Steps are separated by two line feeds, the default separator.
    """

    instruction: str
    extract: Extraction


TEMPLATES: Mapping[TemplateName, SolutionTemplate] = {
    "steps": SolutionTemplate(
        "Answer step by step, with an empty line after each step. End with a line that begins with 'Result:' and has"
        " nothing but the result after it.",
        Extraction(kind=ExtractionKind.REGEX, pattern=r"Result:\s*(\S[^\n]*)"),
    ),
    "llama3_math": SolutionTemplate(
        "Solve the following math problem efficiently and clearly:\n\n"
        "- For simple problems (2 steps or fewer):\nProvide a concise solution with minimal explanation.\n\n"
        "- For complex problems (3 steps or more):\nUse this step-by-step format:\n\n"
        "## Step 1: [Concise description]\n[Brief explanation and calculations]\n\n"
        "## Step 2: [Concise description]\n[Brief explanation and calculations]\n\n...\n\n"
        "Regardless of the approach, always conclude with:\n\n"
        "Therefore, the final answer is: $\\boxed{answer}$. I hope it is correct.\n\n"
        "Where [answer] is just the final number or expression that solves the problem.",
        Extraction(kind=ExtractionKind.BOXED),
    ),
    "qwen2.5_math": SolutionTemplate(
        "Please reason step by step, and put your final answer within \\boxed{}.",
        Extraction(kind=ExtractionKind.BOXED),
    ),
}


def instructed(messages: Sequence[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    """Return a conversation in its wire form after a system message with `instruction`.

    A system message with which it begins follows the instruction in the same message.
    """
    first, *rest = messages
    if first["role"] not in ("system", "developer"):
        return [{"role": "system", "content": instruction}, *messages]
    return [{**first, "content": f"{instruction}\n\n{first['content']}"}, *rest]
