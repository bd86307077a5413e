"""Renders a conversation to a prompt with the model's own Jinja chat template, in a sandbox with limits.

The template came with the model and is treated as hostile (for example CVE-2024-34359): immutable sandbox, no access
to Python's internals, limits on time and size. Clients never supply templates. Global names and filters are those
that Hugging Face's templates expect (`transformers/utils/chat_template_utils.py`).

Control tokens in users' text are escaped before rendering and unescaped afterwards (`control_tokens.py`).
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.runtime
import jinja2.sandbox

from inference_worker.errors import PromptRejected, UnsupportedModel
from inference_worker.tokenizer.control_tokens import MARKERS
from inference_worker.worker.text.reasoning.markup import is_off, reasoning_markup, without_reasoning
from inference_worker.worker.text.tool_calls.template_messages import (
    Message,
    as_plain_messages,
    described,
    with_short_ids,
)
from inference_worker.worker.text.tool_calls.tool_style import MarkupFamily, tool_style
from router.messages import ChatPrompt, FailureCode, ToolMode

TIME_LIMIT = 2.0
"""Maximum seconds of one rendering."""
SIZE_LIMIT = 16 * 1024 * 1024
"""Maximum characters of one rendering."""

MAX_POWER_OPERAND, MAX_FACTOR_BITS = 64, 4096
"""Largest operand of `**`, and the most bits of an operand of `*`, in a template."""
_WIDE = re.compile(r"%[^%a-zA-Z]*(\d{4}|\*)")
"""A `%` format with a width of four digits, or one that is an argument."""

_OWN_NAMES = frozenset({"messages", "tools", "documents", "add_generation_prompt", "continue_final_message"})
_REASONING_NAMES = ("reasoning", "thinking")
"""Names that templates give to an earlier answer's reasoning, besides `reasoning_content`."""
_TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Exceptions of a template that was not written for the given conversation."""


IMAGE_MARK = MARKERS[-1]
"""Character that stands for an image in the content of a message until the template is rendered."""


class ChatTemplate:
    """Compiled chat template of one model. Safe to share between threads."""

    def __init__(self, source: str, named_tokens: dict[str, str], *, reads_images: bool = False) -> None:
        """Compile `source`. The template can refer to `named_tokens` (`bos_token`, ...).

        With `reads_images` it gets contents as lists of texts and images, else as strings.

        Raises:
            UnsupportedModel: `source` is not a valid Jinja template.
        """
        self._environment = _Sandbox()
        self._named_tokens = named_tokens
        self._reads_images = reads_images
        self._knows_developer = "developer" in source
        self._reasoning_names = [
            name for name in _REASONING_NAMES if re.search(rf"\.{name}\b|['\"]{name}['\"]", source)
        ]
        self.reasoning = reasoning_markup(source)
        """Markup in which the model writes its reasoning; `None` if it does not reason in a known one."""
        try:
            self._template = self._environment.from_string(source)
            names = jinja2.meta.find_undeclared_variables(self._environment.parse(source))
        except (jinja2.TemplateError, RecursionError) as error:
            raise UnsupportedModel(f"the model's chat template can't be compiled: {error}") from error
        self.options = frozenset(names) - _OWN_NAMES - named_tokens.keys() - self._environment.globals.keys()
        """Template variables that a client may set in `chat_template_kwargs`."""
        self.tool_style = tool_style(source, reads_tools="tools" in names)
        """How tools are described to the model, and the markup of its calls."""

    def render(self, prompt: ChatPrompt) -> str:
        """Render a job's conversation and tools to the model's prompt text.

        Raises:
            PromptRejected: the template rejects the conversation, or does not use an option that the client set.
        """
        unknown = sorted(prompt.template_kwargs.keys() - self.options)
        if unknown:
            raise PromptRejected(f"This model's chat template has no option {unknown[0]!r}.", "chat_template_kwargs")
        messages, tools = self._with_tools([self._message(message) for message in prompt.messages], prompt)
        try:
            rendered = self._environment.render_within(
                self._template,
                **self._named_tokens,
                **self._effort(prompt) | prompt.template_kwargs,
                messages=[_in_parts(message) for message in messages] if self._reads_images else messages,
                tools=tools,
                documents=None,
                add_generation_prompt=prompt.add_generation_prompt and not prompt.continue_final_message,
            )
        except _TEMPLATE_ERRORS as error:
            reason = error.message if isinstance(error, jinja2.TemplateError) else type(error).__name__
            raise PromptRejected(
                f"The model's chat template refused these messages: {reason}", "messages", FailureCode.INVALID_PROMPT
            ) from error
        if prompt.continue_final_message:
            return _cut_after_final(rendered, messages)
        if self.reasoning is not None and is_off(prompt):
            return without_reasoning(rendered, self.reasoning)
        return rendered

    def _with_tools(self, messages: list[Message], prompt: ChatPrompt) -> tuple[list[Message], list[Message] | None]:
        """Return the messages and tools to render, in the form that the template expects."""
        if not self.tool_style.in_template:
            # Leave out tools that must not be called: such a model was not trained to ignore them.
            tools = described(prompt.tools or []) if prompt.tool_choice.mode is not ToolMode.NONE else []
            return as_plain_messages(messages, tools), None
        if self.tool_style.family is MarkupFamily.MISTRAL:
            messages = with_short_ids(messages)
        return messages, described(prompt.tools or []) or None

    def _effort(self, prompt: ChatPrompt) -> dict[str, str | int | float | bool | None]:
        """Return the template variables for the effort and budget of reasoning, as far as the template has them."""
        effort, variables = prompt.reasoning_effort, dict[str, str | int | float | bool | None]()
        if prompt.thinking_token_budget is not None and "thinking_budget" in self.options:
            variables["thinking_budget"] = prompt.thinking_token_budget
        if effort and "reasoning_effort" in self.options:
            variables["reasoning_effort"] = effort
        if is_off(prompt) and "enable_thinking" in self.options:
            variables["enable_thinking"] = False
        return variables

    def _message(self, message: dict[str, Any]) -> dict[str, Any]:
        shaped = {**message, "content": flatten(message.get("content"))}
        if reasoning := shaped.get("reasoning_content"):
            shaped |= dict.fromkeys(self._reasoning_names, reasoning)
        if shaped.get("role") == "developer" and not self._knows_developer:
            shaped["role"] = "system"
        return shaped


def flatten(content: Any) -> str:
    """Return a chat message's `content` as one string: text parts joined, "" for `None`.

    Raises:
        PromptRejected: a part is not text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise PromptRejected("This model takes text content only.", "messages", FailureCode.INVALID_PROMPT)
    return "".join(text for text in texts if text)


def mark_images(content: Any) -> str:
    """Return a chat message's `content` as one string, with `IMAGE_MARK` in the place of each image.

    Raises:
        PromptRejected: a part is neither text nor an image.
    """
    parts = content if isinstance(content, list) else [content or ""]
    texts = [IMAGE_MARK if _is_image(part) else flatten(part).replace(IMAGE_MARK, "\ufffd") for part in parts]
    return "".join(texts)


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image"


def _in_parts(message: Message) -> Message:
    """Return a message with its content as a list of texts and images, as templates of vision models read it."""
    parts: list[Message] = []
    for number, text in enumerate(message["content"].split(IMAGE_MARK)):
        if number:
            parts.append({"type": "image"})
        if text:
            parts.append({"type": "text", "text": text})
    return {**message, "content": parts or [{"type": "text", "text": ""}]}


def _cut_after_final(rendered: str, messages: list[dict[str, Any]]) -> str:
    """Drop the text that the template added after the last message, so that the model continues that message."""
    final = messages[-1]["content"].strip() if messages else ""
    at = rendered.rfind(final)
    if not final or at < 0:
        raise PromptRejected(
            "The final message can't be continued: it is empty or rewritten.", "messages", FailureCode.INVALID_PROMPT
        )
    return rendered[: at + len(final)]


class _LimitExceeded(jinja2.TemplateError):
    """Raised when a rendering takes too long or becomes too large."""


class _Generation(jinja2.ext.Extension):
    """The tag `{% generation %}`, which marks the assistant's text for training: renders its body unchanged."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        """Parse the tag `{% generation %}` to the nodes of its body alone, which is rendered as it is."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a deadline, checked at every look-up, call, loop and operator, and with size limits.

    Operators are intercepted so that Jinja does not evaluate them at compile time (`"a" * 10**10`), and so that a
    result that would only exhaust memory is never computed.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols])
        self._clock = threading.local()
        self.filters["tojson"] = _to_json
        self.globals.update(raise_exception=_refuse, strftime_now=_now_as, range=self._range)

    def render_within(self, template: jinja2.Template, **variables: Any) -> str:
        """Render a template with `variables` within `TIME_LIMIT` and `SIZE_LIMIT`, and return the text.

        Raises:
            jinja2.TemplateError: the template is at fault or exceeds a limit.
        """
        self._clock.deadline = time.monotonic() + TIME_LIMIT
        pieces, size = [], 0
        for piece in template.generate(**variables):
            size += len(piece)
            if size > SIZE_LIMIT:
                raise _LimitExceeded("the rendered text is too long")
            self._check_deadline()
            pieces.append(piece)
        return "".join(pieces)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute that a chat template reads, by Jinja's sandbox rules and within the time limit."""
        self._check_deadline()
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item that a chat template reads, by Jinja's sandbox rules and within the time limit."""
        self._check_deadline()
        return super().getitem(obj, argument)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call a function from a chat template, as Jinja's sandbox permits it, if the time limit is not exceeded."""
        self._check_deadline()
        return super().call(*args, **kwargs)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        """Compute a chat template's binary operator, within the time limit and if the result's size is bounded."""
        self._check_deadline()
        if not _is_bounded(operator, left, right):
            raise _LimitExceeded(f"a result of '{operator}' is too large")
        return super().call_binop(context, operator, left, right)

    def _range(self, *args: int) -> Iterator[int]:
        for number in jinja2.sandbox.safe_range(*args):
            self._check_deadline()
            yield number

    def _check_deadline(self) -> None:
        if time.monotonic() > getattr(self._clock, "deadline", float("inf")):
            raise _LimitExceeded("rendering took too long")


def _is_bounded(operator: str, left: Any, right: Any) -> bool:
    """Return whether an operator's result has at most `SIZE_LIMIT` elements, or is a number of bounded size."""
    sizes = [len(value) if isinstance(value, str | list | tuple) else None for value in (left, right)]
    if operator == "+":
        return sum(size or 0 for size in sizes) <= SIZE_LIMIT
    if operator == "%":
        return not isinstance(left, str) or _WIDE.search(left) is None
    numbers = [value for value in (left, right) if isinstance(value, int)]
    if operator == "**":
        return all(abs(number) <= MAX_POWER_OPERAND for number in numbers)
    size = next((size for size in sizes if size is not None), None)
    if size is not None:
        return all(size * number <= SIZE_LIMIT for number in numbers)
    return all(number.bit_length() <= MAX_FACTOR_BITS for number in numbers)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Unlike Jinja's own filter, this one does not escape HTML, because models were trained on plain JSON.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now_as(format: str) -> str:
    return datetime.now().strftime(format)
