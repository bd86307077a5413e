"""Renders a conversation by the model's own Jinja template, in a sandbox with limits.

The template came with the model and is treated as hostile (CVE-2024-34359 and its kind): immutable sandbox, no
access to Python's internals, limits on time and size. Clients never supply templates. The names and filters are those
that Hugging Face's templates expect (`transformers/utils/chat_template_utils.py`).

Does not know tokens: control tokens written by users are made harmless before and after (`control_tokens.py`).
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

from inference_worker.errors import UnsupportedModel
from inference_worker.worker.text.errors import PromptRejected
from inference_worker.worker.text.tool_calls.conversation import Message, as_plain, with_short_ids
from inference_worker.worker.text.tool_calls.family import Family, tool_style
from router.messages import ChatPrompt, FailureCode, ToolMode

TIME_LIMIT = 2.0
"""Seconds that one rendering may take."""
SIZE_LIMIT = 16 * 1024 * 1024
"""Characters that one rendering may produce."""

LARGEST_POWER, LARGEST_BITS = 64, 4096
_WIDE = re.compile(r"%[^%a-zA-Z]*(\d{4}|\*)")
"""A `%` format with a width of thousands, or one that comes from outside."""

_OWN_NAMES = frozenset({"messages", "tools", "documents", "add_generation_prompt", "continue_final_message"})
_TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a foreign template can raise when it meets a conversation that it was not written for."""


class ChatTemplate:
    """One model's template, compiled once. Safe to share between threads."""

    def __init__(self, source: str, named_tokens: dict[str, str]) -> None:
        """Compile `source`. `named_tokens` (`bos_token`, ...) are there for the template to write.

        Raises:
            UnsupportedModel: it is no Jinja template.
        """
        self._environment = _Sandbox()
        self._named_tokens = named_tokens
        self._knows_developer = "developer" in source
        try:
            self._template = self._environment.from_string(source)
            names = jinja2.meta.find_undeclared_variables(self._environment.parse(source))
        except (jinja2.TemplateError, RecursionError) as error:
            raise UnsupportedModel(f"the model's chat template can't be compiled: {error}") from error
        self.options = frozenset(names) - _OWN_NAMES - named_tokens.keys() - self._environment.globals.keys()
        """Names that a client may set by `chat_template_kwargs`."""
        self.tool_style = tool_style(source, reads_tools="tools" in names)
        """How the model is told of tools, and in which markup it calls them."""

    def render(self, prompt: ChatPrompt) -> str:
        """The conversation as the model was trained to read it.

        Raises:
            PromptRejected: the template refuses the conversation, or an option that it does not read was set.
        """
        unknown = sorted(prompt.template_kwargs.keys() - self.options)
        if unknown:
            raise PromptRejected(
                FailureCode.INVALID_PARAMETER,
                f"This model's chat template has no option {unknown[0]!r}.",
                "chat_template_kwargs",
            )
        messages, tools = self._with_tools([self._message(message) for message in prompt.messages], prompt)
        try:
            rendered = self._environment.render_within(
                self._template,
                **self._named_tokens,
                **self._effort(prompt.reasoning_effort) | prompt.template_kwargs,
                messages=messages,
                tools=tools,
                documents=None,
                add_generation_prompt=prompt.add_generation_prompt and not prompt.continue_final_message,
            )
        except _TEMPLATE_ERRORS as error:
            reason = error.message if isinstance(error, jinja2.TemplateError) else type(error).__name__
            raise PromptRejected(
                FailureCode.INVALID_PROMPT, f"The model's chat template refused these messages: {reason}", "messages"
            ) from error
        return _cut_after_final(rendered, messages) if prompt.continue_final_message else rendered

    def _with_tools(self, messages: list[Message], prompt: ChatPrompt) -> tuple[list[Message], list[Message] | None]:
        """The messages and tools that the template is given."""
        if not self.tool_style.in_template:
            # A model that was not trained to be told of tools it must not call is not told of them.
            told = prompt.tools if prompt.tool_choice.mode is not ToolMode.NONE else None
            return as_plain(messages, told or []), None
        if self.tool_style.family is Family.MISTRAL:
            messages = with_short_ids(messages)
        return messages, prompt.tools or None

    def _effort(self, effort: str) -> dict[str, str | int | float | bool | None]:
        """How much to think, in the words of this template."""
        words: dict[str, str | int | float | bool | None] = {}
        if effort and "reasoning_effort" in self.options:
            words["reasoning_effort"] = effort
        if effort == "none" and "enable_thinking" in self.options:
            words["enable_thinking"] = False
        return words

    def _message(self, message: dict[str, Any]) -> dict[str, Any]:
        shaped = {**message, "content": flatten(message.get("content"))}
        if shaped.get("role") == "developer" and not self._knows_developer:
            shaped["role"] = "system"
        return shaped


def flatten(content: Any) -> str:
    """Content as one string: a list of text parts is joined, nothing is "".

    Raises:
        PromptRejected: a part that is not text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise PromptRejected(FailureCode.INVALID_PROMPT, "This model takes text content only.", "messages")
    return "".join(text for text in texts if text)


def _cut_after_final(rendered: str, messages: list[dict[str, Any]]) -> str:
    """Drop what the template wrote after the last message, so that the model goes on with it."""
    final = messages[-1]["content"].strip() if messages else ""
    at = rendered.rfind(final)
    if not final or at < 0:
        raise PromptRejected(
            FailureCode.INVALID_PROMPT, "The final message can't be continued: it is empty or rewritten.", "messages"
        )
    return rendered[: at + len(final)]


class _LimitExceeded(jinja2.TemplateError):
    """The rendering took too long or grew too large."""


class _Generation(jinja2.ext.Extension):
    """`{% generation %}`: marks the assistant's words for training; here its body stands as it is."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a clock, which every look-up, call, loop and operator checks, and a limit of sizes.

    Operators are intercepted so that Jinja does not compute them while it compiles (`"a" * 10**10`), nor at all
    where the result would be of no use but to fill the memory.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols])
        self._clock = threading.local()
        self.filters["tojson"] = _to_json
        self.globals.update(raise_exception=_refuse, strftime_now=_now_as, range=self._range)

    def render_within(self, template: jinja2.Template, **variables: Any) -> str:
        """Render within the limits of time and size."""
        self._clock.deadline = time.monotonic() + TIME_LIMIT
        pieces, size = [], 0
        for piece in template.generate(**variables):
            size += len(piece)
            if size > SIZE_LIMIT:
                raise _LimitExceeded("the rendered text is too long")
            self._check_clock()
            pieces.append(piece)
        return "".join(pieces)

    def getattr(self, obj: Any, attribute: str) -> Any:
        self._check_clock()
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        self._check_clock()
        return super().getitem(obj, argument)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        self._check_clock()
        return super().call(*args, **kwargs)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        self._check_clock()
        if not _is_bounded(operator, left, right):
            raise _LimitExceeded(f"a result of '{operator}' is too large")
        return super().call_binop(context, operator, left, right)

    def _range(self, *args: int) -> Iterator[int]:
        for number in jinja2.sandbox.safe_range(*args):
            self._check_clock()
            yield number

    def _check_clock(self) -> None:
        if time.monotonic() > getattr(self._clock, "deadline", float("inf")):
            raise _LimitExceeded("rendering took too long")


def _is_bounded(operator: str, left: Any, right: Any) -> bool:
    """Whether a result has `SIZE_LIMIT` elements at most, or a number that is no larger than people write."""
    sizes = [len(value) if isinstance(value, str | list | tuple) else None for value in (left, right)]
    if operator == "+":
        return sum(size or 0 for size in sizes) <= SIZE_LIMIT
    if operator == "%":
        return not isinstance(left, str) or _WIDE.search(left) is None
    numbers = [value for value in (left, right) if isinstance(value, int)]
    if operator == "**":
        return all(abs(number) <= LARGEST_POWER for number in numbers)
    size = next((size for size in sizes if size is not None), None)
    if size is not None:
        return all(size * number <= SIZE_LIMIT for number in numbers)
    return all(number.bit_length() <= LARGEST_BITS for number in numbers)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now_as(format: str) -> str:
    return datetime.now().strftime(format)
