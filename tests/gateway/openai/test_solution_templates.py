"""Instructions for answers step by step: where they are put, and that results are found in answers that follow them."""

from __future__ import annotations

import pytest

from gateway.openai.solution_templates import TEMPLATES, TemplateName, instructed
from inference_worker.search.regular_expressions import is_supported
from inference_worker.search.results import extract_results

ANSWERS: dict[TemplateName, str] = {
    "steps": "First, 2 + 2 is 4.\n\nThen twice that is 8.\n\nResult: 1/2\n",
    "llama3_math": "## Step 1: Add\n2 + 2 = 4\n\nTherefore, the final answer is: $\\boxed{0.5}$. I hope it is correct.",
    "qwen2.5_math": "So it is \\boxed{\\frac{1}{2}}, since 2 times that is 1.",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_results_are_found_in_answers_that_follow_the_instruction(name: TemplateName) -> None:
    template = TEMPLATES[name]
    assert extract_results([ANSWERS[name], "No idea."], template.extract) == ["0.5", None]
    assert not template.extract.pattern or is_supported(template.extract.pattern)


def test_an_instruction_is_a_system_message_before_the_conversation() -> None:
    question = {"role": "user", "content": "2 + 2?"}
    assert instructed([question], "Think.") == [{"role": "system", "content": "Think."}, question]
    for role in ("system", "developer"):
        conversation = [{"role": role, "content": "Be brief."}, question]
        assert instructed(conversation, "Think.") == [{"role": role, "content": "Think.\n\nBe brief."}, question]
        assert conversation[0]["content"] == "Be brief."
