"""Chat templates get what they get in Hugging Face's library, and can't escape their sandbox or its limits."""

from __future__ import annotations

from typing import Any

import pytest

from inference_worker.errors import PromptRejected, UnsupportedModel
from inference_worker.worker.text import chat_template
from inference_worker.worker.text.chat_template import ChatTemplate
from router.messages import ChatPrompt, FailureCode

USER = {"role": "user", "content": "hi"}


def render(source: str, *messages: dict[str, Any], **fields: Any) -> str:
    return ChatTemplate(source, {"bos_token": "<s>"}).render(ChatPrompt(messages=list(messages or (USER,)), **fields))


def test_named_tokens_and_blocks_are_as_in_transformers() -> None:
    source = (
        "{{ bos_token }}\n{% for m in messages %}\n    {% if m.role %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}"
    )
    assert render(source) == "<s>\nhi\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ messages | tojson }}", '[{"role": "user", "content": "hi"}]'),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}!", "hi!"),
        ("{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "02"),
        ("{{ strftime_now('%Y')[:2] }}", "20"),
        ("{{ add_generation_prompt }}", "True"),
    ],
)
def test_functions_and_filters_of_templates(source: str, expected: str) -> None:
    assert render(source) == expected


@pytest.mark.parametrize(
    "content", ["hi there", [{"type": "text", "text": "hi "}, {"type": "text", "text": "there"}], None, []]
)
def test_content_parts_are_one_text(content: Any) -> None:
    assert render("{{ messages[0].content }}", {"role": "user", "content": content}) in ("hi there", "")


def test_a_developer_message_becomes_a_system_message_without_template_support() -> None:
    developer = {"role": "developer", "content": "x"}
    assert render("{{ messages[0].role }}", developer) == "system"
    assert render("{# developer #}{{ messages[0].role }}", developer) == "developer"


def test_a_final_message_can_be_continued() -> None:
    source = "{% for m in messages %}[{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    begun = {"role": "assistant", "content": "Once upon"}
    assert render(source, USER, begun, continue_final_message=True) == "[hi][Once upon"


def test_only_options_that_the_template_uses_are_accepted() -> None:
    assert render("{{ enable_thinking }}", template_kwargs={"enable_thinking": False}) == "False"
    for name in ("tokenize", "messages", "bos_token", "range"):
        with pytest.raises(PromptRejected) as caught:
            render("{{ enable_thinking }}{{ messages }}", template_kwargs={name: True})
        assert caught.value.param == "chat_template_kwargs"
        assert caught.value.code is FailureCode.INVALID_PARAMETER


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ ''.__class__.__mro__ }}{{ messages[0].content.__class__.__init__.__globals__ }}{{ missing.field }}",
        "{{ messages.append(1) }}",
        "{{ 1 // 0 }}",
        "{{ messages[7].content.x }}",
        "{{ 'x' + 1 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in range(10**9) %}{% endfor %}",
    ],
)
def test_a_failing_template_rejects_the_messages(source: str) -> None:
    with pytest.raises(PromptRejected) as caught:
        render(source)
    assert caught.value.code is FailureCode.INVALID_PROMPT


def test_the_template_s_error_message_reaches_the_client() -> None:
    with pytest.raises(PromptRejected, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    ],
)
def test_time_is_limited(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "TIME_LIMIT", 0.05)
    with pytest.raises(PromptRejected):
        render(source)


def test_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "SIZE_LIMIT", 1000)
    with pytest.raises(PromptRejected, match="too long"):
        render("{% for i in range(2000) %}x{% endfor %}")


def test_an_invalid_template_is_an_error_at_start_up() -> None:
    with pytest.raises(UnsupportedModel, match="chat template"):
        ChatTemplate("{% if %}", {})


def test_reasoning_effort_is_passed_to_templates_that_use_it() -> None:
    both = "{{ reasoning_effort }} {{ enable_thinking is not defined or enable_thinking }}"
    assert render(both, reasoning_effort="high") == "high True"
    assert render(both, reasoning_effort="none") == "none False"
    assert render(both, reasoning_effort="none", template_kwargs={"enable_thinking": True}) == "none True"
    assert render("{{ messages[0].content }}", reasoning_effort="low") == "hi"
