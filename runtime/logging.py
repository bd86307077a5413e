"""Configures the logging of a process: one line per event on stderr, for our code and libraries, with secrets masked.

Secrets are masked in the rendered line, so values, exceptions and library messages are all covered. They are recognised
by their format. Prompt text has none, so it must never be passed to a logger.

Use `structlog.get_logger(__name__)`; the event is short lower-case English, values are keyword arguments.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
import warnings
from types import TracebackType
from typing import Literal, TextIO

import structlog
from opentelemetry import trace
from structlog.typing import EventDict, Processor, WrappedLogger

LogStyle = Literal["console", "json"]

_SECRETS = (
    (re.compile(r"hr_live_[A-Za-z0-9_\-]+"), "hr_live_***"),
    (re.compile(r"\beyJ[A-Za-z0-9_\-]{6,}(?:\.[A-Za-z0-9_\-]*){1,4}"), "eyJ***"),
    (re.compile(r"(?i)\bbearer\s+[A-Za-z0-9._~+/=\-]+"), "Bearer ***"),
    (re.compile(r"(://[^:/@\s]*):[^@/\s]+@"), r"\1:***@"),
)


def mask_secrets(text: str) -> str:
    """Return `text` with API keys, JWTs, bearer tokens and passwords in URLs masked."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def configure(process: str, *, style: LogStyle = "console", level: str = "info") -> None:
    """Configure logging of this process, for structlog and the standard library, to stderr. Call it once per process.

    Args:
        process: name of the process on each line, e.g. `gateway-1`.
        style: `console` for terminals, `json` (one object per line) for log collectors.
        level: minimum level of Headrace's own messages: `debug`, `info`, `warning` or `error`.
    """

    def name_process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["process"] = process
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        name_process,
        _add_trace_id,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer = _renderer(style)
    _configure_standard_library(shared, renderer)
    structlog.configure(
        processors=[*shared, *renderer, _mask_line],
        logger_factory=_Lines,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
    _log_uncaught()


class _Lines:
    """Logger that writes to stderr directly, at half the cost of the standard library's handler."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def msg(self, line: str) -> None:
        """Write one log line to stderr."""
        sys.stderr.write(f"{line}\n")

    debug = info = warning = error = critical = msg


class _Handler(logging.StreamHandler[TextIO]):
    """Handler of the standard library's lines; reports a failing line without its text, which would be unmasked."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Report on stderr that a record of the standard library could not be logged, without its unmasked text."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"a message of {record.name} could not be logged\n")


def _configure_standard_library(shared: list[Processor], renderer: list[Processor]) -> None:
    handler = _Handler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer, _mask_line],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(True)
    # FastAPI ignores this warning of its own path parameters within `catch_warnings`, which other threads undo.
    warnings.filterwarnings("ignore", "The 'alias' attribute")


def _renderer(style: LogStyle) -> list[Processor]:
    # Plain tracebacks in both styles: rich ones print local variables, which may be secrets or prompts.
    if style == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    colours = sys.stderr.isatty()
    return [structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)]


def _mask_line(_logger: WrappedLogger, _method: str, line: object) -> str:
    return mask_secrets(str(line))


def _add_trace_id(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
    return event


def _log_uncaught() -> None:
    """Log uncaught exceptions, because Python's own hooks print tracebacks unmasked."""
    log = structlog.get_logger(__name__)

    def of_process(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, traceback)
            return
        log.critical("uncaught exception", exc_info=(kind, error, traceback))

    def of_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
            of_process(args.exc_type, args.exc_value, args.exc_traceback)

    sys.excepthook = of_process
    threading.excepthook = of_thread
